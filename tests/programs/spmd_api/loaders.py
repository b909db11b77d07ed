"""Loaders: run by test_spmd_training.py."""

import threading

import torch
from raises import raises
from start import spec_of

import torch_go_xla.distributed.parallel_loader as pl
import torch_go_xla.distributed.spmd as xs

line = xs.get_1d_mesh("data")
rows, cube = "{devices=[8,1]0,1,2,3,4,5,6,7}", "{devices=[8,1,1]0,1,2,3,4,5,6,7}"
data = [(torch.full((8, 3), float(i)), torch.tensor(i)) for i in range(40)]
loader = pl.MpDeviceLoader(
    data,
    "xla",
    input_sharding=xs.ShardingSpec(line, ("data", None)),
    loader_prefetch_size=2,
    device_prefetch_size=3,
    host_to_device_transfer_threads=2,
)
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
