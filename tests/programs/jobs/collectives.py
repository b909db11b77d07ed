"""All collectives, in two processes."""

import torch
import torch.distributed as dist
from raises import raises
from start import n, r

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.runtime as xr
from torch_go_xla.core.functions import SyncBatchNorm, distributed_mm
from torch_go_xla.core.functions import all_gather as gather
from torch_go_xla.core.functions import all_reduce as reduce
from torch_go_xla.debug import metrics as met


def x(*values):
    return torch.tensor(values, dtype=torch.float32).to("xla")


assert (r, n) == (xr.process_index(), 2) and xr.process_count() == xr.local_process_count() == 2
assert xr.global_device_count() == 2 == xr.global_runtime_device_count() and xr.addressable_device_count() == 1
assert torch_go_xla.device_count() == 1 and xm.is_master_ordinal() == (r == 0)

# torch_xla's names
assert xm.all_reduce(xm.REDUCE_SUM, x(r, 1), scale=0.5).tolist() == [0.5, 1]
a, b = x(r + 1), x(r + 2)
assert xm.all_reduce(xm.REDUCE_MUL, [a, b])[0] is a and a.tolist() == [2] and b.tolist() == [6]
xm.all_reduce_bucketized_gradients([a, b], 0.5, None, pin_layout=True)
assert a.tolist() == [2] and b.tolist() == [6]
assert xm.all_reduce("max", x(r), groups=[[0], [1]]).tolist() == [r]
assert xm.all_reduce(xm.REDUCE_OR, torch.tensor([r == 0, False]).to("xla")).tolist() == [True, False]
assert xm.all_gather(x(r, 5)).tolist() == [0, 5, 1, 5] and xm.all_gather(x(r)[0]).tolist() == [0, 1]
assert xm.all_gather(x(r, 5)[None], dim=1).tolist() == [[0, 5, 1, 5]]
assert xm.reduce_scatter(xm.REDUCE_SUM, x(1, 2, 3, 4), 1.0, 0, 2).tolist() == [[2, 4], [6, 8]][r]
pair = xm.reduce_scatter(xm.REDUCE_SUM, [x(1, 2), x(3, 4)[None]], 0.5, -1, 2)
assert [p.tolist() for p in pair] == [[[1], [[3]]], [[2], [[4]]]][r]
into = [x(0), x(0)]  # of another shape
assert xm.reduce_scatter_bucketized(xm.REDUCE_SUM, [x(1, 2, 3, 4), x(5, 6)], 1.0, 0, 2, output=into) == into
assert [p.tolist() for p in into] == [[[2, 4], [10]], [[6, 8], [12]]][r]
assert [p.tolist() for p in xm.all_gather_bucketized([x(r), x(r, r)])] == [[0, 1], [0, 0, 1, 1]]
compiled = torch.compile(lambda t: xm.all_reduce("sum", t) * xm.all_gather(t), backend="openxla", fullgraph=True)
assert [compiled(x(r + k)).tolist() for k in range(3)] == [[0, 1], [3, 6], [10, 15]]
assert xm.all_to_all(x(10 * r, 10 * r + 1), 0, 0, 2).tolist() == [r, 10 + r]
assert xm.collective_permute(x(r + 1), [[0, 1]]).tolist() == [[0], [1]][r]
raises(ValueError, "do not name each of 2 devices once", xm.all_reduce, "sum", x(1), 1.0, [[0, 0]])
raises(ValueError, "groups of 1 devices", xm.all_reduce, "sum", x(1), 1.0, [[0]])
raises(ValueError, "2 processes exchange", xm.all_to_all, x(1, 2), 0, 0, 3)
raises(ValueError, "unknown reduction", xm.all_reduce, "mean", x(1))
raises(RuntimeError, "does not divide", xm.all_to_all, x(1, 2, 3), 0, 0, 2)

# a process may compute what the others do not; what is a constant here is not everywhere
same = torch.full((2,), float(r), device="xla")
assert xm.all_gather(same).tolist() == [0, 0, 1, 1] and xm.all_reduce("sum", same * (r + 1)).tolist() == [2, 2]
kept = xm.all_reduce("sum", x(1, 2))
if r == 0:
    assert (kept * 2).sum().item() == 12
assert xm.all_reduce("sum", kept).tolist() == [4, 8]
xm.all_reduce("sum", x(7)) if r == 0 else xm.all_reduce("sum", x(8)).tolist()  # no one reads it in process 0

# gradients
w = x(1.0, 2.0).requires_grad_()
(reduce(xm.REDUCE_SUM, w * (r + 1)) ** 2).sum().backward()
assert w.grad.tolist() == [12 * (r + 1), 24 * (r + 1)]
w.grad = None
(gather(w * (r + 1)) * x(1, 2, 3, 4)).sum().backward()
assert w.grad.tolist() == [[2, 4], [12, 16]][r]
model = torch.nn.Linear(2, 1).to("xla")
xm.broadcast_master_param(model)
weight = xm.all_gather(model.weight.detach())
assert torch.equal(weight[0].cpu(), weight[1].cpu())
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
before = model.weight.detach().cpu()
(model(x(r, 1)[None])).sum().backward()
xm.optimizer_step(optimizer, barrier=True)
torch.testing.assert_close(model.weight.detach().cpu(), before - torch.tensor([[0.5, 1.0]]))

