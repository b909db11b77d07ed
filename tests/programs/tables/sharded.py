"""What a notebook shows of a mesh and of tensors that are sharded over it."""

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import torch_go_xla.distributed.spmd as xs
import torch_go_xla.runtime as xr
from torch_go_xla import debug

xr.use_spmd()
mesh = xs.Mesh(range(4), (2, 2), ("data", "model"))
shown = mesh._repr_html_()
assert "mesh of data: 2 × model: 2" in shown and shown.count("<tr>") == 2 and shown.count("<td") == 4, shown

weight = xs.mark_sharding(torch.ones(8, 4, device="xla"), mesh, ("data", "model"))
shown = weight._repr_html_()
assert "[8, 4] float32" in shown and shown.count("<td") == 4 and "device 3" in shown, shown
everywhere = xs.mark_sharding(torch.ones(8, device="xla"), mesh, (None,))
assert everywhere._repr_html_().count("<td") == 1
split = distribute_tensor(torch.ones(8, 4), init_device_mesh("xla", (4,)), [Shard(0)])
assert split._repr_html_().count("<tr>") == 4

model = torch.nn.Linear(4, 8).to("xla")
xs.mark_sharding(model.weight, mesh, ("data", None))
shown = debug.placements(model)._repr_html_()
assert "<th>bytes per device</th>" in shown and "<td>weight</td>" in shown, shown
