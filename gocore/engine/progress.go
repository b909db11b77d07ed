package engine

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/lazy"
)

// slow is how long a compilation runs before it is reported to the user.
const slow = 3 * time.Second

// eraseLine removes what a progress bar has drawn on a terminal's line; the bar draws itself again below.
const eraseLine = "\r\033[K"

// title names a plan's program for the user: how large it is, and the last Python line that recorded a part of it.
func title(p *lazy.Plan, where func(int32) string) string {
	text := fmt.Sprintf("%d nodes", len(p.Nodes))
	if at := lastLine(&p.Trace.Graph, p.Nodes, where); at != "" {
		text += ", " + shortened(at)
	}
	return text
}

// shortened is a Python line without its directory. Notebooks call the file of a cell ipykernel_PID/NUMBER.py.
func shortened(line string) string {
	base := filepath.Base(line)
	if strings.HasPrefix(filepath.Base(filepath.Dir(line)), "ipykernel_") {
		_, number, _ := strings.Cut(base, ":")
		return "line " + number + " of a cell"
	}
	return base
}

// lastLine is the Python line of the last of some nodes that has one: autograd's have none.
func lastLine(g *ir.Graph, nodes []ir.ID, where func(int32) string) string {
	for i := len(nodes) - 1; i >= 0; i-- {
		if at := where(g.At(nodes[i]).Loc); at != "" {
			return at
		}
	}
	return ""
}

// announced runs a compilation. If it takes long, it is reported once, unless TORCH_GO_XLA_PROGRESS is 0.
func announced(title string, compile func()) {
	if title == "" || !config.On("TORCH_GO_XLA_PROGRESS") {
		compile()
		return
	}
	defer announce(os.Stderr, slow, title)()
	compile()
}

// announce writes a line after a while, unless the function that it returns is called before; that says so.
func announce(to io.Writer, after time.Duration, title string) (stop func() bool) {
	timer := time.AfterFunc(after, func() {
		defer func() { _ = recover() }() // no compilation fails because it cannot be announced
		line := fmt.Sprintf("torch_go_xla: compiling step: %s, %.0f s so far\n", title, after.Seconds())
		if isTerminal(to) {
			line = eraseLine + line
		}
		_, _ = io.WriteString(to, line)
	})
	return timer.Stop
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
