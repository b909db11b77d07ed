"""Marks in compiled functions: run by test_spmd_api.py."""

import torch
from raises import raises
from start import spec_of

import torch_go_xla
from torch_go_xla.debug import metrics as met

mark, how = torch.ops.xla.dynamo_mark_sharding, (list(range(8)), [8], "('model',)", "('model', None)")
w, x = (torch.randn(8, 4, device="xla", requires_grad=True) for _ in range(2))


def f(x, w):
    mark(w, *how)  # its result is not used
    return mark(x @ w.t(), *how) * 2


compiled = torch.compile(f, backend="openxla", fullgraph=True)
for _ in range(3):
    x.grad = None
    out = compiled(x, w)
    out.sum().backward()
    for t in (w, out):
        assert spec_of(t) == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    torch.testing.assert_close(out.cpu(), x.cpu() @ w.cpu().t() * 2)
    torch.testing.assert_close(x.grad.cpu(), 2 * torch.ones(8, 8) @ w.detach().cpu())
    torch_go_xla.sync()
assert met.counter_value("ExecuteReplicated") and met.metric_data("ExecuteReplicatedTime")[0] > 0
assert torch.equal(mark(torch.ones(8, 2), *how), torch.ones(8, 2)), "elsewhere it is nothing"
raises(ValueError, "Axis name z", mark, w, *how[:3], "('z', None)")
