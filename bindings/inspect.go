package bindings

import "github.com/torch-go-xla/torch-go-xla/gocore/engine"

// Counters returns the counters that are not zero.
func Counters() (object string) { return marshal(engine.Counters()) }

// Metrics returns the metrics that have samples: name, unit, count, total, samples.
func Metrics() (list string) { return marshal(engine.Metrics()) }

// ClientMemory returns the C memory that the client of the plugin holds: purpose to [bytes, blocks].
func ClientMemory() (object string) { return marshal(engine.ClientMemory()) }

// Count adds one to a counter.
func Count(name string) { engine.Count(name) }

// Clear sets all counters to zero, or drops all samples of metrics.
func Clear(counters, metrics bool) {
	if counters {
		engine.ClearCounters()
	}
	if metrics {
		engine.ClearMetrics()
	}
}

// StartProfile starts the recording of a timeline; RuntimeError if one runs.
//
//control:open
func StartProfile() error { return failed(engine.Default.StartProfile()) }

// StopProfile ends the recording and returns it in the Trace Event Format, "" if none runs.
func StopProfile() string { return engine.StopProfile() }

// ProfileSpan adds a span of the calling thread to the timeline, under a name and begun at a time that ProfileSpan
// gave; without a name it gives the time.
func ProfileSpan(name string, begin int64) int64 { return engine.ProfileSpan(name, begin) }

// LiveStorages returns the number of storages in use.
func LiveStorages() int64 { return int64(engine.Default.LiveStorages()) }

// LiveBuffers returns the number of device buffers that something refers to, computed or not.
func LiveBuffers() int64 { return engine.LiveBuffers() }

// LiveBytes returns the bytes of the device buffers that something refers to, by their shapes.
func LiveBytes() int64 { return engine.LiveBytes() }

// CachedPrograms returns the number of compiled programs in memory.
func CachedPrograms() int64 { return int64(engine.Default.CachedPrograms()) }

// Compilations returns the latest graphs that were compiled, the oldest first. The keys of each are step, program,
// device, nodes, parameters, results and tier; and for the reason nearest, equal, was, now, where, reason.
func Compilations() (list string) { return marshal(engine.Default.Compilations()) }

// Setting returns the text of a variable of the config table, or its default.
func Setting(name string) string { return engine.Setting(name) }

// Describe returns the state of a storage: state, bytes, device, writes, and where it has them shape, dims, sharding,
// error.
func Describe(handle int64) (object string, err error) {
	return encoded(engine.Default.Describe(engine.Handle(handle)))
}

// Dump returns the recorded graph of some storages. form is "ir", "dot", "stablehlo" (for any backend), "program"
// (what this process compiles, which may call its code), or "nodes". The last is a JSON list with the slots and Python
// lines of the nodes.
func Dump(handles, nHandles int64, form string) (string, error) {
	return result(engine.Default.Dump(words(handles, nHandles), form))
}

// NextSlot returns the slot of the graph that the next node of a device will take.
//
//control:open
func NextSlot(device int64) (int64, error) { return result(engine.Default.NextSlot(int(device))) }

// Record records a graph from the text that Dump gives as "ir", and returns the handles of its results. Some storages
// are the buffers that it reads.
//
//control:open
func Record(graph string, arguments, nArguments, outResults, nOutResults int64) error {
	return failed(engine.Default.Record(graph, words(arguments, nArguments), words(outResults, nOutResults)))
}
