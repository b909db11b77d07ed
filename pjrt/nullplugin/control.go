package nullplugin

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef struct {
  void (*live)(int64_t *);
  int (*arm)(const char *);
  int (*armed)(void);
  void (*disarm)(void);
  int (*function_count)(void);
  const char *(*function_name)(int);
  void (*trace)(int);
  size_t (*trace_read)(int32_t *, size_t);
  void (*hold)(int);
} control;

static int control_open(control *c, const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) return 0;
  *(void **)&c->live = dlsym(library, "null_live");
  *(void **)&c->arm = dlsym(library, "null_arm");
  *(void **)&c->armed = dlsym(library, "null_armed");
  *(void **)&c->disarm = dlsym(library, "null_disarm");
  *(void **)&c->function_count = dlsym(library, "null_function_count");
  *(void **)&c->function_name = dlsym(library, "null_function_name");
  *(void **)&c->trace = dlsym(library, "null_trace");
  *(void **)&c->trace_read = dlsym(library, "null_trace_read");
  *(void **)&c->hold = dlsym(library, "null_hold");
  return c->hold && c->live && c->arm && c->armed && c->disarm && c->function_count &&
         c->function_name && c->trace && c->trace_read;
}

static void call_live(control *c, int64_t *out) { c->live(out); }
static int call_arm(control *c, const char *s) { return c->arm(s); }
static int call_armed(control *c) { return c->armed(); }
static void call_disarm(control *c) { c->disarm(); }
static int call_function_count(control *c) { return c->function_count(); }
static const char *call_function_name(control *c, int fn) { return c->function_name(fn); }
static void call_trace(control *c, int on) { c->trace(on); }
static void call_hold(control *c, int on) { c->hold(on); }
static size_t call_trace_read(control *c, int32_t *out, size_t n) { return c->trace_read(out, n); }
*/
import "C"

import (
	"runtime"
	"testing"
	"unsafe"
)

// Control reads and sets the state of a loaded plugin, beside the PJRT interface.
// The state is the library's: tests that share a library share it.
type Control struct {
	tb testing.TB
	c  C.control
}

// Open finds the state of the plugin at path, which is what Build or Copy gave.
func Open(tb testing.TB, path string) *Control {
	tb.Helper()
	c := &Control{tb: tb}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if C.control_open(&c.c, name) == 0 {
		tb.Fatalf("%s is not the null plugin", path)
	}
	return c
}

// Arm arms faults, several separated by commas, each counted from now on:
//
//	Buffer_ToHostBuffer:2:INTERNAL               the 2nd call fails
//	Client_Compile:1:RESOURCE_EXHAUSTED:no room  with this message
//	LoadedExecutable_Execute@event:1:ABORTED     the call succeeds, what it started fails
//	LoadedExecutable_Execute@deleted:1           the call succeeds, the buffers that it makes are deleted
//
// A destroying function that fails has destroyed all the same. A fault fires
// once.
func (c *Control) Arm(specification string) {
	c.tb.Helper()
	s := C.CString(specification)
	defer C.free(unsafe.Pointer(s))
	if C.call_arm(&c.c, s) == 0 {
		c.tb.Fatalf("the null plugin cannot read the fault %q", specification)
	}
}

// Armed is the number of faults that have not fired.
func (c *Control) Armed() int { return int(C.call_armed(&c.c)) }

// Disarm forgets the faults that have not fired.
func (c *Control) Disarm() { C.call_disarm(&c.c) }

// Live is what exists in the plugin, and how often it was misused.
type Live struct {
	Clients, Buffers, Events, Loaded, Compiled, Errors int64
	// Data are blocks of device memory, Bytes their size; memory that was borrowed
	// from the caller counts as a block of no bytes.
	Data, Bytes int64
	// Violations are calls that the interface forbids, such as a short argument
	// block, or a client that is destroyed before its buffers.
	Violations int64
}

// Exceeds reports whether there is more of anything than in other.
func (l Live) Exceeds(other Live) bool {
	return l.Clients > other.Clients || l.Buffers > other.Buffers || l.Events > other.Events ||
		l.Loaded > other.Loaded || l.Compiled > other.Compiled || l.Errors > other.Errors ||
		l.Data > other.Data || l.Bytes > other.Bytes || l.Violations > other.Violations
}

// Live reads the accounts.
func (c *Control) Live() Live {
	var out [9]C.int64_t
	C.call_live(&c.c, &out[0])
	return Live{
		Clients: int64(out[0]), Events: int64(out[1]), Compiled: int64(out[2]), Errors: int64(out[3]),
		Buffers: int64(out[4]), Loaded: int64(out[5]), Data: int64(out[6]), Bytes: int64(out[7]),
		Violations: int64(out[8]),
	}
}

// Functions are the names of the interface's functions, by number.
func (c *Control) Functions() []string {
	names := make([]string, int(C.call_function_count(&c.c)))
	for i := range names {
		names[i] = C.GoString(C.call_function_name(&c.c, C.int(i)))
	}
	return names
}

// Hold stops the workers of all clients that have one (option delay_us), so that
// nothing completes until Release. The test's end releases them too.
func (c *Control) Hold() {
	C.call_hold(&c.c, 1)
	c.tb.Cleanup(c.Release)
}

// Release lets the workers go on.
func (c *Control) Release() { C.call_hold(&c.c, 0) }

// StartTrace begins a new trace of calls.
func (c *Control) StartTrace() { C.call_trace(&c.c, 1) }

// StopTrace ends the trace and returns the functions in the order of the calls.
func (c *Control) StopTrace() []string {
	C.call_trace(&c.c, 0)
	n := C.call_trace_read(&c.c, nil, 0)
	if n == 0 {
		return nil
	}
	numbers := make([]C.int32_t, int(n))
	C.call_trace_read(&c.c, &numbers[0], n)
	names := c.Functions()
	out := make([]string, len(numbers))
	for i, number := range numbers {
		out[i] = names[number]
	}
	return out
}
