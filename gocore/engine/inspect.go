package engine

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/profile"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// marshal is json.Marshal of values that always can be.
func marshal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("engine: " + err.Error())
	}
	return string(b)
}

// OpTableJSON is [[name, schema], …] of the ops table.
func OpTableJSON() string {
	rows := make([][2]string, len(ops.Table))
	for i, r := range ops.Table {
		rows[i] = [2]string{r.Name, r.Schema}
	}
	return marshal(rows)
}

// ConfigTableJSON is [[name, type, default, doc], …] of the config table.
func ConfigTableJSON() string {
	types := [...]string{config.Bool: "bool", config.Int: "int", config.Text: "str"}
	rows := make([][4]string, len(config.Table))
	for i, v := range config.Table {
		rows[i] = [4]string{v.Name, types[v.Type], v.Default, v.Doc}
	}
	return marshal(rows)
}

// Configure sets a variable of the config table.
func (e *Engine) Configure(name, value string) error {
	if name == "XLA_SAVE_TENSORS_FMT" && savedForms[value] == "" {
		return errs.New(errs.Value, "%s=%q: want text, dot or hlo", name, value)
	}
	if err := config.Set(name, value); err != nil {
		return errs.Wrap(errs.Value, err, "")
	}
	return nil
}

// Setting is the text of a variable of the config table, or its default.
func Setting(name string) string { return config.String(name) }

// OpenJSON is Open with its settings as JSON; see bindings.Open.
func (e *Engine) OpenJSON(text string) error {
	var in struct {
		Library     string            `json:"library"`
		Preload     []string          `json:"preload"`
		Options     map[string]any    `json:"options"`
		Torch       string            `json:"torch"`
		Environment map[string]string `json:"environment"`
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber() // an option that is 1 is another than one that is 1.0
	if err := decoder.Decode(&in); err != nil {
		return errs.Wrap(errs.Value, err, "settings: %v", err)
	}
	for name, v := range in.Environment {
		if err := e.Configure(name, v); err != nil {
			return err
		}
	}
	for name, v := range in.Options {
		value, ok := option(v)
		if !ok {
			return errs.New(errs.Type, "option %s of the plugin is no string, bool, int of 64 bits, float or list of such ints", name)
		}
		in.Options[name] = value
	}
	return e.Open(Settings{Library: in.Library, Preload: in.Preload, Options: in.Options, Torch: in.Torch})
}

// option is a create option, as JSON has it, in the type that a plugin's client takes.
func option(v any) (any, bool) {
	switch v := v.(type) {
	case string, bool:
		return v, true
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			f, err := strconv.ParseFloat(v.String(), 32)
			return float32(f), err == nil
		}
		i, err := v.Int64()
		return i, err == nil
	case []any:
		list := make([]int64, len(v))
		for i, item := range v {
			n, _ := option(item)
			integer, ok := n.(int64)
			if !ok {
				return nil, false
			}
			list[i] = integer
		}
		return list, true
	}
	return nil, false
}

// DeviceCount is the number of devices, 0 before Open.
func (e *Engine) DeviceCount() int {
	if l := e.devices.Load(); l != nil {
		return len(*l)
	}
	return 0
}

// DevicesJSON describes the plugin's devices.
func (e *Engine) DevicesJSON() (string, error) {
	if err := e.check(); err != nil {
		return "", err
	}
	var out []map[string]any
	for i, d := range e.client.PJRT.AddressableDevices() {
		attrs, err := d.Attributes()
		if err != nil {
			attrs = nil
		}
		out = append(out, map[string]any{
			"index": i, "id": d.ID(), "kind": d.Kind(), "platform": e.client.PJRT.PlatformName(),
			"description": d.String(), "attributes": attrs, "process": d.ProcessIndex(),
			"local_hardware_id": d.LocalHardwareID(),
		})
	}
	return marshal(out), nil
}

