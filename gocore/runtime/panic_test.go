package runtime

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/shape"
)

// wild is a program that panics where it says.
type wild struct {
	*program
	compile, bisect, need bool
	waits                 bool // runs in the background
}

func (w *wild) Executable() (*Executable, error) {
	if w.compile {
		panic("wild: compiling")
	}
	return w.program.Executable()
}

func (w *wild) Prompt() bool { return !w.waits }

func (w *wild) Bisect() Bisection {
	if w.bisect {
		panic("wild: bisecting")
	}
	if w.need {
		return wildBisection{}
	}
	return nil
}

// wildBisection has no results to part, as a program that no one knows how to read.
type wildBisection struct{}

func (wildBisection) Lost(int) error                     { return nil }
func (wildBisection) Need(results []int) ([]int, int)    { var none []int; return none[results[0]:1], 0 }
func (wildBisection) Compile([]int) (*Executable, error) { panic("wild: a part") }
func (w *wild) launch(f *fixture, done func(error)) *Buffer {
	l := &Launch{Program: w, Step: 1, Done: done}
	l.NewOuts(f.Device, []*shape.Shape{pair}, nil)
	f.Enqueue(l)
	return l.Outs[0]
}

// TestAPanicIsTheFailureOfItsLaunch: whatever panics as a program runs, its results fail and the queue moves on.
func TestAPanicIsTheFailureOfItsLaunch(t *testing.T) {
	for name, w := range map[string]*wild{
		"compile":                    {compile: true},
		"compile, bisect":            {compile: true, bisect: true},
		"compile, need":              {compile: true, need: true},
		"compile in a goroutine":     {compile: true, waits: true},
		"compile, bisect, goroutine": {compile: true, bisect: true, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, nil)
			w.program = f.double(-1)
			bad := w.launch(f, nil)
			y := f.run(f.double(-1), []int32{-1}, f.array(1, 2)) // behind it
			f.Drain()
			f.want(y, 2, 4)
			if err := bad.Await(); err == nil || !strings.Contains(err.Error(), "internal error while") {
				t.Errorf("the result of the program that panics: %v", err)
			}
			y.Release()
			bad.Release()
		})
	}
	t.Run("done", func(t *testing.T) {
		f := open(t, nil)
		l := &Launch{Program: f.double(-1), Args: []*Buffer{f.array(1, 2)}, Donors: []int32{-1}, Given: []bool{false}, Done: func(error) { panic("wild: done") }}
		l.NewOuts(f.Device, []*shape.Shape{pair}, nil)
		out := l.Outs[0]
		f.Enqueue(l)
		f.Drain()
		y := f.run(f.double(-1), []int32{-1}, f.array(3, 4))
		f.want(out, 2, 4)
		f.want(y, 6, 8)
		out.Release()
		y.Release()
	})
}
