package pjrt

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -I${SRCDIR}/third_party
#cgo LDFLAGS: -ldl -lpthread
#include <stdlib.h>
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// LoadReason says why a plugin could not be loaded.
type LoadReason int

// The reasons of a LoadError.
const (
	NotAbsolute    LoadReason = iota + 1 // the path is relative
	MissingFile                          // no such file, or not a readable one
	NotALibrary                          // not a shared library of this machine
	LinkFailure                          // a library it needs, or a symbol, is missing
	NoEntryPoint                         // it does not export GetPjrtApi
	BadTable                             // GetPjrtApi gave no table, or a truncated one
	APITooOld                            // its interface is older than 0.57
	APITooNew                            // its interface has a newer major version
	NotInitialized                       // PJRT_Plugin_Initialize failed
)

// LoadError is the failure to load a plugin. The process stays usable.
type LoadError struct {
	Path   string
	Reason LoadReason
	// Detail is a sentence for the user.
	Detail string
	// Err is the cause where there is one, such as an fs.ErrNotExist or an *Error.
	Err error
}

// Error names the file and what is wrong with it.
func (e *LoadError) Error() string { return "pjrt: load " + e.Path + ": " + e.Detail }

// Unwrap is the cause, or nil.
func (e *LoadError) Unwrap() error { return e.Err }

// Plugin is a loaded plugin. It stays loaded until the process ends: plugins
// start threads of their own, whose code must not be unmapped.
type Plugin struct {
	path         string
	api          *C.pj_api
	major, minor int
	attributes   map[string]any
}

// loaded remembers plugins by their table, because the interface allows one
// initialization per process.
var loaded struct {
	sync.Mutex
	byTable map[*C.pj_api]*Plugin // guarded by the mutex; plugins are never unloaded
}

// Load opens the plugin at an absolute path, negotiates the version of the
// interface and initializes it. Loading the same library again returns the same
// *Plugin. Failures are *LoadError.
func Load(path string) (*Plugin, error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	api, err := openPlugin(path)
	if err != nil {
		return nil, err
	}
	loaded.Lock()
	defer loaded.Unlock()
	if p := loaded.byTable[api]; p != nil {
		return p, nil
	}
	p := &Plugin{path: path, api: api}
	if err := p.negotiate(); err != nil {
		return nil, err
	}
	if err := call(p, C.pj_fn_Plugin_Initialize, &C.pj_nothing{}); err != nil {
		return nil, &LoadError{path, NotInitialized, err.Error(), err}
	}
	if p.attributes, err = p.readAttributes(); err != nil {
		return nil, &LoadError{path, NotInitialized, err.Error(), err}
	}
	if loaded.byTable == nil {
		loaded.byTable = make(map[*C.pj_api]*Plugin)
	}
	loaded.byTable[api] = p
	return p, nil
}

// Preload opens a library that a plugin needs and cannot find by itself, at an
// absolute path. Its symbols are not made visible to other libraries; a plugin
// that is linked against its name finds it loaded.
func Preload(path string) error {
	if err := checkFile(path); err != nil {
		return err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	words := make([]byte, 1024)
	// dlerror's text belongs to the thread that called dlopen; the C function
	// reads it before it returns, the lock keeps Go's part on that thread too.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if C.pjc_preload(name, (*C.char)(unsafe.Pointer(&words[0])), C.size_t(len(words))) != 0 {
		return linkError(path, words)
	}
	return nil
}

// checkFile finds the mistakes that the loader would describe badly.
func checkFile(path string) error {
	if !filepath.IsAbs(path) {
		return &LoadError{path, NotAbsolute, "a plugin is loaded from an absolute path only", nil}
	}
	f, err := os.Open(path)
	if err != nil {
		detail := "cannot be read: " + err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			detail = "no such file"
		}
		return &LoadError{path, MissingFile, detail, err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return &LoadError{path, NotALibrary, "not a file", err}
	}
	magic := make([]byte, 4)
	if n, _ := f.ReadAt(magic, 0); n < 4 || string(magic) != "\x7fELF" {
		return &LoadError{path, NotALibrary, "not a shared library", nil}
	}
	return nil
}

