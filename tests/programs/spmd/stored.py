"""Values of all kinds, computed and released; prints the programs compiled, and those found on the disk.

With an argument, sharded over the devices in the other direction.
"""

import gc
import sys

import torch
from raises import raises
from start import ROWS

import torch_go_xla
import torch_go_xla.runtime as xr
from torch_go_xla._backend import partitioning
from torch_go_xla._core import core

xr.use_spmd()
turned = len(sys.argv) > 1
if turned:
    ROWS = "{devices=[8,1]7,6,5,4,3,2,1,0}"

x = torch.arange(128.0).view(16, 8).to("xla")
partitioning.annotate_(x, ROWS)
local = partitioning.full_to_shard(x, ROWS)
y, z = x @ x.t(), local * 2
later = y + 1, z + 1  # what is recorded stays so while y and z are computed
core.sync_some([core.fast.handle(y), core.fast.handle(z)])
want = torch.arange(128.0).view(16, 8)
assert torch.equal(y.cpu(), want @ want.t()) and partitioning.sharding_of(y) == ROWS
assert torch.equal(later[0].cpu(), want @ want.t() + 1)
assert all(
    torch.equal(s.data, part * 2 + 1)
    for s, part in zip(partitioning.shards(later[1]), want.chunk(8)[:: -1 if turned else 1])
)
torch_go_xla._XLAC._set_buffer_donation(x, True)
total = (x * 2).sum()
torch_go_xla.sync()
assert total.item() == 2 * want.sum()
raises(torch_go_xla.DonatedBufferError, "f32[16,8]", x.cpu)
del x, y, z, local, later, total
gc.collect()
torch_go_xla.sync(wait=True)
assert (torch_go_xla.live_bytes(), core.live_buffers(), core.live_storages()) == (0, 0, 0)
counters = core.counters()
print(counters.get("UncachedCompile", 0), counters.get("PersistentCacheHit", 0))
