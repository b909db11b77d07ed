package runtime

import (
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/hlo"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// Topology is devices that need not be there: programs are compiled for them, and run elsewhere.
type Topology struct {
	PJRT     *pjrt.Topology
	Platform string
	Version  string
	Devices  []pjrt.DeviceDescription
}

// DescribeDevices makes a topology of a plugin; see pjrt.Plugin.NewTopology.
func DescribeDevices(plugin *pjrt.Plugin, name string, opts map[string]any) (*Topology, error) {
	made, err := plugin.NewTopology(name, opts)
	if err != nil {
		return nil, Translate(err)
	}
	t := &Topology{PJRT: made}
	if err := t.describe(); err != nil {
		countUnreported(made.Close())
		return nil, Translate(err)
	}
	return t, nil
}

func (t *Topology) describe() (err error) {
	if t.Platform, err = t.PJRT.PlatformName(); err != nil {
		return err
	}
	if t.Version, err = t.PJRT.PlatformVersion(); err != nil {
		return err
	}
	t.Devices, err = t.PJRT.Devices()
	return err
}

// Compile compiles StableHLO text for the first devices of the topology, as many as partitions; 0 is one that no
// partitioner has seen. flags are options of XLA. The error is errs.Value if there are fewer devices, and errs.Compile
// if XLA refuses the program.
func (t *Topology) Compile(module []byte, partitions int, by Division, flags map[string]any) (*pjrt.Compiled, error) {
	n := max(partitions, 1)
	if n > len(t.Devices) {
		return nil, errs.New(errs.Value, "the program is for %d devices, the topology has %d", n, len(t.Devices))
	}
	opts := pjrt.CompileOptions{EnvOptionOverrides: flags}
	for _, d := range t.Devices[:n] {
		opts.DeviceAssignment = append(opts.DeviceAssignment, d.ID)
	}
	if n > 1 {
		opts.NumPartitions, opts.UseSPMD, opts.PropagateToOutputs, opts.UseShardy = n, true, by.Open, by.Shardy
	}
	exe, err := t.PJRT.Compile(module, "mlir", opts)
	if err != nil {
		e := Translate(err)
		if errs.KindOf(e) == errs.Xla {
			e = errs.Wrap(errs.Compile, err, "XLA refused the program: %v", err)
		}
		return nil, e
	}
	return exe, nil
}

// Optimized is a program as the compiler left it, a serialized HloModuleProto.
func Optimized(exe *pjrt.Compiled) ([]byte, error) {
	code, format, err := exe.OptimizedProgram()
	if err != nil {
		return nil, Translate(err)
	}
	return hlo.Module(code, format)
}
