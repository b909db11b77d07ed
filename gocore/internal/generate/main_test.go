package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The generated files are in the tree, so that it can be read and used without Go. They must be what this writes.
func TestGeneratedFilesAreUpToDate(t *testing.T) {
	root, err := root()
	if err != nil {
		t.Fatal(err)
	}
	texts, err := files(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range texts {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if string(got) != want {
			t.Errorf("%s is not what the generator writes: run `go generate ./gocore/wire ./bindings`", name)
		}
	}
}

// What a list says must change the hash, and nothing else may.
func TestHashFollowsTheLists(t *testing.T) {
	hash := func(source string) string {
		path := filepath.Join(t.TempDir(), "wire.go")
		if err := os.WriteFile(path, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		v, err := vocabularyOf(path, "")
		if err != nil {
			t.Fatal(err)
		}
		return v.hash
	}
	const source = "package wire\n\ntype Kind uint8\n\nconst (\n\tKNull Kind = iota\n\tKTensor\n)\n"
	if hash(source) != hash(source+"\n// A comment.\n") {
		t.Error("a comment changes the hash")
	}
	if hash(source) == hash("package wire\n\ntype Kind uint8\n\nconst (\n\tKTensor Kind = iota\n\tKNull\n)\n") {
		t.Error("another order of the constants leaves the hash as it is")
	}
}

func TestMethodsFollowTheRules(t *testing.T) {
	dir := t.TempDir()
	source := `package bindings

// UseXLA uses things, of which there may be many. Make waits too.
//
//control:open
func UseXLA(handles, nHandles int64, ms int64) (list string, err error) { return "", nil }

// Make makes things, as UseXLA does not; howMany may be 0.
func Make(howMany int64, outMade, nOutMade int64) error { return nil }
`
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	surface, err := surfaceOf(dir)
	if err != nil || len(surface) != 2 {
		t.Fatal(surface, err)
	}
	for i, want := range []string{
		`    def make(self, how_many: int, made: int) -> list[int]:
        """Make things, as use_xla does not; how_many may be 0."""
        made_ = _words(bytes(8 * made))
        self.call(self._go.bindings_Make, how_many, *_at(made_))
        return list(made_)
`, `    def use_xla(self, handles: Sequence[int]) -> list[Any]:
        """Use things, of which there may be many.

        Make waits too.
        """
        self.open()
        handles_ = _words(handles)
        while not (result := self.call(self._go.bindings_UseXLA, *_at(handles_), SLICE)):
            pass
        return list(json.loads(result) or ())
`} {
		if got := surface[i].method(pythonNames(surface)); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
