"""A ZeroRedundancyOptimizer in each process, against torch's optimizer over the gradients of all."""

import itertools
from typing import Any

import torch
from start import n, r

import torch_go_xla
from torch_go_xla.distributed.zero_redundancy_optimizer import ZeroRedundancyOptimizer


class Model(torch.nn.Module):
    """A model with sizes that do not divide by the number of processes, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 5), torch.nn.Linear(5, 3)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))
        self.unused = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a loss."""
        return (self.second(self.first(x).tanh()) * self.scale).square().mean() * 5


def model(device: str, dtype: torch.dtype = torch.float32) -> Model:
    """Return the same model each time."""
    torch.manual_seed(0)
    return Model().to(device=device, dtype=dtype)


def batch(step: int, rank: int) -> torch.Tensor:
    """Return the batch of a process."""
    return torch.randn(6, 4, generator=torch.Generator().manual_seed(10 * step + rank))


def wanted(steps: int) -> tuple[list[torch.Tensor], float]:
    """Return torch's parameters, and the last norm."""
    m = model("cpu")
    optimizer = torch.optim.AdamW(groups(m), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    norm = torch.zeros(())
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(n):
            (m(batch(step, rank)) / n).backward()
        norm = torch.nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        optimizer.step()
        schedule.step()
    return [p.detach() for p in m.parameters()], norm.item()


def groups(m: Model) -> list[dict[str, Any]]:
    """Return two groups of parameters."""
    return [{"params": list(m.first.parameters())}, {"params": [*m.second.parameters(), m.scale, m.unused], "lr": 0.05}]


def train(m: Model, optimizer: Any, schedule: Any, steps: range) -> None:
    """Take steps on the batches of this process."""
    for step in steps:
        optimizer.zero_grad()
        m(batch(step, r).to("xla")).backward()
        optimizer.step()
        schedule.step()
        torch_go_xla.sync()


def made(m: Model, **options: Any) -> tuple[Any, Any]:
    """Return an optimizer and a schedule."""
    optimizer = ZeroRedundancyOptimizer(groups(m), torch.optim.AdamW, lr=0.1, max_norm=0.5, **options)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)


want, norm = wanted(4)
for options in ({}, {"use_grad_acc_hook": True}, {"sharding_groups": [list(range(n))], "bucket_cap_mb_all_gather": 1}):
    m = model("xla")
    optimizer, schedule = made(m, **options)
    train(m, optimizer, schedule, range(4))
    torch.testing.assert_close([p.detach().cpu() for p in m.parameters()], want, rtol=1e-4, atol=1e-5)
    assert abs(optimizer.grad_norm.item() - norm) < 1e-4
assert [tuple(p.shape) for _, p in optimizer._pairs()][:2] == [(-(-5 // n), 4), (-(-5 // n),)]

# Two steps, saved and loaded into another optimizer, and two steps.
m = model("xla")
optimizer, schedule = made(m, save_master_weights=True)
train(m, optimizer, schedule, range(2))
saved = optimizer.state_dict(), schedule.state_dict()
again = model("xla")  # whose parameters come from the parts
optimizer, schedule = made(again, save_master_weights=True, lazy_init=True)
try:
    optimizer.step()
    raise AssertionError
except RuntimeError as e:
    assert "init_zero" in str(e), e
optimizer.load_state_dict(saved[0])
schedule.load_state_dict(saved[1])
train(again, optimizer, schedule, range(2, 4))
torch.testing.assert_close([p.detach().cpu() for p in again.parameters()], want, rtol=1e-4, atol=1e-5)

# Parameters of a lower precision than their parts follow them.
half = model("xla", torch.bfloat16)
optimizer = ZeroRedundancyOptimizer(half.first.parameters(), torch.optim.SGD, lr=1e-4, grad_clipping=False)
for step in range(3):
    optimizer.zero_grad()
    half(batch(step, r).to("xla", torch.bfloat16)).backward()
    optimizer.step()
torch_go_xla.sync()
part, before = optimizer.base_optimizer.param_groups[0]["params"][0], model("cpu", torch.bfloat16).first.weight
assert part.dtype == torch.float32
moved = part.detach().cpu() - torch.nn.functional.pad(before, [0, 0, 0, -5 % n]).chunk(n)[r].float()
assert 0 < moved.abs().max() < 1e-2, "less than bfloat16 can hold"

for make, message in itertools.chain(
    [(lambda: ZeroRedundancyOptimizer(m.parameters(), torch.optim.SGD, sharding_groups=[[n]], lr=1.0), "is in none")],
    [(lambda: ZeroRedundancyOptimizer(model("cpu").parameters(), torch.optim.SGD, lr=1.0), "one xla device")],
    [(lambda: setattr(optimizer, "sharding_groups", [[0]]), "divided already")],
):
    try:
        make()
    except (RuntimeError, ValueError) as e:
        assert message in str(e), e
    else:
        raise AssertionError(message)
print("done")
