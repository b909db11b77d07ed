package torchcpu

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestABI compiles assertions that compare ffi.h with XLA's own header.
func TestABI(t *testing.T) {
	header := os.Getenv("TGX_PJRT_HEADER")
	if header == "" {
		t.Skip("TGX_PJRT_HEADER, beside which XLA's header of typed custom calls lies, is not set")
	}
	include := filepath.Join(filepath.Dir(header), "..", "..", "..")
	ours, err := os.ReadFile("ffi.h")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "#include \"xla/ffi/api/c_api.h\"\n#include %q\n", absolute(t, "ffi.h"))
	count := 0
	hold := func(format string, args ...any) {
		condition := fmt.Sprintf(format, args...)
		fmt.Fprintf(&b, "_Static_assert(%s, %q);\n", condition, condition)
		count++
	}
	theirs := map[string]string{
		"ffi_extension": "XLA_FFI_Extension_Base", "ffi_version": "XLA_FFI_Api_Version",
		"ffi_error_create": "XLA_FFI_Error_Create_Args", "ffi_api": "XLA_FFI_Api", "ffi_buffer": "XLA_FFI_Buffer",
		"ffi_span": "XLA_FFI_ByteSpan", "ffi_array": "XLA_FFI_Array", "ffi_args": "XLA_FFI_Args",
		"ffi_rets": "XLA_FFI_Rets", "ffi_attrs": "XLA_FFI_Attrs", "ffi_frame": "XLA_FFI_CallFrame",
		"ffi_metadata": "XLA_FFI_Metadata", "ffi_metadata_extension": "XLA_FFI_Metadata_Extension",
	}
	structs := regexp.MustCompile(`(?s)typedef struct (?:\w+ )?\{\n(.*?)\n\} (\w+);`).FindAllStringSubmatch(string(ours), -1)
	if len(structs) != len(theirs) {
		t.Fatalf("%d structures in ffi.h, %d known to the test", len(structs), len(theirs))
	}
	member := regexp.MustCompile(`\(\*(\w+)\)\(|(\w+);`)
	for _, s := range structs {
		their := theirs[s[2]]
		for _, line := range strings.Split(s[1], "\n") {
			m := member.FindStringSubmatch(line)
			name := m[1] + m[2]
			hold("offsetof(%s, %s) == offsetof(%s, %s)", s[2], name, their, name)
			hold("sizeof(((%s *)0)->%s) == sizeof(((%s *)0)->%s)", s[2], name, their, name)
		}
	}
	for our, their := range map[string]string{
		"FFI_MAJOR": "XLA_FFI_API_MAJOR", "FFI_MINOR": "XLA_FFI_API_MINOR", "FFI_STAGE_EXECUTE": "XLA_FFI_ExecutionStage_EXECUTE",
		"FFI_INTERNAL": "XLA_FFI_Error_Code_INTERNAL", "FFI_EXTENSION_METADATA": "XLA_FFI_Extension_Metadata",
		"FFI_ATTR_ARRAY": "XLA_FFI_AttrType_ARRAY", "FFI_ATTR_STRING": "XLA_FFI_AttrType_STRING",
		"FFI_PRED": "XLA_FFI_DataType_PRED", "FFI_S8": "XLA_FFI_DataType_S8", "FFI_S16": "XLA_FFI_DataType_S16", "FFI_S32": "XLA_FFI_DataType_S32",
		"FFI_S64": "XLA_FFI_DataType_S64", "FFI_U8": "XLA_FFI_DataType_U8", "FFI_F16": "XLA_FFI_DataType_F16", "FFI_F32": "XLA_FFI_DataType_F32",
		"FFI_F64": "XLA_FFI_DataType_F64", "FFI_C64": "XLA_FFI_DataType_C64", "FFI_BF16": "XLA_FFI_DataType_BF16", "FFI_C128": "XLA_FFI_DataType_C128",
	} {
		hold("(int)%s == (int)%s", our, their)
	}
	source := filepath.Join(t.TempDir(), "abi.c")
	if err := os.WriteFile(source, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=gnu11", "-fsyntax-only", "-I"+include, source).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	t.Logf("%d assertions hold", count)
}

// TestRegisterWithoutTorch asks for the kernels in a process that has not loaded torch.
func TestRegisterWithoutTorch(t *testing.T) {
	err := Register(nil, "/nowhere/libtorch_cpu.so", 0)
	if err == nil || !strings.Contains(err.Error(), "/nowhere/libtorch_cpu.so is not loaded") {
		t.Errorf("got %v", err)
	}
}

// TestCallsThatAreRefused makes calls that no lowering makes; see testdata/calls.c.
func TestCallsThatAreRefused(t *testing.T) {
	program := filepath.Join(t.TempDir(), "calls")
	build := exec.Command("cc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-fsanitize=address,undefined", "-static-libasan", "-o", program, "testdata/calls.c", "-ldl", "-lpthread", "-lm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
