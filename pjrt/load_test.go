package pjrt

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/pjrt/nullplugin"
)

// library compiles C source into a shared library.
func library(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "library.c"), filepath.Join(dir, "library.so")
	if err := os.WriteFile(from, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-shared", "-fPIC", "-o", to, from).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return to
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.so")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoadRefuses(t *testing.T) {
	whole, err := os.ReadFile(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		path   func(t *testing.T) string
		reason LoadReason
		words  string
	}{
		{"relative path", func(*testing.T) string { return "plugin.so" }, NotAbsolute, "absolute path"},
		{"missing file", func(t *testing.T) string { return filepath.Join(t.TempDir(), "none.so") }, MissingFile, "no such file"},
		{"directory", func(t *testing.T) string { return t.TempDir() }, NotALibrary, "not a file"},
		{"text", func(t *testing.T) string { return file(t, []byte("#!/bin/sh\n")) }, NotALibrary, "not a shared library"},
		{"empty file", func(t *testing.T) string { return file(t, nil) }, NotALibrary, "not a shared library"},
		{"truncated library", func(t *testing.T) string { return file(t, whole[:40]) }, NotALibrary, "file too short"},
		{"no entry point", func(t *testing.T) string { return library(t, "int x;") }, NoEntryPoint, "GetPjrtApi"},
		{"missing symbol", func(t *testing.T) string {
			return library(t, "int absent(void); void *GetPjrtApi(void) { return (void *)(long)absent(); }")
		}, LinkFailure, "absent"},
		{"null table", func(t *testing.T) string {
			return library(t, "void *GetPjrtApi(void) { return 0; }")
		}, BadTable, "null"},
		{"null plugin without a table", func(t *testing.T) string {
			t.Setenv("NULL_PJRT_NO_TABLE", "1")
			return nullplugin.Copy(t)
		}, BadTable, "null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := c.path(t)
			_, err := Load(path)
			wantLoadError(t, err, c.reason, c.words)
			if err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("%v does not name the file %s", err, path)
			}
		})
	}
	// The process is none the worse for it.
	f := newFixture(t, nil)
	if f.PlatformName() != "null" {
		t.Errorf("after the failures: %q", f.PlatformName())
	}
}

func wantLoadError(t *testing.T, err error, reason LoadReason, words string) {
	t.Helper()
	var e *LoadError
	if !errors.As(err, &e) || e.Reason != reason || !strings.Contains(e.Detail, words) {
		t.Errorf("got %v (%#v), want reason %d with %q", err, err, reason, words)
	}
}

func TestLoadErrorUnwraps(t *testing.T) {
	_, err := Load("/nowhere/plugin.so")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestPreload(t *testing.T) {
	if err := Preload(library(t, "int x;")); err != nil {
		t.Error(err)
	}
	wantLoadError(t, Preload("some.so"), NotAbsolute, "absolute path")
	wantLoadError(t, Preload(library(t, "int absent(void); int x(void) { return absent(); }")), LinkFailure, "absent")
}

// tableHead is the bytes of a table before its functions.
const tableHead = 40

// TestVersions loads the null plugin under versions other than its own.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		name, api, size, faults string
		reason                  LoadReason
		words                   string
	}{
		{"newer minor", "0.114", "", "", 0, ""},
		{"oldest", "0.57", "", "", 0, ""},
		{"too old", "0.40", "", "", APITooOld, "0.40"},
		{"newer major", "1.0", "", "", APITooNew, "1.0"},
		{"no header", "0.90", "24", "", BadTable, "24 bytes"},
		{"no functions", "0.90", strconv.Itoa(tableHead + 8), "", BadTable, "PJRT_Error_Message"},
		{"failing initialization", "0.90", "", "Plugin_Initialize:1:UNAVAILABLE:no device", NotInitialized, "no device"},
		{"failing attributes", "0.90", "", "Plugin_Attributes:1:INTERNAL", NotInitialized, "INTERNAL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("NULL_PJRT_API", c.api)
			if c.size != "" {
				t.Setenv("NULL_PJRT_STRUCT_SIZE", c.size)
			}
			t.Setenv("NULL_PJRT_FAULTS", c.faults)
			plugin, err := Load(nullplugin.Copy(t))
			if c.reason != 0 {
				wantLoadError(t, err, c.reason, c.words)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if major, minor := plugin.APIVersion(); major != 0 || "0."+strconv.Itoa(minor) != c.api {
				t.Errorf("got %d.%d, want %s", major, minor, c.api)
			}
		})
	}
}

func TestFailedLoadCanBeRepeated(t *testing.T) {
	t.Setenv("NULL_PJRT_FAULTS", "Plugin_Initialize:1:UNAVAILABLE")
	path := nullplugin.Copy(t)
	if _, err := Load(path); err == nil {
		t.Fatal("the failing plugin was loaded")
	}
	if _, err := Load(path); err != nil {
		t.Errorf("the second try: %v", err)
	}
}

func TestLoadTwice(t *testing.T) {
	path := nullplugin.Build(t)
	a, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	control := nullplugin.Open(t, path)
	control.StartTrace()
	b, err := Load(path)
	if err != nil || a != b {
		t.Errorf("got %p and %p, %v", a, b, err)
	}
	if calls := control.StopTrace(); len(calls) != 0 {
		t.Errorf("the second time called %v", calls)
	}
	if a.Path() != path {
		t.Errorf("path %q, want %q", a.Path(), path)
	}
}

