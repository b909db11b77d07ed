package runtime

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/torch-go-xla/torch-go-xla/pjrt/rendezvous"
)

var (
	scale      = flag.String("scale", "", "sizes of simulated jobs, such as 8,64,1000, for the table of -scale-page")
	scalePage  = flag.String("scale-page", "", "the page whose table of simulated jobs is to be written")
	scaleJoins = flag.String("scale-joins", "", "only for TestMembersOfASimulatedJob: address and number of members")
)

const (
	scaleSecret = "the secret of a simulated job"
	collectives = 200 // of the simulated program
	idleSeconds = 3
)

// phase is what the store of a job costs while its members do something.
type phase struct {
	name  string
	cpu   time.Duration // of the process that serves
	bytes int64         // that it has read and written
	wall  time.Duration
}

// phases are what the members of a simulated job do, each for itself, all at once.
var phases = []struct {
	name string
	do   func(j *Job) error
}{
	{"start", func(j *Job) error { return j.Meet(5 * time.Minute) }},
	{"first step", func(j *Job) error { return simulated.step(j) }},
	{"10 steps", func(j *Job) error {
		var err error
		for range 10 {
			err = errors.Join(err, simulated.step(j))
		}
		return err
	}},
	{"exchange", func(j *Job) error {
		_, err := j.Store.Exchange("checkpoint", j.everybody(), make([]byte, 64), time.Minute)
		return err
	}},
	{fmt.Sprintf("%d s without work", idleSeconds), func(*Job) error { time.Sleep(idleSeconds * time.Second); return nil }},
}

// simulated are the programs of the members, all of which exchange the same.
var simulated steps

type steps map[*Job]*Executable

func (p steps) step(j *Job) error {
	defer j.leave()
	return j.enter(p[j])
}

func newSteps(jobs []*Job) steps {
	p := make(steps)
	for _, j := range jobs {
		x := exchange{Segment: rendezvous.Segment{Stream: "the sums"}, processes: j.everybody()}
		for i := range collectives {
			x.Items = append(x.Items, fmt.Sprintf("all_reduce of f32[%d,1024]", i))
		}
		p[j] = &Executable{exchanges: []exchange{x}}
	}
	return p
}

// TestASimulatedJob has members in a process beside the store's, and looks at what the store costs. A step of a program
// that is known costs nothing. Telling what a program exchanges, and signs of life, cost each member the same in a
// large job.
func TestASimulatedJob(t *testing.T) {
	sizes := []int{8, 32}
	if *scale != "" {
		sizes = nil
		for text := range strings.SplitSeq(*scale, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, n)
		}
	} else if testing.Short() {
		t.Skip("takes seconds")
	}
	var rows []string
	var before []phase
	for i, n := range sizes {
		costs := simulate(t, n)
		for k, c := range costs {
			rows = append(rows, fmt.Sprintf("| %d | %s | %.0f | %.1f | %.1f |",
				n, c.name, c.cpu.Seconds()*1000, float64(c.bytes)/float64(n)/1000, c.wall.Seconds()))
			if c.name == "10 steps" && c.bytes > int64(n)*500 { // but for the members' signs of life
				t.Errorf("%d members: steps of a known program cost %d bytes", n, c.bytes)
			}
			if before == nil || c.name == "exchange" || c.name == "start" { // which give n values to n members
				continue
			}
			each, then := float64(c.bytes)/float64(n), float64(before[k].bytes)/float64(sizes[i-1])
			if each > 2*then+1000 {
				t.Errorf("%s: %.0f bytes for each of %d members, %.0f for each of %d", c.name, each, n, then, sizes[i-1])
			}
		}
		before = costs
	}
	t.Logf("\n%s", strings.Join(rows, "\n"))
	if *scalePage != "" {
		writeRows(t, *scalePage, rows)
	}
}

// simulate lets n members go through the phases.
func simulate(t *testing.T, n int) (costs []phase) {
	server, err := rendezvous.Serve("127.0.0.1:0", scaleSecret)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	members := exec.Command(os.Args[0], "-test.run=^TestMembersOfASimulatedJob$", "-scale-joins", fmt.Sprintf("%s,%d", server.Address(), n))
	members.Stderr = os.Stderr
	orders, err := members.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := members.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := members.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(out)
	for _, p := range phases {
		cpu, bytes, start := used(t)
		_, _ = fmt.Fprintln(orders, p.name)
		line, err := answers.ReadString('\n')
		if err != nil || strings.TrimSpace(line) != "done" {
			t.Fatalf("%d members, %s: %q, %v", n, p.name, line, err)
		}
		cpuAfter, bytesAfter, _ := used(t)
		costs = append(costs, phase{p.name, cpuAfter - cpu, bytesAfter - bytes, time.Since(start)})
	}
	_ = orders.Close()
	if err := members.Wait(); err != nil {
		t.Fatal(err)
	}
	return costs
}

// used is the processor time of this process, and the bytes that it has read and written.
func used(t *testing.T) (cpu time.Duration, bytes int64, now time.Time) {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("the bytes of a process cannot be read: %v", err)
	}
	for _, m := range regexp.MustCompile(`(?m)^[rw]char: (\d+)$`).FindAllSubmatch(text, -1) {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64)
		bytes += n
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), bytes, time.Now()
}

// TestMembersOfASimulatedJob is the process of the members: TestASimulatedJob starts it.
func TestMembersOfASimulatedJob(t *testing.T) {
	if *scaleJoins == "" {
		t.Skip("only a part of TestASimulatedJob")
	}
	address, count, _ := strings.Cut(*scaleJoins, ",")
	n, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]*Job, n)
	orders := bufio.NewScanner(os.Stdin)
	for _, p := range phases {
		if !orders.Scan() {
			t.Fatal(io.ErrUnexpectedEOF)
		}
		ended := make(chan error, n)
		for i := range jobs {
			go func() {
				var err error
				if jobs[i] == nil {
					jobs[i], err = Reach(context.Background(), i, n, address, scaleSecret)
				}
				if err == nil {
					err = p.do(jobs[i])
				}
				ended <- err
			}()
		}
		for range jobs {
			err = errors.Join(err, <-ended)
		}
		if err != nil {
			_, _ = fmt.Fprintln(os.Stderr, p.name, err) // the other process reads the output
			t.FailNow()
		}
		if simulated == nil {
			simulated = newSteps(jobs)
		}
		fmt.Println("done")
	}
	for _, j := range jobs {
		_ = j.Store.Close()
	}
}

// writeRows replaces the table of a page.
func writeRows(t *testing.T, page string, rows []string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const head = "|---|---|---|---|---|\n"
	before, after, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no table", page)
	}
	for strings.HasPrefix(after, "|") {
		_, after, _ = strings.Cut(after, "\n")
	}
	if err := os.WriteFile(page, []byte(before+head+strings.Join(rows, "\n")+"\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
