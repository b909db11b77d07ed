package ops

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
)

func TestNormalizations(t *testing.T) {
	all, some := []int64{1, 1, 1}, []int64{0, 1, 0}
	checkCalls(t, []inferCase{
		{of("_softmax", "f16[2,3]", 1, true), "f32[2,3]"},
		{of("_softmax", "f32[]", 0, false), "f32[]"},
		{of("_softmax", "i64[2,3]", 0, false), `[NotImplementedError] "softmax_kernel_impl" not implemented for 'Long'`},
		{of("_log_softmax", "i64[2,3]", 1, false), `[NotImplementedError] "log_softmax_lastdim_kernel_impl" not implemented for 'Long'`},
		{of("_log_softmax_backward_data", "f32[2,3]", "f32[2,3]", 1, dtype.F16), "f16[2,3]"},
		{of("_masked_softmax", "f32[2,3,4,4]", "i1[2,4]", nil, 1), "f32[2,3,4,4]"},
		{of("_masked_softmax", "f32[2,3]", "f32[2,3]", 1, nil), "[RuntimeError] Mask should be a boolean tensor"},
		{of("native_layer_norm", "bf16[2,3,4]", []int64{3, 4}, "f32[3,4]", nil, 1e-5), "bf16[2,3,4] f32[2,1,1] f32[2,1,1]"},
		{of("native_layer_norm", "f32[2,3]", []int64{4}, nil, nil, 1e-5), "[RuntimeError] Given normalized_shape=[4], expected input with shape [*, 4], but got input of size[2, 3]"},
		{of("native_layer_norm_backward", "f32[2,3]", "f32[2,3]", []int64{3}, "f32[2,1]", "f32[2,1]", "f32[3]", "f32[3]", all), "f32[2,3] f32[3] f32[3]"},
		{of("native_layer_norm_backward", "f32[2,3]", "f32[2,3]", []int64{3}, "f32[2,1]", "f32[2,1]", "f32[3]", nil, some), "f32[0] f32[3] f32[0]"},
		{of("native_group_norm", "f32[2,6,5]", nil, nil, 2, 6, 5, 3, 1e-5), "f32[2,6,5] f32[2,3] f32[2,3]"},
		{of("native_group_norm", "f32[2,6,5]", nil, nil, 2, 6, 5, 4, 1e-5), "[RuntimeError] Expected number of channels in input to be divisible by num_groups, but got input of shape [2, 6, 5] and num_groups=4"},
		{of("native_group_norm_backward", "f32[2,6,5]", "f32[2,6,5]", "f32[2,3]", "f32[2,3]", "f32[6]", 2, 6, 5, 3, all), "f32[2,6,5] f32[6] f32[6]"},
		{of("_native_batch_norm_legit_functional", "bf16[2,3,4]", "f32[3]", "f32[3]", "f32[3]", "f32[3]", true, 0.1, 1e-5), "bf16[2,3,4] f32[3] f32[3] f32[3] f32[3]"},
		{of("_native_batch_norm_legit_functional", "f32[2,3]", nil, nil, "f32[3]", "f32[3]", false, 0.1, 1e-5), "f32[2,3] f32[0] f32[0] f32[3] f32[3]"},
		{of("_native_batch_norm_legit.no_stats", "f32[2,3]", nil, nil, false, 0.1, 1e-5), "[ValueError] running_mean must be defined in evaluation mode"},
		{of("_native_batch_norm_legit_no_training", "f32[2,3]", nil, nil, "f32[2]", "f32[3]", 0.1, 1e-5), "[RuntimeError] running_mean should contain 3 elements not 2"},
		{of("_batch_norm_with_update_functional", "f32[2,3]", nil, nil, "f32[3]", "f32[3]", 0.1, 1e-5), "f32[2,3] f32[3] f32[3] ui8[0] f32[3] f32[3]"},
		{of("_batch_norm_no_update", "f32[2,3]", nil, nil, "f32[3]", "f32[3]", 0.1, 1e-5), "f32[2,3] f32[0] f32[0] ui8[0]"},
		{of("native_batch_norm_backward", "f32[2,3]", "f32[2,3]", "f32[3]", nil, nil, "f32[3]", "f32[3]", true, 1e-5, all), "f32[2,3] f32[3] f32[3]"},
		{of("native_batch_norm_backward", "f32[2,3]", "f32[2,3]", nil, "f32[3]", "f32[3]", nil, nil, false, 1e-5, some), "f32[0] f32[3] f32[0]"},
		{of("native_batch_norm_backward", "f32[2,3]", "f32[2,3]", nil, nil, nil, nil, nil, true, 1e-5, all), "[RuntimeError] native_batch_norm_backward: the statistics that it needs are not given"},
		{of("_fused_rms_norm", "bf16[2,3]", []int64{3}, "bf16[3]", nil), "bf16[2,3] f32[2,1]"},
		{of("_fused_rms_norm_backward", "f32[2,3]", "f32[2,3]", []int64{3}, "f32[2,1]", "f32[3]", []int64{1, 1}), "f32[2,3] f32[3]"},
		{of("_weight_norm_interface", "bf16[2,3]", "bf16[2,1]", 0), "bf16[2,3] f32[2,1]"},
		{of("_weight_norm_interface_backward", "bf16[2,3]", "bf16[2,3]", "bf16[2,1]", "f32[2,1]", 0), "bf16[2,3] bf16[2,1]"},
	})
}

// Softmax is two reductions, one exponential and one division, in float32 for half types.
func TestSoftmaxText(t *testing.T) {
	_, got := of("_softmax", "f16[2,3]", 1, false).run(t)
	for op, want := range map[string]int{"stablehlo.reduce\"": 2, "stablehlo.exponential": 1, "stablehlo.divide": 1, "gather": 0} {
		if n := strings.Count(got, op); n != want {
			t.Errorf("%d of %s, want %d:\n%s", n, op, want, got)
		}
	}
	if !strings.Contains(got, `"stablehlo.exponential"(%8) : (tensor<2x3xf32>)`) {
		t.Errorf("not computed in f32:\n%s", got)
	}
}
