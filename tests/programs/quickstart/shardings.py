"""A cell that draws shardings."""

import torch

import torch_go_xla
import torch_go_xla.distributed.spmd as xs
from torch_go_xla import debug
from torch_go_xla.distributed.spmd.debugging import visualize_sharding, visualize_tensor_sharding

torch_go_xla.runtime.use_spmd()
model = torch.nn.Linear(4, 8, bias=False).to("xla")
xs.mark_sharding(model.weight, xs.Mesh(range(4), (2, 2), ("x", "y")), ("x", "y"))
visualize_tensor_sharding(model.weight, use_color=False)
visualize_sharding("{devices=[1,4]0,1,2,3}", use_color=False)
print(debug.placements(model))
