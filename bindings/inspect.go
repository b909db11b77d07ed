package bindings

import "github.com/torch-go-xla/torch-go-xla/gocore/engine"

// Counters returns a JSON object of the counters that are not zero.
func Counters() string { return engine.CountersJSON() }

// Metrics returns a JSON list of metrics: name, unit, count, total, samples.
func Metrics() string { return engine.MetricsJSON() }

// ClientMemory returns a JSON object of the C memory that the client of the plugin holds: purpose to [bytes, blocks].
func ClientMemory() string { return engine.ClientMemoryJSON() }

// Count adds n to a counter.
func Count(name string, n int64) { engine.Count(name, n) }

// Clear sets all counters to zero, or drops all samples of metrics.
func Clear(counters, metrics bool) {
	if counters {
		engine.ClearCounters()
	}
	if metrics {
		engine.ClearMetrics()
	}
}

// Profile starts the recording of a timeline, or ends it and returns it in the Trace Event Format.
func Profile(on bool) (string, error) {
	if on {
		_, err := ok(engine.Default.StartProfile())
		return "", err
	}
	return engine.StopProfile(), nil
}

// ProfileSpan adds a span of the calling thread to the timeline, under a name and begun at a time that ProfileSpan
// gave; without a name it gives the time.
func ProfileSpan(name string, begin int64) int64 { return engine.ProfileSpan(name, begin) }

// LiveStorages returns the number of storages in use.
func LiveStorages() int64 { return int64(engine.Default.LiveStorages()) }

// LiveBuffers returns the number of device buffers in use.
func LiveBuffers() int64 { return engine.LiveBuffers() }

// LiveBytes returns the bytes of the device buffers in use.
func LiveBytes() int64 { return engine.LiveBytes() }

// CachedPrograms returns the number of compiled programs in memory.
func CachedPrograms() int64 { return int64(engine.Default.CachedPrograms()) }

// Compilations returns a JSON list of the latest graphs that were compiled anew, each with the reason:
// step, program, device, nodes, parameters, results, nearest, equal, was, now, where, reason.
func Compilations() string { return engine.Default.CompilationsJSON() }

// Setting returns the text of a variable of the config table, or its default.
func Setting(name string) string { return engine.Setting(name) }

// Describe returns the state of a storage as JSON: state, shape, device, writes, error.
func Describe(handle int64) (string, error) { return text(engine.Default.Describe(handle)) }

// DumpGraph returns the pending graph of the n storages whose handles lie at an address. format is
// "ir", "dot", "stablehlo" (for any backend) or "program" (the StableHLO that this
// process compiles, which may call code of its own).
func DumpGraph(addr, n int64, format string) (string, error) {
	return text(engine.Default.Dump(words(addr, n), format))
}

// RecordGraph records a graph from the text that DumpGraph gives as "ir": the storages whose n handles lie at
// args are the buffers that it reads, the words at outs take the handles of its m results.
func RecordGraph(graph string, args, n, outs, m int64) (bool, error) {
	return ok(engine.Default.Record(graph, words(args, n), words(outs, m)))
}