func openPlugin(path string) (*C.pj_api, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	words := make([]byte, 1024)
	var api *C.pj_api
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	switch C.pjc_load(name, &api, (*C.char)(unsafe.Pointer(&words[0])), C.size_t(len(words))) {
	case C.PJC_LOAD_OK:
		return api, nil
	case C.PJC_LOAD_NO_ENTRY:
		return nil, &LoadError{path, NoEntryPoint,
			"not a PJRT plugin: it does not export GetPjrtApi", nil}
	case C.PJC_LOAD_NO_API:
		return nil, &LoadError{path, BadTable, "GetPjrtApi returned null", nil}
	}
	return nil, linkError(path, words)
}

// linkError makes an error of the loader's words. The loader has no codes; what
// it says of damaged files is known.
func linkError(path string, words []byte) error {
	text := C.GoString((*C.char)(unsafe.Pointer(&words[0])))
	reason := LinkFailure
	for _, damage := range []string{"file too short", "ELF header", "ELF file", "wrong ELF class"} {
		if strings.Contains(text, damage) {
			reason = NotALibrary
		}
	}
	return &LoadError{path, reason, "the loader refuses it: " + text, nil}
}

// negotiate checks that the table is one that this client can read.
func (p *Plugin) negotiate() error {
	refuse := func(reason LoadReason, format string, args ...any) error {
		return &LoadError{p.path, reason, fmt.Sprintf(format, args...), nil}
	}
	size := int(p.api.struct_size)
	head := int(unsafe.Offsetof(p.api.fn))
	if size < head {
		return refuse(BadTable, "its table has %d bytes, fewer than the %d of a header", size, head)
	}
	p.major, p.minor = int(p.api.version.major_version), int(p.api.version.minor_version)
	switch {
	case p.major > C.PJRT_API_MAJOR:
		return refuse(APITooNew, "its API is %d.%d, this client speaks %d.%d to %d.x",
			p.major, p.minor, C.PJRT_API_MAJOR, C.PJ_OLDEST_MINOR, C.PJRT_API_MAJOR)
	case p.major < C.PJRT_API_MAJOR || p.minor < C.PJ_OLDEST_MINOR:
		return refuse(APITooOld, "its API is %d.%d, older than %d.%d",
			p.major, p.minor, C.PJRT_API_MAJOR, C.PJ_OLDEST_MINOR)
	}
	for _, fn := range []C.int{
		C.pj_fn_Error_Destroy, C.pj_fn_Error_Message, C.pj_fn_Error_GetCode,
		C.pj_fn_Plugin_Initialize,
	} {
		if !bool(C.pjc_has(p.api, fn)) {
			return refuse(BadTable, "its table of %d bytes lacks %s", size, functionName(fn))
		}
	}
	return nil
}

// Path is where the plugin was loaded from.
func (p *Plugin) Path() string { return p.path }

// APIVersion is the version of the interface that the plugin reports.
func (p *Plugin) APIVersion() (major, minor int) { return p.major, p.minor }

// Has reports whether the plugin has the function of this name, with or without
// the prefix "PJRT_". It is false for a name that this client does not know.
func (p *Plugin) Has(name string) bool {
	name = strings.TrimPrefix(name, "PJRT_")
	for fn := C.int(0); fn < C.pj_fn_count; fn++ {
		if C.GoString(C.pjc_function_name(fn)) == name {
			return bool(C.pjc_has(p.api, fn))
		}
	}
	return false
}

// Functions lists the functions of the interface that this client knows, in the
// interface's order, and whether the plugin has each.
func (p *Plugin) Functions() []Function {
	list := make([]Function, C.pj_fn_count)
	for fn := range list {
		list[fn] = Function{functionName(C.int(fn)), bool(C.pjc_has(p.api, C.int(fn)))}
	}
	return list
}

// Function is one entry of a plugin's table.
type Function struct {
	Name    string // such as PJRT_Client_Compile
	Present bool
}

// Attributes are the plugin's own statements about itself, read when it was
// loaded. Values are string, bool, int64, []int64 or float32. Common keys:
// xla_version, stablehlo_current_version, stablehlo_minimum_version.
func (p *Plugin) Attributes() map[string]any {
	out := make(map[string]any, len(p.attributes))
	for name, value := range p.attributes {
		out[name] = value
	}
	return out
}

