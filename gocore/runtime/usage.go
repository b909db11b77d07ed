package runtime

import "sync/atomic"

// Memory is counted in two ways, by shapes. Live buffers are those that tensors, launches and caches refer to, whether
// or not they are computed yet. Arrays are what programs and transfers have made and no one has freed, by device.
// What the plugin's allocator takes is a third figure; see Device.MemoryStats.

var (
	live      atomic.Int64
	liveBytes atomic.Int64
)

// LiveBuffers is the number of buffers with a reference.
func LiveBuffers() int64 { return live.Load() }

// LiveBytes is the bytes of all buffers with a reference, by their shapes, on all devices together.
func LiveBytes() int64 { return liveBytes.Load() }

// ArrayStats is the memory of a device's arrays, by their shapes, as the programs of this process take it. What the
// plugin's allocator adds for alignment is not in it. With SPMD it is that of all devices together.
type ArrayStats struct {
	Bytes, Count               int64 // now
	PeakBytes, PeakCount       int64 // at most since ResetPeak; the bytes with what a program computes on the way
	AllocatedBytes, FreedBytes int64 // since ResetTotals
	AllocatedCount, FreedCount int64 // since ResetTotals
}

// arrays counts an ArrayStats without a lock.
type arrays struct {
	bytes, count                   atomic.Int64
	peakBytes, peakCount           atomic.Int64
	allocatedBytes, allocatedCount atomic.Int64
	// The totals of what was freed follow from the others: what was allocated, and is not there.
	bytesAtReset, countAtReset atomic.Int64
}

// add counts an array that a program or a transfer has made.
func (a *arrays) add(bytes int64) {
	a.bytes.Add(bytes)
	a.allocatedBytes.Add(bytes)
	a.allocatedCount.Add(1)
	raise(&a.peakCount, a.count.Add(1))
}

// drop counts an array that is gone.
func (a *arrays) drop(bytes int64) {
	a.bytes.Add(-bytes)
	a.count.Add(-1)
}

// need notes that something takes so many bytes beside the arrays that exist.
func (a *arrays) need(bytes int64) { raise(&a.peakBytes, a.bytes.Load()+bytes) }

func raise(peak *atomic.Int64, to int64) {
	for {
		old := peak.Load()
		if to <= old || peak.CompareAndSwap(old, to) {
			return
		}
	}
}

// ArrayStats is what the device's arrays take.
func (d *Device) ArrayStats() ArrayStats {
	a := &d.arrays
	s := ArrayStats{Bytes: a.bytes.Load(), Count: a.count.Load(), AllocatedBytes: a.allocatedBytes.Load(), AllocatedCount: a.allocatedCount.Load()}
	s.PeakBytes, s.PeakCount = max(a.peakBytes.Load(), s.Bytes), max(a.peakCount.Load(), s.Count)
	s.FreedBytes, s.FreedCount = a.bytesAtReset.Load()+s.AllocatedBytes-s.Bytes, a.countAtReset.Load()+s.AllocatedCount-s.Count
	return s
}

// ResetPeak makes what is there now the peak.
func (d *Device) ResetPeak() {
	d.arrays.peakBytes.Store(d.arrays.bytes.Load())
	d.arrays.peakCount.Store(d.arrays.count.Load())
}

// ResetTotals forgets what was allocated and freed.
func (d *Device) ResetTotals() {
	d.arrays.allocatedBytes.Store(0)
	d.arrays.allocatedCount.Store(0)
	d.arrays.bytesAtReset.Store(d.arrays.bytes.Load())
	d.arrays.countAtReset.Store(d.arrays.count.Load())
}
