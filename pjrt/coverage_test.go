package pjrt

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reasons say why this client does not call a function of the interface. The
// keys are prefixes of names.
var reasons = map[string]string{
	"CopyToDeviceStream_":                      "part of send and receive callbacks, which StableHLO programs of this project do not use",
	"TopologyDescription_Create":               "compiling for devices that are absent is not offered",
	"TopologyDescription_Destroy":              "the client owns the only topology",
	"TopologyDescription_Deserialize":          "compiling for devices that are absent is not offered",
	"Compile":                                  "compiling for devices that are absent is not offered; a client compiles",
	"ExecuteContext_":                          "user data for FFI handlers, of which the project's own need none",
	"AsyncHostToDeviceTransferManager_":        "uploads in pieces; FromHost uploads an array at once and does not wait",
	"Client_CreateBuffersForAsyncHostToDevice": "uploads in pieces; FromHost uploads an array at once and does not wait",
	"Client_DmaMap":                            "pinning host memory by hand; plugins stage transfers themselves",
	"Client_DmaUnmap":                          "pinning host memory by hand; plugins stage transfers themselves",
	"Client_UpdateGlobalProcessInfo":           "failure handling between hosts, which the key-value store's owner decides",
	"Client_CreateAliasBuffer":                 "buffers whose data is promised; the runtime orders its work itself",
	"Client_FulfillAliasBuffer":                "buffers whose data is promised; the runtime orders its work itself",
	"Client_CreateErrorBuffer":                 "the runtime keeps errors on its own side",
	"Buffer_CopyRawToHostFuture":               "CopyRawToHost with a destination that is promised",
	"Device_PoisonExecution":                   "failing a launch on purpose, between hosts",
	"Device_CreateAsyncTrackingEvent":          "marks for a profiler that no plugin at hand has",
	"AsyncTrackingEvent_Destroy":               "marks for a profiler that no plugin at hand has",
	"Buffer_DonateWithControlDependency":       "donation ordered by a callback; executions order it here",
}

// TestCoverage checks that each function is called, or has a reason why not.
func TestCoverage(t *testing.T) {
	table, err := os.ReadFile("abi_functions.h")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool) // reasons that say something
	absent := 0
	called := calledFunctions(t)
	for _, m := range regexp.MustCompile(`(?m)^  X\((\w+), (\w+)\)`).FindAllStringSubmatch(string(table), -1) {
		name, block := m[1], m[2]
		if (block != "unused") != slices.Contains(called, name) {
			t.Errorf("%s has the block %s, but the sources call it: %v", name, block, slices.Contains(called, name))
		}
		if block != "unused" {
			continue
		}
		absent++
		reason := ""
		for prefix := range reasons {
			if name == prefix || strings.HasSuffix(prefix, "_") && strings.HasPrefix(name, prefix) {
				reason = prefix
				used[prefix] = true
			}
		}
		if reason == "" {
			t.Errorf("%s is not called and no reason is given", name)
		}
	}
	for prefix := range reasons {
		if !used[prefix] {
			t.Errorf("the reason for %s is needed no more", prefix)
		}
	}
	t.Logf("%d functions are called, %d have a reason why not", len(called), absent)
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
