package rendezvous

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// The processes of a job are copies of the test program that TestMain diverts.
const (
	envRole   = "TGX_JOB_ROLE"   // a key of roles
	envStore  = "TGX_JOB_STORE"  // the address of the store
	envMember = "TGX_JOB_MEMBER" // "index/processes/devices of each"
)

var roles = map[string]func(*member) error{
	"collectives": (*member).collectives,
	"survivors":   (*member).survivors,
}

func TestMain(m *testing.M) {
	role, ok := roles[os.Getenv(envRole)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := run(role); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}

// pluginPath is the CPU plugin to test with.
func pluginPath() string { return os.Getenv("TGX_XLA_CPU_PLUGIN") }

// member is one process of a job.
type member struct {
	index, processes, local int
	client                  *pjrt.Client
}

func run(role func(*member) error) error {
	var m member
	if _, err := fmt.Sscanf(os.Getenv(envMember), "%d/%d/%d", &m.index, &m.processes, &m.local); err != nil {
		return err
	}
	store, err := Dial(context.Background(), os.Getenv(envStore), secret, Member{m.index, m.processes})
	if err != nil {
		return err
	}
	defer store.Close()
	plugin, err := pjrt.Load(pluginPath())
	if err != nil {
		return err
	}
	m.client, err = plugin.NewClient(map[string]any{
		"cpu_device_count": int64(m.local), "num_nodes": int64(m.processes), "node_id": int64(m.index),
	}, store)
	if err != nil {
		return err
	}
	if n := len(m.client.Devices()); n != m.replicas() || m.client.ProcessIndex() != m.index {
		return fmt.Errorf("process %d of %d sees %d devices", m.client.ProcessIndex(), m.processes, n)
	}
	return errors.Join(role(&m), m.client.Close())
}

func (m *member) replicas() int { return m.processes * m.local }

// launch compiles a program of one array for all replicas and runs it on input(replica); it returns
// the outputs of this process's replicas.
func (m *member) launch(op string, in, out int, input func(replica int) []float32) ([][]float32, error) {
	module := fmt.Sprintf(`module { func.func @main(%%a: tensor<%dxf32>) -> tensor<%dxf32> {
	  %%r = %s : (tensor<%dxf32>) -> tensor<%dxf32>
	  return %%r : tensor<%dxf32> } }`, in, out, op, in, out, out)
	exe, err := m.client.Compile([]byte(module), "mlir", pjrt.CompileOptions{NumReplicas: m.replicas()})
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	call, err := exe.Prepare(1)
	if err != nil {
		return nil, err
	}
	defer call.Close()
	devices := exe.AddressableDevices()
	args, outs, events := make([]pjrt.Buffer, m.local), make([]pjrt.Buffer, m.local), make([]pjrt.Event, m.local)
	for d, device := range devices {
		data := input(m.index*m.local + d)
		b, e, err := m.client.FromHost(unsafe.Pointer(&data[0]), pjrt.F32, []int64{int64(in)}, nil, device, pjrt.OnlyDuringCall)
		if err != nil {
			return nil, err
		}
		if err := m.client.AwaitAndDestroy(e); err != nil {
			return nil, err
		}
		args[d] = b
	}
	if err := call.Execute(args, nil, outs, events); err != nil {
		return nil, err
	}
	results := make([][]float32, m.local)
	for d, b := range outs {
		results[d] = make([]float32, out)
		err = errors.Join(err, m.client.AwaitAndDestroy(events[d]))
		e, rerr := m.client.ToHost(b, unsafe.Pointer(&results[d][0]), 4*out)
		if rerr == nil {
			rerr = m.client.AwaitAndDestroy(e)
		}
		err = errors.Join(err, rerr)
	}
	return results, errors.Join(err, m.client.Destroy(append(args, outs...)...))
}

// check launches a program and compares element i of replica r's output with want(r, i).
func (m *member) check(name, op string, in, out int, want func(r, i int) float32) error {
	got, err := m.launch(op, in, out, func(r int) []float32 { return ramp(r, in) })
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for d, values := range got {
		for i, v := range values {
			if r := m.index*m.local + d; v != want(r, i) {
				return fmt.Errorf("%s: element %d of replica %d is %v, want %v", name, i, r, v, want(r, i))
			}
		}
	}
	return nil
}

// ramp is replica r's input: i + 1000 r.
func ramp(r, n int) []float32 {
	data := make([]float32, n)
	for i := range data {
		data[i] = value(r, i)
	}
	return data
}

func value(r, i int) float32 { return float32(i%1000 + 1000*r) }

// groups is the attribute with lists of replicas as the groups.
func groups(lists ...[]int) string {
	return fmt.Sprintf("replica_groups = dense<%s> : tensor<%dx%dxi64>", matrix(lists), len(lists), len(lists[0]))
}

func matrix(lists [][]int) string {
	rows := make([]string, len(lists))
	for i, list := range lists {
		rows[i] = strings.ReplaceAll(fmt.Sprint(list), " ", ", ")
	}
	return "[" + strings.Join(rows, ", ") + "]"
}

func reduction(collective, reducer, attributes string) string {
	return fmt.Sprintf(`"stablehlo.%s"(%%a) <{%s}> ({
	  ^bb0(%%x: tensor<f32>, %%y: tensor<f32>):
	    %%s = stablehlo.%s %%x, %%y : tensor<f32>
	    stablehlo.return %%s : tensor<f32> })`, collective, attributes, reducer)
}

// upTo is 0 … n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// total adds value(r, i) over replicas.
func total(replicas []int, i int) (sum float32) {
	for _, r := range replicas {
		sum += value(r, i)
	}
	return sum
}

// allReduce adds an array of n elements over all replicas.
func (m *member) allReduce(n int) error {
	all := upTo(m.replicas())
	return m.check(fmt.Sprintf("all_reduce of %d", n), reduction("all_reduce", "add", groups(all)), n, n,
		func(_, i int) float32 { return total(all, i) })
}

// collectives runs every collective, over all replicas and over parts of them.
func (m *member) collectives() error {
	n := m.replicas()
	all := upTo(n)
	even, odd := make([]int, 0, n/2), make([]int, 0, n/2)
	for r := range n {
		if r%2 == 0 {
			even = append(even, r)
		} else {
			odd = append(odd, r)
		}
	}
	half := func(r int) []int { return [][]int{even, odd}[r%2] }
	ring := make([][]int, 0, n)
	for r := range n - 1 { // no one sends to replica 0
		ring = append(ring, []int{r, r + 1})
	}
	for range 2 {
		err := errors.Join(
			m.allReduce(5), m.allReduce(100003),
			m.check("maximum", reduction("all_reduce", "maximum", groups(all)), 7, 7,
				func(_, i int) float32 { return value(n-1, i) }),
			m.check("all_reduce in groups", reduction("all_reduce", "add", groups(even, odd)), 3, 3,
				func(r, i int) float32 { return total(half(r), i) }),
			m.check("all_gather", fmt.Sprintf(`"stablehlo.all_gather"(%%a) <{all_gather_dim = 0 : i64, %s}>`, groups(all)), 3, 3*n,
				func(_, i int) float32 { return value(i/3, i%3) }),
			m.check("reduce_scatter", reduction("reduce_scatter", "add", "scatter_dimension = 0 : i64, "+groups(all)), 2*n, 2,
				func(r, i int) float32 { return total(all, 2*r+i) }),
			m.check("all_to_all", fmt.Sprintf(`"stablehlo.all_to_all"(%%a) <{split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = %d : i64, %s}>`, n, groups(all)), 2*n, 2*n,
				func(r, i int) float32 { return value(i/2, 2*r+i%2) }),
			m.check("collective_permute", fmt.Sprintf(`"stablehlo.collective_permute"(%%a) <{source_target_pairs = dense<%s> : tensor<%dx2xi64>}>`, matrix(ring), len(ring)), 3, 3,
				func(r, i int) float32 {
					if r == 0 {
						return 0
					}
					return value(r-1, i)
				}),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// survivors runs a collective, then one that the last process does not join, since the test kills it.
func (m *member) survivors() error {
	if err := m.allReduce(9); err != nil {
		return err
	}
	fmt.Println("ready")
	if m.index == m.processes-1 {
		select {} // until it is killed
	}
	for attempt := range 2 {
		err := m.allReduce(9)
		var e *pjrt.Error
		if !errors.As(err, &e) || e.Code != pjrt.Unavailable || !strings.Contains(e.Msg, "process ") {
			return fmt.Errorf("attempt %d gives %v, want UNAVAILABLE and which process", attempt, err)
		}
		fmt.Println(e)
	}
	// Programs of one device still run.
	exe, err := m.client.Compile([]byte(`module { func.func @main() -> tensor<f32> {
	  %r = stablehlo.constant dense<1.0> : tensor<f32>
	  return %r : tensor<f32> } }`), "mlir", pjrt.CompileOptions{})
	if err != nil {
		return err
	}
	call, err := exe.Prepare(0)
	if err != nil {
		return err
	}
	outs := make([]pjrt.Buffer, 1)
	return errors.Join(call.Execute(nil, nil, outs, nil), m.client.Destroy(outs...), call.Close(), exe.Close())
}

// process is a started member; lines are what it prints.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t *testing.T, role string, processes, local int) []*process {
	t.Helper()
	if pluginPath() == "" {
		t.Skip("TGX_XLA_CPU_PLUGIN does not name a CPU plugin to test with")
	}
	server := serve(t)
	members := make([]*process, processes)
	for i := range members {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), envRole+"="+role, envStore+"="+server.Address(),
			envMember+"="+strings.Join([]string{strconv.Itoa(i), strconv.Itoa(processes), strconv.Itoa(local)}, "/"),
			"TF_ENABLE_ONEDNN_OPTS=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		members[i] = &process{cmd, bufio.NewScanner(out)}
	}
	return members
}

// finish waits for the end of a member, up to the timeout, and returns what it has printed.
func (p *process) finish(t *testing.T, timeout time.Duration) (lines []string, err error) {
	t.Helper()
	late := time.AfterFunc(timeout, func() {
		t.Errorf("a member runs after %v", timeout)
		_ = p.Process.Signal(syscall.SIGQUIT)
	})
	defer late.Stop()
	for p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	return lines, errors.Join(p.lines.Err(), p.Wait())
}

var sizes = []struct{ processes, local int }{{2, 2}, {4, 1}}

func TestCollectives(t *testing.T) {
	for _, s := range sizes {
		t.Run(fmt.Sprintf("%d processes of %d devices", s.processes, s.local), func(t *testing.T) {
			for i, p := range start(t, "collectives", s.processes, s.local) {
				if lines, err := p.finish(t, 2*time.Minute); err != nil {
					t.Errorf("process %d: %v: %s", i, err, lines)
				}
			}
		})
	}
}

// TestKilledProcess kills one process of a job: the others get an error within a minute that says so,
// and no collective runs again.
func TestKilledProcess(t *testing.T) {
	for _, s := range sizes {
		t.Run(fmt.Sprintf("%d processes of %d devices", s.processes, s.local), func(t *testing.T) {
			members := start(t, "survivors", s.processes, s.local)
			for i, p := range members {
				if !p.lines.Scan() || p.lines.Text() != "ready" {
					t.Fatalf("process %d: %q", i, p.lines.Text())
				}
			}
			last := members[s.processes-1]
			if err := last.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if _, err := last.finish(t, time.Minute); err == nil {
				t.Error("the killed process has ended well")
			}
			told := false
			for i, p := range members[:s.processes-1] {
				lines, err := p.finish(t, time.Minute)
				if err != nil {
					t.Errorf("process %d: %v: %s", i, err, lines)
				}
				told = told || slices.ContainsFunc(lines, func(line string) bool {
					return strings.Contains(line, fmt.Sprintf("process %d has gone", s.processes-1))
				})
				t.Logf("process %d: %s", i, lines)
			}
			if !told {
				t.Error("no process says which one has gone")
			}
		})
	}
}
