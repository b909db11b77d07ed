"""Training with torch_xla's SPMD interface on 8 devices of one process: loaders, linear layers, FSDPv2."""

from __future__ import annotations

from test_spmd_api import EIGHT, START


def test_loaders(ok) -> None:
    ok(
        START
        + """
import threading
import torch_go_xla.distributed.parallel_loader as pl
line = xs.get_1d_mesh("data")
rows, cube = "{devices=[8,1]0,1,2,3,4,5,6,7}", "{devices=[8,1,1]0,1,2,3,4,5,6,7}"
data = [(torch.full((8, 3), float(i)), torch.tensor(i)) for i in range(40)]
loader = pl.MpDeviceLoader(data, "xla", input_sharding=xs.ShardingSpec(line, ("data", None)), loader_prefetch_size=2,
                           device_prefetch_size=3, host_to_device_transfer_threads=2)
for epoch in range(2):
    seen = 0
    for i, (x, y) in enumerate(loader):
        assert spec_of(x) == rows and spec_of(y) == "" and x.sum().item() == 24 * i and y.item() == i
        seen += 1
    assert seen == len(loader) == 40
batch = {"x": torch.randn(16, 4), "y": torch.randn(16, 4, 4)}
specs = {"x": xs.ShardingSpec(line, ("data", None)), "y": xs.ShardingSpec(line, ("data", None, None))}
got = next(iter(pl.MpDeviceLoader([batch], "xla", input_sharding=specs)))
assert spec_of(got["x"]) == rows and spec_of(got["y"]) == cube and torch.equal(got["y"].cpu(), batch["y"])
got = next(iter(pl.MpDeviceLoader([batch], "xla")))
assert spec_of(got["x"]) == "{replicated}" and torch.equal(got["x"].cpu(), batch["x"])
first = lambda data, **options: next(iter(pl.MpDeviceLoader(data, "xla", **options)))
raises(ValueError, "should be a dict", first, [torch.ones(8, 2)], input_sharding=specs)
raises(KeyError, "missing from input_sharding", first, [batch], input_sharding={"x": specs["x"]})
mini = xs.ShardingSpec(line, ("data", None), minibatch=True)
raises(RuntimeError, "divisible by local runtime device count", first, [torch.ones(7, 2)], input_sharding=mini)
assert spec_of(first([torch.ones(7, 2)], input_sharding=specs["x"])) == rows
raises(ValueError, "Axis name z", xs.ShardingSpec, line, ("z",))
def broken():
    yield torch.ones(2)
    raise OSError("the disk is gone")
it = iter(pl.MpDeviceLoader(broken(), "xla"))
next(it)
raises(OSError, "the disk is gone", next, it)
left = pl.ParallelLoader(iter(lambda: torch.ones(2), None), ["xla:0"])  # without an end
next(left.per_device_loader("xla:0"))
left.close()
assert threading.active_count() == 1 or not any(t.is_alive() for t in left._threads)
""",
        **EIGHT,
    )


def test_linear_layers(ok) -> None:
    ok(
        START
        + """
torch.manual_seed(0)
for sizes in ((5,), (3, 5), (2, 3, 5), (2, 3, 4, 5)):
    for bias in (True, False):
        plain = nn.Linear(5, 6, bias=bias)
        ours = xs.apply_xla_patch_to_nn_linear(nn.Sequential(copy.deepcopy(plain))).to("xla")
        assert isinstance(ours[0], xs.EinsumLinear)
        value = torch.randn(sizes)
        x, y = value.to("xla").requires_grad_(), value.clone().requires_grad_()
        ours(x).square().sum().backward()
        plain(y).square().sum().backward()
        for a, b in [(x, y), *zip(ours.parameters(), plain.parameters())]:
            assert torch.allclose(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-5)
layer = xs.EinsumLinear(8, 8).to("xla")
with torch.autocast("xla", dtype=torch.bfloat16):
    out = layer(torch.randn(2, 4, 8, device="xla"))
    assert out.dtype == torch.bfloat16
out.sum().backward()
assert layer.weight.grad.dtype == torch.float32
# Batch and sequence sharded over different axes: the product needs no communication.
from torch_go_xla import debug
x = torch.randn(4, 8, 8).to("xla")
xs.mark_sharding(x, mesh, ("data", "model", None))
assert debug.collectives(lambda: layer(x).detach()) == []
dot = torch.ops.torch_go_xla.tensordot
raises(RuntimeError, "need to match", dot, x, torch.ones(7, 2, device="xla"), [-1], [0])
raises(RuntimeError, "same length", dot, x, x, [0, 1], [0])
raises(IndexError, "out of range", dot, x, x, [3], [0])
raises(RuntimeError, "one type", dot, x, torch.ones(8, 2, device="xla").long(), [-1], [0])
""",
        **EIGHT,
    )


def test_optimization_barrier(ok) -> None:
    ok(
        START
        + """
from torch_go_xla.core import xla_model as xm
x, y = torch.arange(4.0).to("xla"), torch.ones(2, 2).to("xla") * 3
z = x * 2
xm.optimization_barrier_([z, y, torch.ones(1, device="xla").expand(3)])
text = _XLAC._get_stablehlo([z])
assert "stablehlo.optimization_barrier" in text and z.tolist() == [0, 2, 4, 6] and y.tolist() == [[3, 3], [3, 3]]
assert [t.tolist() for t in torch.ops.torch_go_xla.optimization_barrier([x])] == [[0, 1, 2, 3]]
xm.optimization_barrier_([])
""",
        **EIGHT,
    )


