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
			t.Errorf("%s is not what the generator writes: run `go generate ./gocore/wire`", name)
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
		v, err := vocabularyOf(path)
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
