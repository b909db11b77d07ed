package engine

import (
	"io"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

func TestASlowCompilationIsAnnouncedOnce(t *testing.T) {
	r, w := io.Pipe()
	stop := announce(w, 0, "252 nodes, train.py:31")
	line := make([]byte, 100)
	n, err := r.Read(line)
	if want := "torch_go_xla: compiling step: 252 nodes, train.py:31, 0 s so far\n"; err != nil || string(line[:n]) != want {
		t.Fatalf("got %q, %v, want %q", line[:n], err, want)
	}
	stop()
	_ = w.Close()
	if rest, _ := io.ReadAll(r); len(rest) != 0 {
		t.Errorf("also wrote %q", rest)
	}
}

func TestAQuickCompilationIsNotAnnounced(t *testing.T) {
	if stop := announce(io.Discard, time.Hour, "2 nodes"); !stop() {
		t.Error("a line will be written of a compilation that is done")
	}
}

func TestTheLastLineIsThatOfTheStep(t *testing.T) {
	var l locations
	var g ir.Graph
	var nodes []ir.ID
	for _, loc := range []int32{l.number("/home/user/model.py", 7), l.number("/home/user/train.py", 31), 0} {
		g.Loc = loc
		nodes = append(nodes, g.Add(ir.OpZeros, nil, nil, shape.Of(dtype.F32, []int64{2}), 0))
	}
	if got := lastLine(&g, nodes, l.Where); got != "/home/user/train.py:31" {
		t.Errorf("the line is %q", got)
	}
	if got := shortened("/tmp/ipykernel_4711/705916312.py:4"); got != "line 4 of a cell" {
		t.Errorf("the line of a notebook is %q", got)
	}
	if got := lastLine(&g, nodes[2:], l.Where); got != "" {
		t.Errorf("the line of a node of autograd is %q", got)
	}
}