func TestPluginFacts(t *testing.T) {
	plugin, err := Load(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	a := plugin.Attributes()
	if a["name"] != "null plugin" || a["xla_version"] != int64(2) || a["real"] != false || a["speed"] != float32(0.5) {
		t.Errorf("attributes %v", a)
	}
	if v, ok := plugin.StableHLOVersion(); !ok || v != [3]int{1, 13, 7} {
		t.Errorf("StableHLO version %v, %v", v, ok)
	}
	if !plugin.Has("Client_Compile") || !plugin.Has("PJRT_Client_Compile") {
		t.Error("Client_Compile is said to be absent")
	}
	if plugin.Has("Compile") || plugin.Has("Client_Dance") {
		t.Error("an absent function is said to be there")
	}
	functions := plugin.Functions()
	present := 0
	for _, fn := range functions {
		if fn.Present {
			present++
		}
	}
	if len(functions) != 128 || functions[0].Name != "PJRT_Error_Destroy" || present < 80 || present == 128 {
		t.Errorf("%d of %d functions, the first %v", present, len(functions), functions[0])
	}
	if len(plugin.Extensions()) != 0 {
		t.Errorf("extensions %v", plugin.Extensions())
	}
}

func TestExtensions(t *testing.T) {
	t.Setenv("NULL_PJRT_EXTENSIONS", "5,4,77")
	plugin, err := Load(nullplugin.Copy(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range plugin.Extensions() {
		names = append(names, e.Type.String())
		if e.Size != 24 || e.Pointer == nil {
			t.Errorf("%v: %d bytes at %p", e.Type, e.Size, e.Pointer)
		}
	}
	if !slices.Equal(names, []string{"FFI", "Layouts", "EXTENSION(77)"}) {
		t.Errorf("got %v", names)
	}
	if _, ok := plugin.Extension(ExtFFI); !ok {
		t.Error("the FFI extension was not found")
	}
	if _, ok := plugin.Extension(ExtStream); ok {
		t.Error("a stream extension was found")
	}
}

// TestAbsentFunctions drives a plugin whose table is short, has nulls, or both.
func TestAbsentFunctions(t *testing.T) {
	t.Setenv("NULL_PJRT_ABSENT", "Executable_Fingerprint,Buffer_CopyToMemory,Client_AddressableMemories,"+
		"Plugin_Attributes,Device_MemoryStats,Event_OnReady,Buffer_ReadyEvent")
	f := fixtureAt(t, nullplugin.Copy(t), map[string]any{"devices": int64(2)})
	if a := f.Plugin().Attributes(); len(a) != 0 {
		t.Errorf("attributes %v", a)
	}
	if _, ok := f.Plugin().StableHLOVersion(); ok {
		t.Error("a StableHLO version without attributes")
	}
	if m := f.AddressableMemories(); len(m) != 0 {
		t.Errorf("memories %v", m)
	}
	_, err := f.AddressableDevices()[0].MemoryStats()
	wantCode(t, err, Unimplemented, "Device_MemoryStats", "does not have")
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	if s, err := x.Fingerprint(); err != nil || len(s) != 16 {
		t.Errorf("the older function's fingerprint: %q, %v", s, err)
	}
	b := f.array(0, []int64{2}, 1, 2)
	defer f.destroy(b)
	_, err = f.Ready(b)
	wantCode(t, err, Unimplemented, "Buffer_ReadyEvent", "API 0.90")
	q, err := f.NewCompletionQueue()
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	e, err := f.ToHost(b, pinnedPointer(t, 8), 8)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, q.Watch(e, 1), Unimplemented, "Event_OnReady", "does not have")
	if err := f.AwaitAndDestroy(e); err != nil {
		t.Error(err)
	}
}

// TestShortTable drives a plugin of the oldest version, whose table ends before the functions of later ones.
func TestShortTable(t *testing.T) {
	whole, err := Load(nullplugin.Build(t))
	if err != nil {
		t.Fatal(err)
	}
	last := slices.IndexFunc(whole.Functions(), func(f Function) bool { return f.Name == "PJRT_Client_TopologyDescription" })
	t.Setenv("NULL_PJRT_API", "0.57")
	t.Setenv("NULL_PJRT_STRUCT_SIZE", strconv.Itoa(tableHead+8*(last+1)))
	path := nullplugin.Copy(t)
	oldest, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if results, err := train(oldest, 1); err != nil || fmt.Sprint(results) != trained {
		t.Errorf("%v, %v", results, err)
	}
	f := fixtureAt(t, path, nil)
	x := f.compile(binary("add", "tensor<2xf32>"), CompileOptions{})
	_, err = x.MemoryStats()
	wantCode(t, err, Unimplemented, "Executable_GetCompiledMemoryStats", "does not have")
	if f.Plugin().Has("Memory_Kind_Id") {
		t.Error("a function beyond the table's end is said to be there")
	}
}

// TestNewerPlugin drives a plugin whose blocks are all longer than this client
// knows them, as those of newer interfaces are.
func TestNewerPlugin(t *testing.T) {
	t.Setenv("NULL_PJRT_API", "0.114")
	t.Setenv("NULL_PJRT_GROW", "96")
	path := nullplugin.Copy(t)
	plugin, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if results, err := train(plugin, 1); err != nil || fmt.Sprint(results) != trained {
		t.Errorf("%v, %v", results, err)
	}
	f := fixtureAt(t, path, nil)
	x := f.compile(stepModule, CompileOptions{})
	if code, _, err := x.OptimizedProgram(); err != nil || string(code) != stepModule {
		t.Errorf("%v: %s", err, code)
	}
	b := f.array(0, []int64{2}, 1, 2)
	_, err = f.tryRead(b, 1)
	wantCode(t, err, InvalidArgument, "Buffer_ToHostBuffer", "4 bytes of room")
	f.destroy(b)
}
