package pjrt

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// realHeader finds PJRT's own header: TGX_PJRT_HEADER names it, or an installed
// tensorflow package ships it.
func realHeader(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("TGX_PJRT_HEADER"); path != "" {
		return path
	}
	roots := []string{filepath.Join("..", "build", "xlacpu", "tensorflow")}
	// find_spec looks for the package and does not run it.
	const find = "import importlib.util as u; s = u.find_spec('tensorflow');" +
		"print(s.submodule_search_locations[0] if s else '')"
	out, err := exec.Command("python3", "-c", find).Output()
	if err == nil {
		roots = append(roots, strings.TrimSpace(string(out)))
	}
	for _, root := range roots {
		path := filepath.Join(root, "include", "xla", "pjrt", "c", "pjrt_c_api.h")
		if _, err := os.Stat(path); err == nil && root != "" {
			return path
		}
	}
	t.Skip("PJRT's own header is not here: TGX_PJRT_HEADER is not set, " +
		"build/xlacpu has no tensorflow, and python3 has no tensorflow package that ships it")
	return ""
}

// field is one member of a structure, and the minor version that added it.
type field struct {
	name  string
	since int
}

var (
	ourStruct   = regexp.MustCompile(`(?s)typedef struct (?:\w+ )?\{\n(.*?)\n\} (\w+);`)
	realStruct  = regexp.MustCompile(`(?s)\bstruct (PJRT_\w+) \{\n(.*?)\n\}`)
	ourUnion    = regexp.MustCompile(`(?s)union \{.*?\} (\w+);`)
	realUnion   = regexp.MustCompile(`(?s)union \{(.*?)\};`)
	functionPtr = regexp.MustCompile(`\(\*(\w+)\)\([^;]*\)`)
	lastWord    = regexp.MustCompile(`(\w+)(?:\[\w+\])?$`)
	sinceWord   = regexp.MustCompile(`since 0\.(\d+)`)
	comment     = regexp.MustCompile(`//[^\n]*`)
)

// fieldsOf lists the members of a structure's text, in order.
func fieldsOf(body string) []field {
	body = strings.Replace(body, "PJ_HEAD", "size_t struct_size; pj_extension *extension_start;", 1)
	body = ourUnion.ReplaceAllString(body, "int $1;")
	body = realUnion.ReplaceAllStringFunc(body, func(u string) string {
		first, _, _ := strings.Cut(realUnion.FindStringSubmatch(u)[1], ";")
		return first + ";"
	})
	var out []field
	since := 0
	for _, line := range strings.Split(body, "\n") {
		since = 0
		if m := sinceWord.FindStringSubmatch(line); m != nil {
			since, _ = strconv.Atoi(m[1])
		}
		for _, d := range strings.Split(comment.ReplaceAllString(line, ""), ";") {
			d = strings.TrimSpace(functionPtr.ReplaceAllString(d, "$1"))
			if m := lastWord.FindStringSubmatch(d); m != nil {
				out = append(out, field{m[1], since})
			}
		}
	}
	return out
}

var (
	commentAndSpace = regexp.MustCompile(`[ \t]*//[^\n]*|[ \t]+\n`)
	openLine        = regexp.MustCompile(`([^;{}\n])\n\s*`)
)

// joined puts declarations that span lines on one line each.
func joined(text string) string {
	return openLine.ReplaceAllString(commentAndSpace.ReplaceAllString(text, ""), "$1 ")
}

