package engine

import (
	"cmp"
	"slices"
	"strings"

	"github.com/torch-go-xla/torch-go-xla/gocore/alias"
	"github.com/torch-go-xla/torch-go-xla/gocore/config"
	"github.com/torch-go-xla/torch-go-xla/gocore/errs"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
	"github.com/torch-go-xla/torch-go-xla/gocore/metrics"
	"github.com/torch-go-xla/torch-go-xla/gocore/ops"
	"github.com/torch-go-xla/torch-go-xla/gocore/runtime"
	"github.com/torch-go-xla/torch-go-xla/pjrt"
)

// inspector tells of devices, storages and graphs.
type inspector struct {
	*planner
}

// Op is what a row tells to those that register its op with torch.
type Op struct {
	Name     string        `json:"name"`
	Schema   string        `json:"schema"`
	Since    string        `json:"since"`
	Shortcut *ops.Shortcut `json:"shortcut"`
	Also     string        `json:"also"`
	Torch    bool          `json:"torch"`
}

// OpTable is the ops, in the order of their numbers.
func OpTable() []Op {
	rows := make([]Op, len(ops.Table))
	for i, r := range ops.Table {
		rows[i] = Op{r.Name, r.Schema, r.Since, r.Shortcut, r.Also, r.Torch != nil}
	}
	return rows
}

// ConfigTable is name, type, default and doc of the variables of the config table.
func ConfigTable() [][4]string {
	types := [...]string{config.Bool: "bool", config.Int: "int", config.Text: "str"}
	rows := make([][4]string, len(config.Table))
	for i, v := range config.Table {
		rows[i] = [4]string{v.Name, types[v.Type], v.Default, v.Doc}
	}
	return rows
}

// Configure sets a variable of the config table. The error is errs.Value for an unknown variable, or a value that it
// does not take.
func (ins *inspector) Configure(name, value string) error {
	if name == "XLA_SAVE_TENSORS_FMT" && savedForms[value] == "" {
		return errs.New(errs.Value, "%s=%q: want text, dot or hlo", name, value)
	}
	if name == "XLA_TIER" && !slices.Contains(tiers, value) {
		return errs.New(errs.Value, "%s=%q: want %s", name, value, strings.Join(tiers, ", "))
	}
	which := ops.Checks(0)
	if name == "TORCH_GO_XLA_CHECK" {
		var err error
		if which, err = checksOf(value); err != nil {
			return err
		}
	}
	if err := config.Set(name, value); err != nil {
		return errs.Wrap(errs.Value, err, "")
	}
	if name != "TORCH_GO_XLA_CHECK" {
		return nil
	}
	ins.lockWhenIdle() // a program that is being planned may compute the checks that are dropped
	defer ins.mu.Unlock()
	if ins.checking.Store(uint32(which)); which == 0 {
		ins.dropChecks()
	}
	return nil
}

// Setting is the text of a variable of the config table, or its default.
func Setting(name string) string { return config.String(name) }

// DeviceInfo describes a device of the plugin.
type DeviceInfo struct {
	Index           int            `json:"index"`
	ID              int            `json:"id"`
	Kind            string         `json:"kind"`
	Platform        string         `json:"platform"`
	Description     string         `json:"description"`
	Attributes      map[string]any `json:"attributes"`
	Process         int            `json:"process"`
	LocalHardwareID int            `json:"local_hardware_id"`
}

// Devices describes the plugin's devices.
func (ins *inspector) Devices() ([]DeviceInfo, error) {
	if err := ins.check(); err != nil {
		return nil, err
	}
	var out []DeviceInfo
	for i, d := range ins.client.PJRT.AddressableDevices() {
		attrs, err := d.Attributes()
		if err != nil {
			attrs = nil
		}
		out = append(out, DeviceInfo{Index: i, ID: d.ID(), Kind: d.Kind(), Platform: ins.client.PJRT.PlatformName(),
			Description: d.String(), Attributes: attrs, Process: d.ProcessIndex(), LocalHardwareID: d.LocalHardwareID()})
	}
	return out, nil
}

// MemoryInfo is the figures of a device's allocator by torch_xla's names, with the bytes of live tensors.
func (ins *inspector) MemoryInfo(dev int) (map[string]int64, error) {
	d, err := ins.device(dev)
	if err != nil {
		return nil, err
	}
	st, err := d.MemoryStats()
	if err != nil {
		return nil, err
	}
	return map[string]int64{
		"bytes_used": st.BytesInUse, "peak_bytes_used": st.PeakBytesInUse, "bytes_limit": st.BytesLimit,
		"num_allocs": st.NumAllocs, "largest_alloc": st.LargestAllocSize, "live_bytes": runtime.LiveBytes(),
	}, nil
}

// MemoryStats is what the arrays of a device take, by the names of torch.accelerator.memory_stats. What the plugin's
// allocator has reserved is there where it tells.
func (ins *inspector) MemoryStats(dev int) (map[string]int64, error) {
	d, err := ins.device(dev)
	if err != nil {
		return nil, err
	}
	a := d.ArrayStats()
	stats := map[string]int64{
		"allocated_bytes.all.current": a.Bytes, "allocated_bytes.all.peak": a.PeakBytes,
		"allocated_bytes.all.allocated": a.AllocatedBytes, "allocated_bytes.all.freed": a.FreedBytes,
		"allocation.all.current": a.Count, "allocation.all.peak": a.PeakCount,
		"allocation.all.allocated": a.AllocatedCount, "allocation.all.freed": a.FreedCount,
	}
	if st, err := d.MemoryStats(); err == nil {
		stats["reserved_bytes.all.current"], stats["reserved_bytes.all.peak"] = st.BytesInUse, st.PeakBytesInUse
		stats["limit_bytes"] = st.BytesLimit
	}
	return stats, nil
}