columns = x(1, 2, 3, 4).reshape(2, 2).requires_grad_()
own = x(*range(8)).reshape(4, 2) + r
distributed_mm(columns, own).sum().backward()
assert columns.grad.tolist() == (2 * torch.arange(8).view(4, 2).sum(1) + 2)[2 * r : 2 * r + 2].expand(2, 2).tolist()
batches = torch.randn(6, 3, 4, generator=torch.Generator().manual_seed(0)).split([4, 2])
ours, theirs = SyncBatchNorm(3).to("xla"), torch.nn.BatchNorm1d(3)
mine = batches[r].to("xla").requires_grad_()
both = torch.cat(batches).requires_grad_()
for _ in range(2):
    got, want = ours(mine), theirs(both)
(got.exp() * 0.1).sum().backward()
(want.exp() * 0.1).sum().backward()
torch.testing.assert_close(got.detach().cpu(), want.detach().split([4, 2])[r])
torch.testing.assert_close(mine.grad.cpu(), both.grad.split([4, 2])[r], rtol=1e-4, atol=1e-5)
for name in ("running_mean", "running_var", "num_batches_tracked"):
    torch.testing.assert_close(getattr(ours, name).cpu(), getattr(theirs, name))
torch.testing.assert_close(ours.eval()(mine).cpu(), theirs.eval()(both).split([4, 2])[r])
raises(ValueError, "expected at least 2D input", ours, x(1))

# Python values
assert xm.mesh_reduce("sum", {"v": x(r)}, lambda all: [d["v"].item() for d in all]) == [0, 1]
assert xm.rendezvous("here", bytes([r])) == [b"\0", b"\1"] == xm.rendezvous("here", bytes([r]))
assert xm.rendezvous("alone", bytes([r]), [r]) == [bytes([r])] and len(xm.rendezvous("both", b"", [1, 0])) == 2
raises(ValueError, f"process {r} is none of", xm.rendezvous, "others", b"", [1 - r])

# torch's names
dist.init_process_group("xla", init_method="xla://")
assert dist.get_backend() == "xla" and (dist.get_rank(), dist.get_world_size()) == (r, n)
t = x(r + 1, 1)
assert dist.all_reduce(t, async_op=True).wait() and t.tolist() == [3, 2]
dist.all_reduce(t, op=dist.ReduceOp.AVG)
assert t.tolist() == [3, 2]
flags = torch.tensor([6 + r, 1]).to("xla")
dist.all_reduce(flags, op=dist.ReduceOp.BXOR)
assert flags.tolist() == [1, 0]
raises(RuntimeError, "non-integral", lambda: dist.all_reduce(t, op=dist.ReduceOp.BAND))
raises(RuntimeError, "cannot reduce by", lambda: dist.all_reduce(t, op=dist._make_nccl_premul_sum(2.0)))
t = torch.tensor([-0.0, float("nan"), float(r)]).to("xla")
dist.broadcast(t, 1)
assert t.view(torch.int32).tolist() == torch.tensor([-0.0, float("nan"), 1.0]).view(torch.int32).tolist()
c = torch.tensor([1 + 2j * r]).to("xla")
dist.broadcast(c, 1)
assert c.tolist() == [1 + 2j]
parts = [x(0), x(0)]
dist.all_gather(parts, x(r))
assert [p.item() for p in parts] == [0, 1]
uneven = [x(0), x(0, 0)]
dist.all_gather(uneven, x(*range(r + 1)))
assert uneven[1].tolist() == [0, 1]
whole = torch.empty(4, device="xla")
dist.all_gather_into_tensor(whole, x(r, 9))
assert whole.tolist() == [0, 9, 1, 9]
part = torch.empty(2, device="xla")
dist.reduce_scatter_tensor(part, x(1, 2, 3, 4))
assert part.tolist() == [[2, 4], [6, 8]][r]
dist.reduce_scatter(part, [x(1, 2), x(3, 4)])
assert part.tolist() == [[2, 4], [6, 8]][r]
dist.all_to_all_single(part, x(10 * r, 10 * r + 1))
assert part.tolist() == [r, 10 + r]
lot = torch.empty([1, 4][r], device="xla")  # process 0 keeps none and sends two, process 1 sends one and keeps two
dist.all_to_all_single(lot, [x(1, 2), x(3, 4, 5)][r], [[0, 1], [2, 2]][r], [[0, 2], [1, 2]][r])
assert lot.tolist() == [[3], [1, 2, 4, 5]][r]
dist.all_to_all(parts, [x(10 * r), x(10 * r + 1)])
assert [p.item() for p in parts] == [r, 10 + r]
dist.gather(x(r), parts if r == 0 else None)
assert r or [p.item() for p in parts] == [0, 1]
dist.scatter(part, [x(1, 2), x(3, 4)] if r == 0 else None)
assert part.tolist() == [[1, 2], [3, 4]][r]
dist.reduce(part, 1)
assert part.tolist() == [[1, 2], [4, 6]][r]
got = torch.empty(1, device="xla")
receiving = dist.irecv(got, 1 - r)  # both before either has sent
dist.send(x(10 + r), 1 - r)
receiving.wait()
assert got.tolist() == [11 - r]
dist.send(x(5), 1) if r == 0 else dist.recv(got, 0)
assert r == 0 or got.tolist() == [5]
objects = [None] * n
dist.all_gather_object(objects, {"r": r})
assert objects == [{"r": 0}, {"r": 1}]
alone = dist.new_group([0])
t = x(r)
if r == 0:
    dist.all_reduce(t, group=alone)
assert t.tolist() == [r]
dist.barrier()

# functional collectives are ops of the graph
import torch.distributed._functional_collectives as functional

torch_go_xla.sync(wait=True)
runs = met.counter_value("ExecuteComputation")
y = functional.all_reduce(functional.all_reduce(x(1) + r, "sum", dist.group.WORLD) * 2, "max", dist.group.WORLD)
assert met.counter_value("ExecuteComputation") == runs and y.tolist() == [6]
dist.destroy_process_group()
print("done")
