package deptest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestGoroutinesRecover: a panic that a goroutine does not recover ends the process, so each starts with a deferred
// call that recovers: of recover itself, or of a function of the package, or of errs.Catch.
func TestGoroutinesRecover(t *testing.T) {
	count := 0
	for _, top := range []string{"gocore", "pjrt", "bindings"} {
		err := filepath.WalkDir(filepath.Join(root(t), top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || strings.Contains(path, "nullplugin") {
				return err
			}
			count += checkGoroutines(t, path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 6 {
		t.Errorf("only %d goroutines were found", count)
	}
}

// checkGoroutines reads the sources of one package and returns how many goroutines they start.
func checkGoroutines(t *testing.T, dir string) (count int) {
	files := token.NewFileSet()
	bodies := make(map[string]*ast.BlockStmt) // of functions and methods, by name
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	var sources []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		source, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, source)
		for _, decl := range source.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
				bodies[f.Name.Name] = f.Body
			}
		}
	}
	for _, source := range sources {
		ast.Inspect(source, func(n ast.Node) bool {
			g, ok := n.(*ast.GoStmt)
			if !ok {
				return true
			}
			count++
			if body := bodyOf(g.Call.Fun, bodies); body == nil || !recovers(body, bodies) {
				t.Errorf("%s: the goroutine does not recover a panic", files.Position(g.Pos()))
			}
			return true
		})
	}
	return count
}

// bodyOf is the body of a function that is called: a literal, or one of the package.
func bodyOf(f ast.Expr, bodies map[string]*ast.BlockStmt) *ast.BlockStmt {
	switch f := f.(type) {
	case *ast.FuncLit:
		return f.Body
	case *ast.Ident:
		return bodies[f.Name]
	case *ast.SelectorExpr:
		return bodies[f.Sel.Name]
	}
	return nil
}

// recovers reports that one of the first statements, which defer, calls recover.
func recovers(body *ast.BlockStmt, bodies map[string]*ast.BlockStmt) bool {
	for _, statement := range body.List {
		d, ok := statement.(*ast.DeferStmt)
		if !ok {
			return false
		}
		if s, ok := d.Call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Catch" {
			return true
		}
		found := false
		if deferred := bodyOf(d.Call.Fun, bodies); deferred != nil {
			ast.Inspect(deferred, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if ok {
					name, isName := call.Fun.(*ast.Ident)
					found = found || isName && name.Name == "recover"
				}
				return true
			})
		}
		if found {
			return true
		}
	}
	return false
}
