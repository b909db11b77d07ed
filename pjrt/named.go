package pjrt

/*
#include <string.h>
#include "bridge.h"

static const char *value_string(const PJRT_NamedValue *v) { return v->string_value; }
static int64_t value_int64(const PJRT_NamedValue *v) { return v->int64_value; }
static const int64_t *value_list(const PJRT_NamedValue *v) { return v->int64_array_value; }
static float value_float(const PJRT_NamedValue *v) { return v->float_value; }
static bool value_bool(const PJRT_NamedValue *v) { return v->bool_value; }

static void set_string(PJRT_NamedValue *v, const char *s) { v->string_value = s; }
static void set_int64(PJRT_NamedValue *v, int64_t i) { v->int64_value = i; }
static void set_list(PJRT_NamedValue *v, const int64_t *l) { v->int64_array_value = l; }
static void set_float(PJRT_NamedValue *v, float f) { v->float_value = f; }
static void set_bool(PJRT_NamedValue *v, bool b) { v->bool_value = b; }
*/
import "C"

import (
	"sort"
	"unsafe"
)

// namedValues copies the plugin's named values. The elements are found by their
// own struct_size, which a newer plugin may have grown.
func namedValues(items unsafe.Pointer, count C.size_t) map[string]any {
	out := make(map[string]any, int(count))
	for range int(count) {
		v := (*C.PJRT_NamedValue)(items)
		name := goText(unsafe.Pointer(v.name), v.name_size)
		switch v._type {
		case C.PJRT_NamedValue_kString:
			out[name] = goText(unsafe.Pointer(C.value_string(v)), v.value_size)
		case C.PJRT_NamedValue_kInt64:
			out[name] = int64(C.value_int64(v))
		case C.PJRT_NamedValue_kInt64List:
			list := make([]int64, int(v.value_size))
			copy(list, unsafe.Slice((*int64)(unsafe.Pointer(C.value_list(v))), len(list)))
			out[name] = list
		case C.PJRT_NamedValue_kFloat:
			out[name] = float32(C.value_float(v))
		case C.PJRT_NamedValue_kBool:
			out[name] = bool(C.value_bool(v))
		}
		step := unsafe.Sizeof(*v)
		if s := uintptr(v.struct_size); s > step {
			step = (s + 7) &^ 7
		}
		items = unsafe.Add(items, step)
	}
	return out
}

// options is a C array of named values with all that it points to, in one
// allocation.
type options struct {
	values *C.PJRT_NamedValue
	count  C.size_t
	size   C.size_t
}

// newOptions lays out the options in C memory, sorted by name so that a plugin
// sees the same order each time. fn names the call in errors.
func newOptions(fn fnID, values map[string]any) (options, error) {
	names := make([]string, 0, len(values))
	size := uintptr(0)
	for name, value := range values {
		names = append(names, name)
		size += unsafe.Sizeof(C.PJRT_NamedValue{}) + padded(len(name))
		switch v := value.(type) {
		case string:
			size += padded(len(v))
		case []int64:
			size += padded(8 * len(v))
		case bool, int64, int, float32:
		default:
			return options{}, invalid(fn, "option %q has type %T; "+
				"string, bool, int64, int, []int64 and float32 are possible", name, value)
		}
	}
	if len(names) == 0 {
		return options{}, nil
	}
	sort.Strings(names)
	base := C.pjc_alloc(C.PJC_MEM_OPTIONS, C.size_t(size))
	if base == nil {
		return options{}, newError(ResourceExhausted, fn, "no host memory for options")
	}
	o := options{(*C.PJRT_NamedValue)(base), C.size_t(len(names)), C.size_t(size)}
	rest := unsafe.Add(base, uintptr(len(names))*unsafe.Sizeof(C.PJRT_NamedValue{}))
	put := func(from unsafe.Pointer, bytes int) unsafe.Pointer {
		at := rest
		copy(unsafe.Slice((*byte)(at), bytes), unsafe.Slice((*byte)(from), bytes))
		rest = unsafe.Add(rest, padded(bytes))
		return at
	}
	list := unsafe.Slice(o.values, len(names))
	for i, name := range names {
		v := &list[i]
		v.struct_size = C.size_t(unsafe.Sizeof(*v))
		v.name = (*C.char)(put(unsafe.Pointer(unsafe.StringData(name)), len(name)))
		v.name_size = C.size_t(len(name))
		setValue(v, values[name], put)
	}
	return o, nil
}

// setValue writes one value of a type that newOptions has checked; put copies
// bytes into the allocation.
func setValue(v *C.PJRT_NamedValue, value any, put func(unsafe.Pointer, int) unsafe.Pointer) {
	v.value_size = 1
	switch x := value.(type) {
	case string:
		v._type = C.PJRT_NamedValue_kString
		v.value_size = C.size_t(len(x))
		C.set_string(v, (*C.char)(put(unsafe.Pointer(unsafe.StringData(x)), len(x))))
	case []int64:
		v._type = C.PJRT_NamedValue_kInt64List
		v.value_size = C.size_t(len(x))
		C.set_list(v, (*C.int64_t)(put(unsafe.Pointer(unsafe.SliceData(x)), 8*len(x))))
	case int64:
		v._type = C.PJRT_NamedValue_kInt64
		C.set_int64(v, C.int64_t(x))
	case int:
		v._type = C.PJRT_NamedValue_kInt64
		C.set_int64(v, C.int64_t(x))
	case float32:
		v._type = C.PJRT_NamedValue_kFloat
		C.set_float(v, C.float(x))
	case bool:
		v._type = C.PJRT_NamedValue_kBool
		C.set_bool(v, C.bool(x))
	}
}

// padded is the size of bytes with padding, so that what follows is aligned.
func padded(bytes int) uintptr { return (uintptr(bytes) + 7) &^ 7 }

func (o *options) free() { C.pjc_free(C.PJC_MEM_OPTIONS, unsafe.Pointer(o.values), o.size) }