// ResetMemoryStats makes what a device's arrays take now their peak, or forgets what they took in all.
func (ins *inspector) ResetMemoryStats(dev int, peak bool) error {
	d, err := ins.device(dev)
	switch {
	case err != nil:
		return err
	case peak:
		d.ResetPeak()
	default:
		d.ResetTotals()
	}
	return nil
}

// NextSlot is the slot of the graph that the next node of a device will take. Slots count up until the next sync.
func (ins *inspector) NextSlot(dev int) (int64, error) {
	if err := ins.check(); err != nil {
		return 0, err
	}
	if err := ins.lock(); err != nil {
		return 0, err
	}
	defer ins.mu.Unlock()
	return int64(ins.store.Trace(int32(dev)).Graph.Len()), nil
}

// LiveArray is the array of one or more tensors that share a storage.
type LiveArray struct {
	Shape string `json:"shape"`
	Bytes int64  `json:"bytes"`
	Op    string `json:"op"`   // that computed it; "" for a transfer
	Where string `json:"line"` // of Python, "file:line"; "" where it is not known
}

// LargestArrays is the largest arrays of a device's tensors, the largest first, n at most. What is recorded and not
// computed is not among them.
func (ins *inspector) LargestArrays(dev, n int) ([]LiveArray, error) {
	if _, err := ins.device(dev); err != nil {
		return nil, err
	}
	if err := ins.lock(); err != nil {
		return nil, err
	}
	defer ins.mu.Unlock()
	var found []*runtime.Buffer
	seen := make(map[*runtime.Buffer]bool)
	for c := range ins.store.Cells() {
		if b, ok := c.Buf.(*runtime.Buffer); ok && c.State == alias.Device && c.Dev == int32(dev) && !seen[b] {
			seen[b] = true
			found = append(found, b)
		}
	}
	slices.SortStableFunc(found, func(a, b *runtime.Buffer) int { return cmp.Compare(b.Shape.Bytes(), a.Shape.Bytes()) })
	out := []LiveArray{}
	for _, b := range found[:min(n, len(found))] {
		array := LiveArray{Shape: b.Shape.String(), Bytes: b.Shape.Bytes(), Where: ins.where.Where(b.Origin.Loc)}
		if b.Origin.Op != 0 {
			array.Op = ops.Name(ir.Op(b.Origin.Op))
		}
		out = append(out, array)
	}
	return out, nil
}

// ClientMemory is the C memory that the client of the plugin holds in the process, by purpose: bytes and blocks.
func ClientMemory() map[string][2]int64 {
	held := make(map[string][2]int64)
	for _, c := range pjrt.MemoryCounters() {
		held[c.Purpose] = [2]int64{c.Bytes, c.Blocks}
	}
	return held
}

// Counters is the counters that are not zero.
func Counters() map[string]int64 { return metrics.Counters() }

// Metrics is the metrics that have samples.
func Metrics() []metrics.Summary { return metrics.Metrics() }

// Count adds one to a counter.
func Count(name string) { metrics.C(name).Add(1) }

// ClearCounters sets all counters to zero.
func ClearCounters() { metrics.ClearCounters() }

// ClearMetrics drops all samples.
func ClearMetrics() { metrics.ClearMetrics() }

// LiveBuffers is the number of device buffers that something refers to.
func LiveBuffers() int64 { return runtime.LiveBuffers() }

// LiveBytes is their bytes, by their shapes. MemoryStats has those of a device's arrays.
func LiveBytes() int64 { return runtime.LiveBytes() }

// CachedPrograms is the number of compiled programs in memory.
func (ins *inspector) CachedPrograms() int {
	if ins.check() != nil {
		return 0
	}
	return ins.cache.Len()
}

// StorageInfo is the state of a storage.
type StorageInfo struct {
	State    string  `json:"state"`
	Bytes    int64   `json:"bytes"`
	Device   int32   `json:"device"`
	Writes   uint32  `json:"writes"`
	Shape    string  `json:"shape,omitempty"`
	Dims     []int64 `json:"dims,omitzero"`
	Sharding string  `json:"sharding,omitempty"`
	Error    string  `json:"error,omitempty"`
}

// Describe is the state of a storage.
func (ins *inspector) Describe(h alias.Handle) (StorageInfo, error) {
	if err := ins.lock(); err != nil {
		return StorageInfo{}, err
	}
	defer ins.mu.Unlock()
	c, err := ins.cell(h)
	if err != nil {
		return StorageInfo{}, err
	}
	out := StorageInfo{State: c.State.String(), Bytes: c.Bytes, Device: c.Dev, Writes: c.Writes}
	if c.Shape != nil {
		out.Shape, out.Dims = c.Shape.String(), append([]int64{}, c.Shape.Dims...)
	}
	if sh := ins.shardingOf(c); sh != nil {
		out.Sharding = sh.String()
	}
	if c.Err != nil {
		out.Error = c.Err.Error()
	}
	return out, nil
}

// Compilations is the latest lowerings with their reasons, the oldest first.
func (ins *inspector) Compilations() []Compilation {
	ins.mu.Lock()
	defer ins.mu.Unlock()
	log := append([]Compilation{}, ins.history.log...)
	for i := range log {
		log[i].Tier = tierOf(log[i].ops)
		if log[i].ops != nil {
			work := log[i].ops.work
			log[i].Work = &work
		}
	}
	return log
}