def test_fsdp(ok) -> None:
    ok(
        START
        + """
import functools
from torch_go_xla import debug
from torch_go_xla.distributed.fsdp import checkpoint_module
from torch_go_xla.distributed.fsdp.wrap import size_based_auto_wrap_policy, transformer_auto_wrap_policy
from torch_go_xla.experimental.spmd_fully_sharded_data_parallel import SpmdFullyShardedDataParallel as FSDPv2

class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

def model():
    torch.manual_seed(3)
    return nn.Sequential(Block(16), Block(16), nn.Linear(16, 1))

def train(m, place):
    optimizer = torch.optim.AdamW(m.parameters(), lr=1e-2)
    torch.manual_seed(4)
    losses = []
    for _ in range(10):
        x = place(torch.randn(16, 16))
        optimizer.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        optimizer.step()
        torch_go_xla.sync()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)

raises(ValueError, "No mesh is provided", FSDPv2, model())
raises(ValueError, "must have an axis named 'fsdp'", FSDPv2, model(), mesh=mesh)
mesh = xs.Mesh(range(8), (8, 1), ("fsdp", "tensor"))
raises(ValueError, "The provided ddp axis is not in the mesh", FSDPv2, model(), mesh=mesh, extra_data_axis="ddp")
raises(RuntimeError, "must define a `forward`", FSDPv2, nn.ModuleList([nn.Linear(2, 2)]), mesh=mesh)
xs.set_global_mesh(mesh)
plain = model()
want = train(plain, lambda x: x)
policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={Block})
for options in ({}, {"auto_wrapper_callable": lambda m, **k: FSDPv2(checkpoint_module(m), **k)}):
    m = FSDPv2(model(), auto_wrap_policy=policy, **options)
    assert isinstance(m[0], FSDPv2) and type(m[2]) is nn.Linear and m.module[1].up.weight.device.type == "xla"
    raises(RuntimeError, "already wrapped", FSDPv2, m)
    assert spec_of(m[0].up.weight) == "{devices=[8,1]0,1,2,3,4,5,6,7}"
    assert spec_of(m[0].down.weight) == "{devices=[1,8]0,1,2,3,4,5,6,7}"
    def place(x):
        x = x.to("xla")
        xs.mark_sharding(x, mesh, ("fsdp", None))
        return x
    got = train(m, place)
    assert torch.allclose(got, want, rtol=1e-4), (got, want)
    for a, b in zip(m.parameters(), plain.parameters()):
        assert torch.allclose(a.detach().cpu(), b.detach(), rtol=1e-4, atol=1e-5)
        assert spec_of(a), "training leaves the parameters sharded"
sizes = functools.partial(size_based_auto_wrap_policy, min_num_params=2000)
m = FSDPv2(model(), auto_wrap_policy=sizes)
assert isinstance(m[1], FSDPv2) and not isinstance(m[1].up, FSDPv2)
raises(RuntimeError, "output type is not supported", FSDPv2(nn.Identity()), "text")
""",
        **EIGHT,
    )


def test_checkpoints_by_step(ok, tmp_path) -> None:
    ok(
        START
        + f"""
import os, signal
from torch_go_xla.experimental.distributed_checkpoint import CheckpointManager, prime_optimizer

def training(spec):
    model = torch.nn.Linear(8, 8).to("xla")
    xs.mark_sharding(model.weight, mesh, spec)
    return model, torch.optim.AdamW(model.parameters())

def state(model, optimizer):
    return {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}

def step(model, optimizer):
    model(torch.ones(4, 8, device="xla")).square().sum().backward()
    optimizer.step()

def values(state):
    tensors = torch.utils._pytree.tree_leaves(state)
    return [t.cpu().clone() if isinstance(t, torch.Tensor) else t for t in tensors]

manager = CheckpointManager({str(tmp_path)!r}, save_interval=2, max_to_keep=2)
run = training(("data", "model"))
want = {{}}
for number in range(7):
    step(*run)
    saved = (manager.save if number < 4 else manager.save_async)(number, state(*run))
    assert saved == (number % 2 == 0)
    if saved:
        want[number] = values(state(*run))
manager.join()
assert manager.all_steps() == [4, 6] == CheckpointManager({str(tmp_path)!r}, 2).all_steps()
other = training((None, "model"))
prime_optimizer(other[1])
lies = spec_of(other[0].weight)
for number in (4, 6):
    read = state(*other)
    manager.restore(number, read)
    other[1].load_state_dict(read["optimizer"])
    for got, expected in zip(values(state(*other)), want[number], strict=True):
        torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert spec_of(other[0].weight) == lies
raises(ValueError, "no checkpoint of step 2", manager.restore, 2, state(*run))
raises(ValueError, "save_interval", CheckpointManager, {str(tmp_path)!r}, 0)
manager = CheckpointManager({str(tmp_path)!r}, 2)
assert not manager.save(7, state(*run))
os.kill(os.getpid(), signal.SIGTERM)
assert manager.save(9, state(*run)) and manager.reached_preemption(9) and 9 in manager.all_steps()
""",
        **EIGHT,
    )