// StableHLOVersion is the StableHLO version that the plugin's compiler has, as
// major, minor, patch; ok is false when the plugin does not say.
func (p *Plugin) StableHLOVersion() (version [3]int, ok bool) {
	list, ok := p.attributes["stablehlo_current_version"].([]int64)
	if !ok || len(list) != 3 {
		return version, false
	}
	for i, v := range list {
		version[i] = int(v)
	}
	return version, true
}

func (p *Plugin) readAttributes() (map[string]any, error) {
	if !bool(C.pjc_has(p.api, C.pj_fn_Plugin_Attributes)) {
		return nil, nil
	}
	var block C.PJRT_Plugin_Attributes_Args
	if err := call(p, C.pj_fn_Plugin_Attributes, &block); err != nil {
		return nil, err
	}
	return namedValues(unsafe.Pointer(block.attributes), block.num_attributes), nil
}

// roomy is a block with the zeros behind it that a newer plugin is given.
type roomy[Block any] struct {
	block Block
	tail  [C.PJC_TAIL]byte
}

// sized puts a block into the room and states its size.
func sized[Block any](p *Plugin, block Block) *roomy[Block] {
	r := &roomy[Block]{block: block}
	*(*C.size_t)(unsafe.Pointer(r)) = C.size_t(unsafe.Sizeof(block)) + C.pjc_tail(p.api)
	return r
}

// call is the path of every call that is not on the hot path. It states the block's size, and calls through the table
// if the table has the function. It turns an error object into an *Error. The block is passed from the heap, where it
// stays put even if the plugin's code runs Go code on this stack.
func call[Block any](p *Plugin, fn fnID, block *Block) error {
	r := sized(p, *block)
	e := C.pjc_call(p.api, fn, unsafe.Pointer(&r.block))
	*block = r.block
	if e != 0 {
		return p.fail(fn, e)
	}
	return nil
}

// opaque is an object, which Go holds as a number, as the pointer that PJRT's blocks have.
func opaque[Pointer any](handle uintptr) Pointer { return *(*Pointer)(unsafe.Pointer(&handle)) }

// The shapes of call that most functions have.

func (p *Plugin) do(fn fnID, object uintptr) error {
	return call(p, fn, &C.pj_object{object: C.uintptr_t(object)})
}

func (p *Plugin) word(fn fnID, object uintptr) (uintptr, error) {
	r := C.pjc_word(p.api, C.int(fn), C.uintptr_t(object))
	if r.error != 0 {
		return 0, p.fail(fn, r.error)
	}
	return uintptr(r.object), nil
}

func (p *Plugin) number(fn fnID, object uintptr) (int, error) {
	block := C.pj_int{object: C.uintptr_t(object)}
	err := call(p, fn, &block)
	return int(block.number), err
}

func (p *Plugin) truth(fn fnID, object uintptr) (bool, error) {
	block := C.pj_bool{object: C.uintptr_t(object)}
	err := call(p, fn, &block)
	return bool(block.truth), err
}

func (p *Plugin) pair(fn fnID, object, target uintptr) (uintptr, error) {
	block := C.pj_pair{object: C.uintptr_t(object), target: C.uintptr_t(target)}
	err := call(p, fn, &block)
	return uintptr(block.word), err
}

func (p *Plugin) list(fn fnID, object uintptr) (items unsafe.Pointer, count C.size_t, err error) {
	block := C.pj_list{object: C.uintptr_t(object)}
	err = call(p, fn, &block)
	return unsafe.Pointer(block.items), block.count, err
}

func (p *Plugin) text(fn fnID, object uintptr) (string, error) {
	items, count, err := p.list(fn, object)
	if err != nil {
		return "", err
	}
	return goText(items, count), nil
}

func (p *Plugin) objects(fn fnID, object uintptr) ([]uintptr, error) {
	items, count, err := p.list(fn, object)
	if err != nil || items == nil {
		return nil, err
	}
	return append([]uintptr(nil), unsafe.Slice((*uintptr)(items), int(count))...), nil
}

// bytes copies what a plugin makes for the caller and has it freed.
func (p *Plugin) bytes(fn fnID, object uintptr) ([]byte, error) {
	block := C.pj_bytes{object: C.uintptr_t(object)}
	if err := call(p, fn, &block); err != nil {
		return nil, err
	}
	defer C.pjc_delete_bytes(&block)
	return []byte(goText(unsafe.Pointer(block.bytes), block.size)), nil
}