// TestABI compiles assertions that compare our header with PJRT's own: every
// offset and size of every structure, the place of every function in the table,
// every enumerator.
func TestABI(t *testing.T) {
	header := realHeader(t)
	theirs, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	ffi := filepath.Join(filepath.Dir(header), "pjrt_c_api_ffi_extension.h")
	more, err := os.ReadFile(ffi)
	if err != nil {
		t.Fatal(err)
	}
	theirs = append(theirs, more...)
	ours, err := os.ReadFile("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("abi_functions.h")
	if err != nil {
		t.Fatal(err)
	}
	minor := 0
	if m := regexp.MustCompile(`PJRT_API_MINOR (\d+)`).FindSubmatch(theirs); m != nil {
		minor, _ = strconv.Atoi(string(m[1]))
	}
	a := assertions{minor: minor, ours: map[string][]field{}, theirs: map[string][]field{}}
	for _, m := range ourStruct.FindAllStringSubmatch(string(ours), -1) {
		a.ours[m[2]] = fieldsOf(m[1])
	}
	for _, m := range realStruct.FindAllStringSubmatch(joined(string(theirs)), -1) {
		a.theirs[m[1]] = fieldsOf(m[2])
	}
	a.structs(t)
	implemented := a.functions(t, string(table))
	a.enumerators()
	total := strings.Count(string(theirs), "_PJRT_API_STRUCT_FIELD(PJRT_")
	compileAssertions(t, ffi, a.String())
	t.Logf("API 0.%d: %d assertions hold; this client calls %d of its %d functions",
		minor, a.count, implemented, total)
}

type assertions struct {
	strings.Builder
	minor, count int
	ours, theirs map[string][]field
}

func (a *assertions) hold(format string, args ...any) {
	condition := fmt.Sprintf(format, args...)
	fmt.Fprintf(a, "_Static_assert(%s, %q);\n", condition, condition)
	a.count++
}

// same asserts that our structure lies over theirs.
func (a *assertions) same(t *testing.T, our, their string) {
	t.Helper()
	ours := slices.DeleteFunc(slices.Clone(a.ours[our]), func(f field) bool { return f.since > a.minor })
	theirs := a.theirs[their]
	if len(ours) == 0 && our != "pj_nothing" || len(theirs) == 0 {
		t.Errorf("%s or %s was not found", our, their)
		return
	}
	if len(ours) != len(theirs) {
		t.Errorf("%s has %d fields %v, %s has %d %v", our, len(ours), ours, their, len(theirs), theirs)
		return
	}
	for i := range ours {
		a.hold("offsetof(%s, %s) == offsetof(%s, %s)", our, ours[i].name, their, theirs[i].name)
		a.hold("sizeof(((%s *)0)->%s) == sizeof(((%s *)0)->%s)", our, ours[i].name, their, theirs[i].name)
	}
	if len(ours) == len(a.ours[our]) {
		a.hold("sizeof(%s) == sizeof(%s)", our, their)
	}
}

func (a *assertions) structs(t *testing.T) {
	for our, their := range map[string]string{
		"pj_extension": "PJRT_Extension_Base", "pj_version": "PJRT_Api_Version",
		"pj_tiled_layout":         "PJRT_Buffer_MemoryLayout_Tiled",
		"pj_strided_layout":       "PJRT_Buffer_MemoryLayout_Strides",
		"pj_kv_get":               "PJRT_KeyValueGetCallback_Args",
		"pj_kv_try_get":           "PJRT_KeyValueTryGetCallback_Args",
		"pj_kv_put":               "PJRT_KeyValuePutCallback_Args",
		"pj_ffi_register_handler": "PJRT_FFI_Register_Handler_Args", "pj_ffi_extension": "PJRT_FFI_Extension",
		"pj_program": "PJRT_Program", "pj_execute_options": "PJRT_ExecuteOptions",
	} {
		a.same(t, our, their)
	}
	// Unions: ours have a name, theirs do not, so the names of their first members
	// stand for them and sizes are compared as a whole.
	for our, their := range map[string][3]string{
		"pj_named_value": {"PJRT_NamedValue", "value", "string_value"},
		"pj_layout":      {"PJRT_Buffer_MemoryLayout", "form", "tiled"},
	} {
		a.hold("offsetof(%s, %s) == offsetof(%s, %s)", our, their[1], their[0], their[2])
		a.hold("offsetof(%s, type) == offsetof(%s, type)", our, their[0])
		a.hold("sizeof(%s) == sizeof(%s)", our, their[0])
	}
	a.hold("offsetof(pj_named_value, value_size) == offsetof(PJRT_NamedValue, value_size)")
	a.hold("offsetof(pj_named_value, name) == offsetof(PJRT_NamedValue, name)")
}

// functions asserts each function's place and block, and returns how many are
// called.
func (a *assertions) functions(t *testing.T, table string) (called int) {
	for _, m := range regexp.MustCompile(`X\((\w+), (\w+)\)`).FindAllStringSubmatch(table, -1) {
		name, block := m[1], m[2]
		if name == "name" {
			continue
		}
		a.hold("offsetof(PJRT_Api, PJRT_%s) == offsetof(pj_api, fn) + sizeof(pj_function) * pj_fn_%s", name, name)
		if block != "unused" {
			called++
			a.same(t, block, "PJRT_"+name+"_Args")
		}
	}
	a.hold("offsetof(pj_api, version) == offsetof(PJRT_Api, pjrt_api_version)")
	return called
}

func (a *assertions) enumerators() {
	for i, name := range codeNames {
		a.hold("PJRT_Error_Code_%s == %d", name, i)
	}
	for i, row := range types {
		a.hold("PJRT_Buffer_Type_%s == %d", row.name, i)
	}
	for i, name := range extensionNames[:ExtShardings] {
		a.hold("PJRT_Extension_Type_%s == %d", name, i)
	}
	for our, their := range map[string]string{
		"PJ_VALUE_STRING": "PJRT_NamedValue_kString", "PJ_VALUE_INT64": "PJRT_NamedValue_kInt64",
		"PJ_VALUE_INT64_LIST": "PJRT_NamedValue_kInt64List", "PJ_VALUE_FLOAT": "PJRT_NamedValue_kFloat",
		"PJ_VALUE_BOOL":                    "PJRT_NamedValue_kBool",
		"PJ_LAYOUT_TILED":                  "PJRT_Buffer_MemoryLayout_Type_Tiled",
		"PJ_LAYOUT_STRIDES":                "PJRT_Buffer_MemoryLayout_Type_Strides",
		"PJ_HOST_ONLY_DURING_CALL":         "PJRT_HostBufferSemantics_kImmutableOnlyDuringCall",
		"PJ_HOST_UNTIL_TRANSFER_COMPLETES": "PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes",
		"PJ_HOST_ZERO_COPY":                "PJRT_HostBufferSemantics_kImmutableZeroCopy",
		"PJ_HOST_MUTABLE_ZERO_COPY":        "PJRT_HostBufferSemantics_kMutableZeroCopy",
		"PJ_MAJOR":                         "PJRT_API_MAJOR",
	} {
		a.hold("(int)%s == (int)%s", our, their)
	}
}

func compileAssertions(t *testing.T, header, assertions string) {
	t.Helper()
	own, err := filepath.Abs("abi.h")
	if err != nil {
		t.Fatal(err)
	}
	header, err = filepath.Abs(header)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "abi.c")
	source := fmt.Sprintf("#include %q\n#include %q\ntypedef pj_nothing unused;\n%s", own, header, assertions)
	if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=gnu11", "-fsyntax-only", "-I"+filepath.Join(filepath.Dir(header), "..", "..", ".."), path).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestTypeTables asks types that do not exist for their names.
func TestTypeTables(t *testing.T) {
	if Type(99).String() != "TYPE(99)" || Type(99).Size() != 0 || Token.Size() != 0 {
		t.Error("a type that does not exist, or a token, has a name or a size")
	}
	if Code(99).String() != "CODE(99)" || ResourceExhausted.String() != "RESOURCE_EXHAUSTED" {
		t.Error("codes are misnamed")
	}
}