// MemoryJSON is the figures of a device's allocator, with the bytes that live tensors take by shape.
func (e *Engine) MemoryJSON(dev int) (string, error) {
	d, err := e.device(dev)
	if err != nil {
		return "", err
	}
	st, err := d.MemoryStats()
	if err != nil {
		return "", err
	}
	return marshal(map[string]int64{
		"bytes_used": st.BytesInUse, "peak_bytes_used": st.PeakBytesInUse, "bytes_limit": st.BytesLimit,
		"num_allocs": st.NumAllocs, "largest_alloc": st.LargestAllocSize, "live_bytes": runtime.LiveBytes(),
	}), nil
}

// ClientMemoryJSON is the C memory that the client of the plugin holds in the process, by purpose: bytes and blocks.
func ClientMemoryJSON() string {
	held := make(map[string][2]int64)
	for _, c := range pjrt.MemoryCounters() {
		held[c.Purpose] = [2]int64{c.Bytes, c.Blocks}
	}
	return marshal(held)
}

// CountersJSON is the counters that are not zero.
func CountersJSON() string { return marshal(metrics.Counters()) }

// MetricsJSON is the metrics that have samples.
func MetricsJSON() string { return marshal(metrics.Metrics()) }

// Count adds to a counter.
func Count(name string, n int64) { metrics.C(name).Add(n) }

// ClearCounters sets all counters to zero.
func ClearCounters() { metrics.ClearCounters() }

// ClearMetrics drops all samples.
func ClearMetrics() { metrics.ClearMetrics() }

// LiveBuffers is the number of device buffers in use.
func LiveBuffers() int64 { return runtime.LiveBuffers() }

// LiveBytes is the bytes of the device buffers in use.
func LiveBytes() int64 { return runtime.LiveBytes() }

// CachedPrograms is the number of compiled programs in memory.
func (e *Engine) CachedPrograms() int {
	if e.check() != nil {
		return 0
	}
	return e.cache.Len()
}

// Describe is the state of a storage as JSON.
func (e *Engine) Describe(handle int64) (string, error) {
	if err := e.lock(); err != nil {
		return "", err
	}
	defer e.mu.Unlock()
	c, err := e.cell(alias.Handle(handle))
	if err != nil {
		return "", err
	}
	out := map[string]any{"state": c.State.String(), "bytes": c.Bytes, "device": c.Dev, "writes": c.Writes}
	if c.Shape != nil {
		out["shape"] = c.Shape.String()
		out["dims"] = append([]int64{}, c.Shape.Dims...)
	}
	if sh := e.shardingOf(c); sh != nil {
		out["sharding"] = sh.String()
	}
	if c.Err != nil {
		out["error"] = c.Err.Error()
	}
	return marshal(out), nil
}

// UploadWords is Upload as the bindings call it.
func (e *Engine) UploadWords(handle int64, src unsafe.Pointer, torchType int, dims []int64) error {
	d := dtype.FromTorch(torchType)
	if d == dtype.Invalid {
		return errs.New(errs.Type, "this dtype is not supported on xla devices")
	}
	return e.Upload(alias.Handle(handle), src, d, dims)
}

// BorrowWords is Borrow as the bindings call it.
func (e *Engine) BorrowWords(handle int64, src unsafe.Pointer, torchType int, dims []int64) (int64, error) {
	d := dtype.FromTorch(torchType)
	if d == dtype.Invalid {
		return 0, errs.New(errs.Type, "this dtype is not supported on xla devices")
	}
	return e.Borrow(alias.Handle(handle), src, d, dims)
}

// FetchWords is Fetch as the bindings call it.
func (e *Engine) FetchWords(handle int64, dst unsafe.Pointer, size int64) error {
	return e.Fetch(alias.Handle(handle), dst, size)
}

// CopyWords is Copy as the bindings call it.
func (e *Engine) CopyWords(dst, src int64) error { return e.Copy(alias.Handle(dst), alias.Handle(src)) }

// Ready settles a storage and waits until it is computed, or until the timeout; it reports whether it is.
// The error is the one that reading the storage gives.
func (e *Engine) Ready(handle int64, timeout time.Duration) (bool, error) {
	b, err := e.Buffer(alias.Handle(handle))
	if err != nil || b == nil {
		return err == nil, err
	}
	defer b.Release()
	span := profile.Begin()
	done, err := b.AwaitFor(timeout)
	span.Waited()
	if !done && err == nil {
		err = e.client.Job.Stuck()
	}
	return done, err
}
