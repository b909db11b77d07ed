package strided

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the programs are now to testdata/views.txt")

const goldenFile = "testdata/views.txt"

// TestGolden pins the programs of views that torch made (testdata/views.py). A line holds, tab
// separated: base, expression, "=", size, stride, offset; the programs follow, indented.
func TestGolden(t *testing.T) {
	data, err := os.ReadFile(goldenFile)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		out.WriteString(line)
		base, v := parseView(t, strings.TrimSuffix(line, "\n"))
		p, err := checkRead(base, v)
		if err != nil {
			t.Errorf("read of %s: %v", line, err)
		}
		out.WriteString(strings.TrimRight("    read  "+p.String(), " ") + "\n")
		w, err := checkWrite(base, v)
		if err != nil {
			t.Errorf("write of %s: %v", line, err)
		}
		text := w.String()
		if _, err := Write(base, v); err != nil {
			text = "refused"
		}
		out.WriteString("    write " + text + "\n")
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(goldenFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, got := strings.Split(string(data), "\n"), strings.Split(out.String(), "\n")
	for i := range max(len(want), len(got)) {
		if i >= len(want) || i >= len(got) || want[i] != got[i] {
			t.Fatalf("%s:%d differs; now:\n%s", goldenFile, i+1, strings.Join(got[min(i, len(got)):min(i+3, len(got))], "\n"))
		}
	}
}

func parseView(t *testing.T, line string) (base []int64, v View) {
	t.Helper()
	fields := strings.Split(line, "\t")
	if len(fields) != 6 {
		t.Fatalf("%q has %d fields", line, len(fields))
	}
	for i, to := range []any{&base, nil, nil, &v.Size, &v.Stride, &v.Offset} {
		if to == nil {
			continue
		}
		if err := json.Unmarshal([]byte(fields[i]), to); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return base, v
}
