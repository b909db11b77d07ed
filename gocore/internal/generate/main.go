// Command generate writes what C, C++ and Python must know as Go states it; a test holds that the files in the tree are
// what it writes. Run it by `go generate ./gocore/wire ./bindings`.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// write puts every generated file in its place.
func write() error {
	root, err := root()
	if err != nil {
		return err
	}
	files, err := files(root)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// root is the directory of the Go module around the working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = up
	}
}

// files are the generated texts by their paths in the module.
func files(root string) (map[string]string, error) {
	surface, err := surfaceOf(filepath.Join(root, "bindings"))
	if err != nil {
		return nil, err
	}
	v, err := vocabularyOf(filepath.Join(root, "gocore", "wire", "wire.go"), facts(surface))
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"python/torch_go_xla/_control.py":    control(surface),
		"gocore/wire/hash.go":                v.goHash(),
		"gocore/pyfast/vocabulary.h":         v.cHeader(),
		"gocore/torchcpu/vocabulary.h":       v.cHeader(), // cgo does not see a change of a file in another package
		"python/torch_go_xla/_vocabulary.py": v.python(),
		"pjrt/types.go":                      v.pjrtGo(),
		"pjrt/types.h":                       v.pjrtC(),
		"pjrt/xlacpu/types.h":                v.xlacpu(),
	}, nil
}
