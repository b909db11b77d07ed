"""A process that `launch` runs alone finds a job of one, by torch's own variables, and leaves none of them."""

import os

import torch
import torch.distributed as dist

import torch_go_xla


def main(index: int) -> list[float]:
    """Reduce over the one process."""
    dist.init_process_group("xla")
    t = torch.ones(2, device="xla")
    dist.all_reduce(t)
    assert (index, dist.get_world_size()) == (0, 1)
    dist.destroy_process_group()
    return list(t.tolist())


assert torch_go_xla.launch(main) == [1, 1]
assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & os.environ.keys()
