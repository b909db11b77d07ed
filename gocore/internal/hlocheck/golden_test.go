package hlocheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// refused are the goldens that this compiler understands but cannot run, with a part of its
// message. A golden that begins to compile has to leave the list.
var refused = map[string]string{
	"custom_call with layouts":         "no.such.target",
	"custom_call with called function": "no.such.target",
	"custom_call with typed config":    "No FFI handler registered for no.such.ffi",
	"custom_call with empty config":    "No FFI handler registered for no.such.ffi",
	"all_reduce of two by channel":     "does not have a layout",
	"collective_broadcast":             "not supported by XLA:CPU",
}

var title = regexp.MustCompile(`^(.*?)(?: \((\d+) devices\))?$`)

// TestGoldensCompile gives every module of stablehlo/testdata to the compiler, whose verifier also
// infers the type of every operation and compares it with the one written.
func TestGoldensCompile(t *testing.T) {
	c := client(t)
	files, err := filepath.Glob("../../stablehlo/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens: %v", err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range strings.Split("\n"+string(data), "\n-- ")[1:] {
			head, module, ok := strings.Cut(section, " --\n")
			if !ok {
				continue
			}
			m := title.FindStringSubmatch(head)
			name := m[1]
			seen[name] = true
			replicas, _ := strconv.Atoi(m[2])
			exe, err := c.Compile([]byte(module), "mlir", pjrt.CompileOptions{NumReplicas: replicas,
				EnvOptionOverrides: map[string]any{"xla_backend_optimization_level": int64(0)}})
			if want, ok := refused[name]; ok {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v, expected an error with %q", name, err, want)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, module)
				continue
			}
			if err := exe.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for name := range refused {
		if !seen[name] {
			t.Errorf("%q is not a golden file", name)
		}
	}
	t.Logf("%d modules", len(seen))
}
