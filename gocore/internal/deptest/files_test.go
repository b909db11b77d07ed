package deptest

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// engineFiles are the files of gocore/engine from the lowest up: a file may use what is declared in those before it.
var engineFiles = []string{
	"gate.go", "location.go", "loans.go", "text.go", "progress.go", "tier_cost.go", "lone.go", "tier.go", "explain.go", "program.go", // on their own
	"job.go", "value_checks.go", "state.go", "rng.go", // what all parts share
	"strides.go", "trace.go", "from_text.go", // recording
	"plan.go", "collectives.go", "launch.go", "compiling.go", "flush.go", // planning, compiling, launching
	"layout.go", "value_errors.go", "sync.go", "transfer.go", "snapshot.go", "spmd.go", // values and where they lie
	"capture.go", "replay.go", "foreign.go", "function.go", // captured computations
	"ahead.go", "ahead_compile.go", // programs for devices elsewhere
	"inspect.go", "profile.go", "engine.go",
}

// uses is which files of a package use something that another one declares, without its tests.
func uses(t *testing.T, dir string) map[string][]string {
	t.Helper()
	exports := make(map[string]string)
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Dir = dir
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	set := token.NewFileSet()
	var files []*ast.File
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	pkg, err := (&types.Config{Importer: importer.ForCompiler(set, "gc", open)}).Check("engine", set, files, info)
	if err != nil {
		t.Fatal(err)
	}
	name := func(p token.Pos) string { return filepath.Base(set.Position(p).Filename) }
	found := make(map[string][]string)
	for _, f := range files {
		found[name(f.Package)] = nil
	}
	for id, object := range info.Uses {
		if from, to := name(id.Pos()), name(object.Pos()); object.Pkg() == pkg && from != to && !slices.Contains(found[from], to) {
			found[from] = append(found[from], to)
		}
	}
	return found
}

// The engine is divided: what a file holds can be read without those above it.
func TestFilesOfTheEnginePointDown(t *testing.T) {
	found := uses(t, filepath.Join(root(t), "gocore", "engine"))
	var upward []string
	for from, all := range found {
		for _, to := range all {
			low, high := slices.Index(engineFiles, from), slices.Index(engineFiles, to)
			if low < 0 || high < 0 {
				t.Fatalf("%s or %s has no place in engineFiles", from, to)
			}
			if low < high {
				upward = append(upward, from+" uses "+to)
			}
		}
	}
	if slices.Sort(upward); len(upward) > 0 {
		t.Errorf("files of gocore/engine use files above them:\n%s", strings.Join(upward, "\n"))
	}
}
