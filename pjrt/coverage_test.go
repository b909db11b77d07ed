package pjrt

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reasons say why this client does not call a function of the interface. The
// keys are prefixes of names.
var reasons = map[string]string{
	"CopyToDeviceStream_":                      "part of send and receive callbacks, which StableHLO programs of this project do not use",
	"ExecuteContext_":                          "user data for FFI handlers, of which the project's own need none",
	"AsyncHostToDeviceTransferManager_":        "uploads in pieces; FromHost uploads an array at once and does not wait",
	"Client_CreateBuffersForAsyncHostToDevice": "uploads in pieces; FromHost uploads an array at once and does not wait",
	"Client_DmaMap":                            "pinning host memory explicitly; plugins stage transfers themselves",
	"Client_DmaUnmap":                          "pinning host memory explicitly; plugins stage transfers themselves",
	"Client_UpdateGlobalProcessInfo":           "failure handling between hosts, which the key-value store's owner decides",
	"Client_CreateAliasBuffer":                 "buffers whose data comes later; the runtime orders its work itself",
	"Client_FulfillAliasBuffer":                "buffers whose data comes later; the runtime orders its work itself",
	"Client_CreateErrorBuffer":                 "the runtime keeps errors on its own side",
	"Buffer_CopyRawToHostFuture":               "CopyRawToHost with a destination that comes later",
	"Device_PoisonExecution":                   "failing a launch on purpose, between hosts",
	"Device_CreateAsyncTrackingEvent":          "marks for a profiler, which none of the tested plugins has",
	"AsyncTrackingEvent_Destroy":               "marks for a profiler, which none of the tested plugins has",
	"Buffer_DonateWithControlDependency":       "donation ordered by a callback; executions order it here",
}

var rewrite = flag.Bool("rewrite", false, "rewrite the table of docs/pjrt.md")

// TestCoverage checks that each function of the interface is called by the client or has a reason why not, that
// the same holds for the CPU plugin, and that the table of docs/pjrt.md says so.
func TestCoverage(t *testing.T) {
	plugin := absentInPlugin(t)
	used := make(map[string]bool) // reasons that say something
	called := calledFunctions(t)
	var rows strings.Builder
	all, absent := 0, 0
	for _, f := range interfaceFunctions(t) {
		name, block := f.name, f.block
		all++
		if (block != "unused") != slices.Contains(called, name) {
			t.Errorf("%s has the block %s, but the sources call it: %v", name, block, slices.Contains(called, name))
		}
		reason := ""
		if block == "unused" {
			absent++
			reason = reasonFor(name, used)
			if reason == "" {
				t.Errorf("%s is not called and no reason is given", name)
			}
		}
		if reason != "" || plugin[name] != "" {
			fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", name, reason, plugin[name])
		}
	}
	for prefix := range reasons {
		if !used[prefix] {
			t.Errorf("the reason for %s is no longer needed", prefix)
		}
	}
	t.Logf("of %d functions the client calls %d, %d have a reason why not; the CPU plugin implements %d, %d have a reason",
		all, len(called), absent, all-len(plugin), len(plugin))
	for _, line := range strings.Split(rows.String(), "\n") {
		t.Log(line)
	}
	checkDocs(t, fmt.Sprintf("| | of %d | absent |\n|---|---|---|\n| client | %d called | %d |\n| CPU plugin | %d implemented | %d |\n\n"+
		"What is absent, and why. A side with an empty cell has the function.\n\n| function | the client | the CPU plugin |\n|---|---|---|\n",
		all, len(called), absent, all-len(plugin), len(plugin))+rows.String())
}

// TestPluginFunctionsAreTested checks that each function that the CPU plugin implements is called by a test of its own.
func TestPluginFunctionsAreTested(t *testing.T) {
	files, err := filepath.Glob("xlacpu/tests/*.cc")
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of the plugin: %v, %v", files, err)
	}
	tested := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:CALL\(|api->)PJRT_(\w+)`).FindAllStringSubmatch(string(text), -1) {
			tested[m[1]] = true
		}
	}
	absent := absentInPlugin(t)
	for _, f := range interfaceFunctions(t) {
		if absent[f.name] == "" && !tested[f.name] {
			t.Errorf("no test in xlacpu/tests calls PJRT_%s", f.name)
		}
	}
}

// tableRow is a row of abi_functions.h.
type tableRow struct{ name, block string }

// interfaceFunctions lists the functions of the interface.
func interfaceFunctions(t *testing.T) (all []tableRow) {
	t.Helper()
	table, err := os.ReadFile("abi_functions.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^  X\((\w+), (\w+), \w+\)`).FindAllStringSubmatch(string(table), -1) {
		all = append(all, tableRow{m[1], m[2]})
	}
	return all
}

// reasonFor is the reason of a function that the client does not call.
func reasonFor(name string, used map[string]bool) (reason string) {
	for prefix, why := range reasons {
		if name == prefix || strings.HasSuffix(prefix, "_") && strings.HasPrefix(name, prefix) {
			reason, used[prefix] = why, true
		}
	}
	return
}

// absentInPlugin is the reason of each function that the CPU plugin answers with UNIMPLEMENTED.
func absentInPlugin(t *testing.T) map[string]string {
	t.Helper()
	source, err := os.ReadFile("xlacpu/api.cc")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]string{}
	for _, m := range regexp.MustCompile(`constexpr char (\w+)\[\] =\s*"([^"]*)"`).FindAllStringSubmatch(string(source), -1) {
		words[m[1]] = m[2]
	}
	absent := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  XLACPU_ABSENT\((\w+),\s*(?:"([^"]*)"|(\w+))\)`).FindAllStringSubmatch(string(source), -1) {
		if absent[m[1]] = m[2] + words[m[3]]; absent[m[1]] == "" {
			t.Errorf("xlacpu/api.cc gives no reason for %s", m[1])
		}
	}
	if len(absent) == 0 {
		t.Error("xlacpu/api.cc has no XLACPU_ABSENT")
	}
	return absent
}

// checkDocs compares the table of docs/pjrt.md, or writes it.
func checkDocs(t *testing.T, want string) {
	t.Helper()
	const path, begin, end = "../docs/pjrt.md", "<!-- begin of what TestCoverage writes -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	switch {
	case !ok || !ended:
		t.Errorf("%s has no place for the table", path)
	case have == want:
	case *rewrite:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("the table of %s is out of date: make golden writes it", path)
	}
}

// calledFunctions lists the functions whose number the sources mention.
func calledFunctions(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, "_test.go") || !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".c") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bpj_fn_(\w+)`).FindAllStringSubmatch(string(text), -1) {
			if m[1] != "count" {
				out = append(out, m[1])
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
