package runtime

import "sync/atomic"

// Usage is the memory of a device's arrays, by their shapes, as the programs of this process take it. What the
// plugin's allocator adds for alignment is not in it. With SPMD it is that of all devices together.
type Usage struct {
	Bytes, Arrays                int64 // now
	PeakBytes, PeakArrays        int64 // at most since ResetPeak; the bytes with what a program computes on the way
	Allocated, Freed             int64 // bytes since ResetTotals
	AllocatedArrays, FreedArrays int64 // arrays since ResetTotals
}

// usage counts a Usage without a lock.
type usage struct {
	bytes, arrays              atomic.Int64
	peakBytes, peakArrays      atomic.Int64
	allocated, allocatedArrays atomic.Int64
	// The totals of freed bytes and arrays follow from the others: what was allocated, and is freed.
	bytesAtReset, arraysAtReset atomic.Int64
}

// add counts an array that a program or a transfer has made.
func (u *usage) add(bytes int64) {
	u.bytes.Add(bytes)
	u.allocated.Add(bytes)
	u.allocatedArrays.Add(1)
	raise(&u.peakArrays, u.arrays.Add(1))
}

// drop counts an array that is gone.
func (u *usage) drop(bytes int64) {
	u.bytes.Add(-bytes)
	u.arrays.Add(-1)
}

// need notes that something takes so many bytes beside the arrays that exist.
func (u *usage) need(bytes int64) { raise(&u.peakBytes, u.bytes.Load()+bytes) }

func raise(peak *atomic.Int64, to int64) {
	for {
		old := peak.Load()
		if to <= old || peak.CompareAndSwap(old, to) {
			return
		}
	}
}

// Usage is what the device's arrays take.
func (d *Device) Usage() Usage {
	u := &d.usage
	s := Usage{Bytes: u.bytes.Load(), Arrays: u.arrays.Load(), Allocated: u.allocated.Load(), AllocatedArrays: u.allocatedArrays.Load()}
	s.PeakBytes, s.PeakArrays = max(u.peakBytes.Load(), s.Bytes), max(u.peakArrays.Load(), s.Arrays)
	s.Freed, s.FreedArrays = u.bytesAtReset.Load()+s.Allocated-s.Bytes, u.arraysAtReset.Load()+s.AllocatedArrays-s.Arrays
	return s
}

// ResetPeak makes what is there now the peak.
func (d *Device) ResetPeak() {
	d.usage.peakBytes.Store(d.usage.bytes.Load())
	d.usage.peakArrays.Store(d.usage.arrays.Load())
}

// ResetTotals forgets what was allocated and freed.
func (d *Device) ResetTotals() {
	d.usage.allocated.Store(0)
	d.usage.allocatedArrays.Store(0)
	d.usage.bytesAtReset.Store(d.usage.bytes.Load())
	d.usage.arraysAtReset.Store(d.usage.arrays.Load())
}
