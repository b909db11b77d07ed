package ops

import (
	"strings"
	"testing"

	"github.com/torch-go-xla/torch-go-xla/gocore/dtype"
	"github.com/torch-go-xla/torch-go-xla/gocore/ir"
)

func TestLosses(t *testing.T) {
	one := ir.Number{Type: dtype.I64, I: 1}
	three := ir.Number{Type: dtype.I64, I: 3}
	checkCalls(t, []inferCase{
		{of("mse_loss", "f32[2,3]", "f32[3]", 1), "f32[]"},
		{of("mse_loss", "f32[2,3]", "f64[3]", 0), "f64[2,3]"},
		{of("mse_loss", "i64[2]", "i64[2]", 1), `[NotImplementedError] "mse_cpu" not implemented for 'Long'`},
		{of("mse_loss_backward", "f32[]", "f32[2,3]", "f64[3]", 1), "f32[2,3]"},
		{of("smooth_l1_loss", "f32[2]", "f32[2]", 1, -1.0), "[RuntimeError] smooth_l1_loss does not support negative values for beta."},
		{of("smooth_l1_loss_backward", "f32[]", "f32[2]", "f32[2]", 1, 0.0), "f32[2]"},
		{of("huber_loss", "f32[2]", "f32[2]", 2, 0.5), "f32[]"},
		{of("huber_loss_backward", "f32[]", "f32[2]", "f32[2]", 2, 0.5), "f32[2]"},
		{of("binary_cross_entropy", "f32[2,3]", "f32[2,3]", "f32[3]", 0), "f32[2,3]"},
		{of("binary_cross_entropy", "f32[2]", "f64[2]", nil, 0), "[RuntimeError] Found dtype Double but expected Float"},
		{of("binary_cross_entropy_backward", "f32[]", "f32[2,3]", "f32[2,3]", nil, 1), "f32[2,3]"},
		{of("binary_cross_entropy_with_logits", "f32[2,3]", "f32[2,3]", nil, "f32[3]", 1), "f32[]"},
		{of("binary_cross_entropy_with_logits", "f32[2,3]", "f32[3]", nil, nil, 1), "[RuntimeError] output with shape [3] doesn't match the broadcast shape [2, 3]"},
		{of("soft_margin_loss", "f32[2,3]", "f32[3]", 0), "f32[2,3]"},
		{of("soft_margin_loss_backward", "f32[2,3]", "f32[2,3]", "f32[3]", 0), "f32[2,3]"},
		{of("nll_loss_forward", "f32[4,3]", "i64[4]", "f32[3]", 0, -100), "f32[4] f32[]"},
		{of("nll_loss_forward", "f32[3]", "i64[]", nil, 0, -100), "f32[] f32[]"},
		{of("nll_loss_forward", "f32[4,3]", "i64[2]", nil, 1, -100), "[RuntimeError] size mismatch (got input: [4, 3], target: [2])"},
		{of("nll_loss_forward", "f32[4,3]", "i32[4]", nil, 1, -100), "[RuntimeError] expected target dtype to be Long or Byte, but got Int"},
		{of("nll_loss_backward", "f32[]", "f32[4,3]", "i64[4]", nil, 1, -100, "f32[]"), "f32[4,3]"},
		{of("nll_loss_backward", "f32[4]", "f32[4,3]", "i64[4]", nil, 1, -100, "f32[]"), "[RuntimeError] Expected a single element grad_output tensor, but got: [4]"},
		{of("nll_loss2d_forward", "f32[2,3,4,5]", "i64[2,4,5]", nil, 0, -100), "f32[2,4,5] f32[]"},
		{of("nll_loss2d_backward", "f32[2,4,5]", "f32[2,3,4,5]", "i64[2,4,5]", nil, 0, -100, "f32[]"), "f32[2,3,4,5]"},
		{of("multi_margin_loss", "f32[4,3]", "i64[4]", one, one, "f32[3]", 0), "f32[4]"},
		{of("multi_margin_loss", "f32[4,3]", "i64[4]", three, one, nil, 0), "[RuntimeError] only p == 1 and p == 2 supported"},
		{of("multi_margin_loss_backward", "f32[]", "f32[3]", "i64[]", one, one, nil, 1), "f32[3]"},
		{of("multilabel_margin_loss_forward", "f32[4,3]", "i64[4,3]", 0), "f32[4] f32[4,3]"},
		{of("multilabel_margin_loss_backward", "f32[]", "f32[4,3]", "i64[4,3]", 1, "f32[4,3]"), "f32[4,3]"},
	})
}

// The forward pass picks one log-probability a sample, the backward pass compares: neither scatters.
func TestNLLText(t *testing.T) {
	_, forward := of("nll_loss_forward", "f32[4,3]", "i64[4]", nil, 1, -100).run(t)
	if strings.Count(forward, `"stablehlo.gather"`) != 1 {
		t.Errorf("one gather expected:\n%s", forward)
	}
	_, backward := of("nll_loss_backward", "f32[]", "f32[4,3]", "i64[4]", nil, 1, -100, "f32[]").run(t)
	if strings.Contains(backward, "scatter") || strings.Contains(backward, "gather") {
		t.Errorf("only comparisons expected:\n%s", backward)
	}
}
