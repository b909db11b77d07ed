"""A step with DistributedDataParallel is one graph but for its second call, and replays; another break is an error."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_go_xla
import torch_go_xla.distributed.xla_backend


def train(device: str) -> list[float]:
    """Return the losses of seven steps; on the device xla, of a model under DistributedDataParallel."""
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)).to(device)
    if device == "xla":
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    read = False

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        if read:
            loss.item()
        return loss

    if device == "cpu":
        return [step(torch.full((2, 4), i / 8)).item() for i in range(7)]
    compiled = torch_go_xla.compile(step, full_graph=True)
    losses = [compiled(torch.full((2, 4), i / 8, device=device)).item() for i in range(7)]
    assert compiled.replays >= 3, compiled.explain()
    read = True
    try:
        compiled(torch.ones(2, 4, device="xla"))
    except RuntimeError as e:
        assert "more than one graph" in str(e), e
        return losses
    raise AssertionError("the step reads its loss, and no error says so")


def main(index: int) -> None:
    """Compare the losses with those of torch on the CPU."""
    dist.init_process_group("xla", init_method="xla://")
    torch.testing.assert_close(train("xla"), train("cpu"))


torch_go_xla.launch(main)
