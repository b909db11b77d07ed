package stablehlo_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	hlo "github.com/torch-go-xla/torch-go-xla/gocore/stablehlo"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.txt again")

func allCases() []goldenCase {
	var out []goldenCase
	for _, f := range []func() []goldenCase{unaryCases, binaryCases, chloCases, constantCases, selectCases, dimsCases, scatterCases,
		reduceCases, linalgCases, controlCases, customCases, collectiveCases} {
		out = append(out, f()...)
	}
	return out
}

func build(t *testing.T, c goldenCase) []byte {
	t.Helper()
	b := hlo.NewModule(c.name)
	b.Return(c.build(b)...)
	text, err := b.Bytes()
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
	return text
}

// TestGolden compares every case with its section of testdata/FAMILY.txt; a section starts with
// "-- name --", or "-- name (n devices) --" for a module of several replicas.
func TestGolden(t *testing.T) {
	got := map[string]*bytes.Buffer{}
	for _, c := range allCases() {
		if got[c.family] == nil {
			got[c.family] = new(bytes.Buffer)
		}
		title := c.name
		if c.devices > 0 {
			title += fmt.Sprintf(" (%d devices)", c.devices)
		}
		fmt.Fprintf(got[c.family], "-- %s --\n%s", title, build(t, c))
	}
	for family, buf := range got {
		path := filepath.Join("testdata", family+".txt")
		if *rewrite {
			if err := os.WriteFile(path, buf.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, buf.Bytes()) {
			t.Errorf("%s differs%s\n(go test -run TestGolden -rewrite writes it again)", path, firstDifference(string(want), buf.String()))
		}
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			return fmt.Sprintf(" at line %d\nwant %s\ngot  %s", i+1, w[i], strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""))
		}
	}
	return " at the end"
}

// TestDeterministic builds every module twice: the text is the key of compilation caches.
func TestDeterministic(t *testing.T) {
	for _, c := range allCases() {
		if !bytes.Equal(build(t, c), build(t, c)) {
			t.Errorf("%s: two builds differ", c.name)
		}
	}
}

// TestSpecCoverage compares the operations that occur in the goldens with the list of the
// specification: every one is covered or absent for a stated reason, and no reason is out of date.
func TestSpecCoverage(t *testing.T) {
	emitted := map[string]bool{}
	for _, c := range allCases() {
		for _, part := range strings.Split(string(build(t, c)), `"stablehlo.`)[1:] {
			name, _, _ := strings.Cut(part, `"`)
			emitted[name] = true
		}
	}
	delete(emitted, "return") // ends a region; the specification does not list it among the operations
	data, err := os.ReadFile("testdata/spec_ops.txt")
	if err != nil {
		t.Fatal(err)
	}
	covered, absent := 0, 0
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, gone := strings.Cut(line, " absent: ")
		switch {
		case gone && reason == "":
			t.Errorf("%s is absent without a reason", name)
		case gone == emitted[name]:
			t.Errorf("%s: listed as absent: %v, found in a golden: %v", name, gone, emitted[name])
		}
		if gone {
			absent++
		} else {
			covered++
		}
		delete(emitted, name)
	}
	for name := range emitted {
		t.Errorf("%s is not in the specification's list", name)
	}
	t.Logf("%d of %d operations of the specification; %d absent with a reason", covered, covered+absent, absent)
}
