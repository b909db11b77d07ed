// Package deptest holds the rules of who may import whom; see ARCHITECTURE.md.
package deptest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/torch-go-xla/torch-go-xla/"

// leaves may be imported by any core package.
var leaves = []string{"gocore/errs", "gocore/metrics", "gocore/config", "gocore/profile"}

// allowed lists what each package may import of the project, besides the leaves. A package that is not
// listed may import nothing of it.
var allowed = map[string][]string{
	"gocore/errs":      {},
	"gocore/metrics":   {},
	"gocore/config":    {},
	"gocore/profile":   {},
	"gocore/dtype":     {},
	"gocore/wire":      {"gocore/dtype"},
	"gocore/strided":   {},
	"gocore/cache":     {},
	"gocore/shape":     {"gocore/dtype"},
	"gocore/ir":        {"gocore/dtype", "gocore/shape", "gocore/wire"},
	"gocore/sharding":  {"gocore/shape"},
	"gocore/hlo":       {"gocore/dtype", "gocore/shape", "gocore/sharding"},
	"gocore/stablehlo": {"gocore/dtype", "gocore/shape"},
	"gocore/ops":       {"gocore/dtype", "gocore/shape", "gocore/sharding", "gocore/wire", "gocore/ir", "gocore/stablehlo"},
	"gocore/alias":     {"gocore/dtype", "gocore/shape", "gocore/sharding", "gocore/wire", "gocore/ir", "gocore/strided"},
	"gocore/lazy":      {"gocore/ir", "gocore/alias", "gocore/shape", "gocore/sharding"},
	"gocore/lower":     {"gocore/dtype", "gocore/shape", "gocore/sharding", "gocore/ir", "gocore/stablehlo", "gocore/ops", "gocore/lazy"},
	"gocore/runtime":   {"gocore/dtype", "gocore/shape", "gocore/sharding", "gocore/hlo", "pjrt", "pjrt/rendezvous"},
	"gocore/torchcpu":  {"gocore/ops", "gocore/interp", "gocore/ir", "gocore/shape", "pjrt"},
	"gocore/interp":    {"gocore/dtype", "gocore/shape", "gocore/wire", "gocore/ir", "gocore/ops", "gocore/lazy"},
	"gocore/engine": {"gocore/dtype", "gocore/shape", "gocore/sharding", "gocore/hlo", "gocore/wire", "gocore/ir", "gocore/stablehlo", "gocore/ops", "gocore/alias",
		"gocore/lazy", "gocore/lower", "gocore/interp", "gocore/cache", "gocore/runtime", "gocore/strided", "gocore/torchcpu", "pjrt", "pjrt/rendezvous"},
	"gocore/pyfast":   {"gocore/engine", "gocore/wire"},
	"bindings":        {"gocore/dtype", "gocore/engine", "gocore/pyfast", "gocore/wire"},
	"pjrt":            {},
	"pjrt/rendezvous": {"pjrt"},
}

// pure are the packages that need no C compiler: their tests run with CGO_ENABLED=0.
var pure = []string{"dtype", "shape", "strided", "ir", "stablehlo", "ops", "alias", "lazy", "lower", "interp", "cache", "errs", "metrics", "config", "profile", "sharding", "hlo", "wire"}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// imports calls f for each import of each product file of a package.
func imports(t *testing.T, dir string, f func(file, path string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			f(file, path)
		}
	}
}

func packages(t *testing.T) (dirs []string) {
	t.Helper()
	top := root(t)
	for _, sub := range []string{"gocore", "bindings", "pjrt"} {
		err := filepath.WalkDir(filepath.Join(top, sub), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "internal" || d.Name() == "testdata" || d.Name() == "nullplugin" {
				return filepath.SkipDir
			}
			if files, _ := filepath.Glob(filepath.Join(path, "*.go")); len(files) > 0 {
				rel, err := filepath.Rel(top, path)
				dirs = append(dirs, rel)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

func TestImportsPointDown(t *testing.T) {
	for _, pkg := range packages(t) {
		may, known := allowed[pkg]
		if !known {
			t.Errorf("package %s has no rule here", pkg)
			continue
		}
		imports(t, filepath.Join(root(t), pkg), func(file, path string) {
			rel, ours := strings.CutPrefix(path, module)
			if !ours || strings.HasPrefix(rel, "gocore/internal/invariants") {
				return
			}
			isLeaf := slices.Contains(leaves, rel) && strings.HasPrefix(pkg, "gocore/") && !slices.Contains(leaves, pkg)
			if !slices.Contains(may, rel) && !isLeaf && !(pkg == "bindings" && rel == "gocore/errs") {
				t.Errorf("%s: package %s may not import %s", filepath.Base(file), pkg, rel)
			}
		})
	}
}

func TestPurePackagesHaveNoC(t *testing.T) {
	for _, name := range pure {
		imports(t, filepath.Join(root(t), "gocore", name), func(file, path string) {
			if path == "C" || path == "runtime/cgo" {
				t.Errorf("%s: package %s must do without C", filepath.Base(file), name)
			}
		})
	}
}

func TestEnvironmentIsReadInOnePlace(t *testing.T) {
	for _, pkg := range packages(t) {
		if pkg == "gocore/config" {
			continue
		}
		files, _ := filepath.Glob(filepath.Join(root(t), pkg, "*.go"))
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "os.Getenv") || strings.Contains(string(data), "os.LookupEnv") {
				t.Errorf("%s/%s reads the environment; package config does that", pkg, filepath.Base(file))
			}
		}
	}
}
