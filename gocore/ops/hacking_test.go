package ops

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAnOpIsAddedAsHackingSays adds the op of HACKING.md to a tree without it, from the text as it stands there.
func TestAnOpIsAddedAsHackingSays(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package twice")
	}
	guide, err := os.ReadFile("../../HACKING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(guide), "\n   ```go\n")
	text, _, found := strings.Cut(rest, "\n   ```\n")
	if !found || !strings.Contains(text, `{Name: "hash_tensor"`) {
		t.Fatal("HACKING.md adds no op")
	}
	file, err := filepath.Abs("reduce.go")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, row, _ := strings.Cut(string(source), "\t{Name: \"hash_tensor\"")
	_, after, found := strings.Cut(row, "\n\t\t}},\n")
	if !found {
		t.Fatal("reduce.go has no row hash_tensor")
	}
	if out, err := withFile(t, file, before+after); err == nil || !strings.Contains(out, "no row hash_tensor") {
		t.Errorf("without the row: %v\n%s", err, out)
	}
	if out, err := withFile(t, file, before+text+"\n"+after); err != nil {
		t.Errorf("with the row of HACKING.md: %v\n%s", err, out)
	}
}

// withFile runs the test of the op in this package with another text of a file.
func withFile(t *testing.T, file, text string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{changed: text, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-run", "^TestTheOpOfHacking$", ".").CombinedOutput()
	return string(out), err
}

// TestTheOpOfHacking: the op that HACKING.md adds is there, and lowered.
func TestTheOpOfHacking(t *testing.T) {
	if _, ok := Lookup("hash_tensor"); !ok {
		t.Fatal("no row hash_tensor")
	}
	b := lowerText(t, "%1 = xla::data : f32[4,8]\n%2 = aten::hash_tensor %1 {dim=[1], keepdim=0, mode=0} : ui64[4]\nreturn %2 : ui64[4]\n", nil)
	text, err := b.Bytes()
	if err != nil || !strings.Contains(string(text), "stablehlo.xor") {
		t.Fatalf("%v\n%s", err, text)
	}
}
