"""A program that fails takes along what depends on the failing op, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import torch

import torch_go_xla
import torch_go_xla.core.xla_model as xm
from torch_go_xla.experimental.stablehlo_custom_call import stablehlo_custom_call

# More memory than any device has, asked for by one op.
HUGE = (1024,) * 5


def test_out_of_memory_leaves_what_does_not_depend_on_it(tmp_path) -> None:
    x = torch.arange(4.0, device="xla")
    weight = torch.ones(4, device="xla")
    before = x + 1
    weight.add_(before)
    view = weight[1:3]
    huge = torch.rand(HUGE, device="xla").sum() + before.sum()
    weight_and_huge = weight + huge
    with pytest.raises(torch_go_xla.OutOfMemoryError, match="out of memory on xla:0"):
        torch_go_xla.sync(wait=True)
    assert before.tolist() == [1, 2, 3, 4] and weight.tolist() == [2, 3, 4, 5] and view.tolist() == [3, 4]
    xm.save({"weight": weight, "view": view}, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt")["view"].tolist() == [3, 4]
    for bad in (huge, weight_and_huge, weight_and_huge[1:]):
        with pytest.raises(torch_go_xla.OutOfMemoryError, match="out of memory on xla:0"):
            bad.cpu()
    with pytest.raises(torch_go_xla.OutOfMemoryError, match="out of memory on xla:0"):
        xm.save([weight, huge], tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt")["view"].tolist() == [3, 4], "the old file is intact"
    weight.mul_(2)
    torch_go_xla.sync()
    assert view.tolist() == [6, 8]


@pytest.mark.parametrize("wait", [lambda: torch_go_xla.sync(wait=True), xm.wait_device_ops], ids=["sync", "devices"])
def test_a_program_that_is_refused_is_reported_once_by_a_wait(wait: Callable[[], None]) -> None:
    x = torch.ones(4, device="xla")
    refused = stablehlo_custom_call([x], "no_such_target", [[4]], [torch.float32])
    depends = refused * 2
    torch_go_xla.sync()
    depends += 1
    torch_go_xla.sync()
    with pytest.raises(torch_go_xla.CompileError, match=r"(?s)no_such_target.*test_failure\.py"):
        wait()
    wait()
    with pytest.raises(torch_go_xla.CompileError, match="no_such_target"):
        depends.cpu()
    wait()
    other = stablehlo_custom_call([x], "no_such_target", [[4]], [torch.float32])
    with pytest.raises(torch_go_xla.CompileError, match="no_such_target"):
        other.cpu()  # the reader has been told
    wait()
    other = stablehlo_custom_call([x], "no_such_target", [[4]], [torch.float32])
    with pytest.raises(torch_go_xla.CompileError, match="no_such_target"):
        xm.save(other, os.devnull)
    wait()


def test_a_training_step_that_fails_can_be_repeated_smaller() -> None:
    """The parameters that the failed step did not reach keep their values; the next step works."""
    model = torch.nn.Linear(4, 2).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    good = [p.detach().cpu() for p in model.parameters()]
    loss = model(torch.rand(1 << 50, 4, device="xla")).sum()
    with pytest.raises(torch_go_xla.OutOfMemoryError):
        loss.item()
    assert all(torch.equal(p.cpu(), q) for p, q in zip(model.parameters(), good, strict=True))
    optimizer.zero_grad()
    model(torch.ones(3, 4, device="xla")).sum().backward()
    optimizer.step()
    torch_go_xla.sync()
    expected = [good[0] - 0.3, good[1] - 0.3]
    for p, q in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.detach().cpu(), q)


def test_a_failed_storage_can_be_written_again() -> None:
    x = torch.rand(HUGE, device="xla").sum()
    with pytest.raises(torch_go_xla.OutOfMemoryError):
        x.item()
    x.fill_(3)
    assert x.item() == 3


def test_a_matrix_without_eigenvalues_leaves_the_others() -> None:
    """torch on the CPU raises at the call. Here reading the values does; what does not depend on them is computed."""
    nans = torch.full((3, 3), torch.nan, device="xla")
    x = torch.ones(3, device="xla")
    before = x + 1
    bad = torch.linalg.eigvals(nans)
    after = before * 2
    x.add_(1)
    mixed = bad.real.sum() + x
    torch_go_xla.sync()
    assert before.tolist() == [2, 2, 2] and after.tolist() == [4, 4, 4] and x.tolist() == [2, 2, 2]
    for value in (bad, mixed):
        with pytest.raises(RuntimeError, match="should not contain infs or NaNs"):
            value.cpu()


@pytest.mark.parametrize("values", [torch.linalg.svdvals, torch.linalg.eigvalsh])
def test_a_matrix_of_nans_has_no_values(values) -> None:
    batch = torch.eye(3).repeat(3, 1, 1)
    batch[1] = torch.nan
    for device in ("cpu", "xla"):
        with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
            values(batch.to(device)).cpu()
