package metrics

import (
	"slices"
	"testing"
)

func TestPercentilesAreOfTheLatestSamples(t *testing.T) {
	m := Metric{name: "m"}
	if got := m.Summary(); got.Count != 0 || got.Percentiles != nil {
		t.Errorf("without samples: %+v", got)
	}
	for range window {
		m.Add(1e9)
	}
	for i := range window {
		m.Add(float64(window - i)) // 1 to window, not in order
	}
	got := m.Summary()
	if got.Count != 2*window || len(got.Samples) != window || len(got.Percentiles) != len(levels) {
		t.Fatalf("%d samples, %d kept, %d percentiles", got.Count, len(got.Samples), len(got.Percentiles))
	}
	if i := slices.Index(levels, 0.5); got.Percentiles[i] != [2]float64{0.5, (window + 1) / 2.0} {
		t.Errorf("the median of 1 to %d is %v", window, got.Percentiles[i])
	}
	if got.Samples[0] != window {
		t.Error("the samples are to stay in their order")
	}
}
