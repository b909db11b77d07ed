"""A training loop is one program from its first step on, and computes what torch's CPU does."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met

pytestmark = pytest.mark.longer


def _losses(model, optimizer, device, width):
    torch.manual_seed(1)
    x, y = torch.randn(8, width).to(device), torch.randint(0, 3, (8,)).to(device)
    for _ in range(4):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        if device == "xla":
            torch_go_xla.sync()
        yield loss.item()


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("SGD", {"momentum": 0.9, "maximize": True, "foreach": False}),
        ("Adam", {"amsgrad": True, "foreach": False}),
        ("AdamW", {"capturable": True}),
        ("AdamW", {"fused": True}),
        ("RMSprop", {"momentum": 0.5}),
        ("Adagrad", {}),
    ],
    ids=str,
)
def test_the_first_step_is_the_program_of_all(kind, options):
    width = 5 + len(str(options)) + len(kind)  # a program of its own for each case
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(width, 4), nn.Tanh(), nn.Linear(4, 3))
    model = copy.deepcopy(reference).to("xla")
    ours = getattr(torch.optim, kind)(model.parameters(), lr=0.01, **options)
    cpu = {k: v for k, v in options.items() if k != "capturable"}
    theirs = getattr(torch.optim, kind)(reference.parameters(), lr=0.01, **cpu)
    torch_go_xla.sync(wait=True)  # the counter counts compilations that are done
    before = met.counter_value("UncachedCompile") or 0
    got = list(_losses(model, ours, "xla", width))
    assert met.counter_value("UncachedCompile") - before == 1
    assert got == pytest.approx(list(_losses(reference, theirs, "cpu", width)), rel=1e-4)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.cpu(), q)
        mine, other = ours.state[p], theirs.state[q]
        assert set(mine) == set(other)
        for name, value in other.items():
            torch.testing.assert_close(torch.as_tensor(mine[name]).cpu(), torch.as_tensor(value), msg=name)


@pytest.mark.compiled
def test_a_counter_that_comes_as_the_number_zero_begins_as_a_buffer():
    """The batches that a batch norm has seen: 0 in the first step, and then a value of the step before."""
    torch.manual_seed(0)
    reference = nn.Sequential(nn.Linear(7, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    model = copy.deepcopy(reference).to("xla")
    met.clear_all()
    got = list(_losses(model, torch.optim.SGD(model.parameters(), lr=0.1), "xla", 7))
    assert met.counter_value("UncachedCompile") == 1
    assert got == pytest.approx(list(_losses(reference, torch.optim.SGD(reference.parameters(), lr=0.1), "cpu", 7)))
    assert model[1].num_batches_tracked.item() == 4


def test_a_copied_zero_keeps_its_sign():
    values = [0.0, -0.0, complex(0.0, -0.0), 0, False]
    ours = [torch.tensor(v).to("xla") for v in values]
    for v, x in zip(values, ours, strict=True):
        assert repr(x.item()) == repr(torch.tensor(v).item())
    assert torch.ones(2, device="xla").copy_(torch.tensor(0)).tolist() == [0, 0]


def test_momentum_with_dampening_begins_with_the_gradient():
    p = nn.Parameter(torch.ones(2, device="xla"))
    optimizer = torch.optim.SGD([p], lr=1.0, momentum=0.9, dampening=0.5)
    (p * torch.tensor([2.0, 3.0], device="xla")).sum().backward()
    optimizer.step()
    assert optimizer.state[p]["momentum_buffer"].tolist() == [2, 3]


def test_zeros_that_are_read_and_written_in_one_step():
    x = torch.zeros(2, 3, device="xla")
    before, other = x + 1, torch.zeros(2, 3, device="xla")
    rows = x.t()
    x.add_(2)
    other.copy_(rows.t())
    rows[1].mul_(5)
    kept = torch.zeros(4, device="xla")
    torch_go_xla.sync()
    assert before.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert x.tolist() == [[2, 10, 2], [2, 10, 2]]
    assert other.tolist() == [[2, 2, 2], [2, 2, 2]]
    assert kept.tolist() == [0, 0, 0, 0]
    x.zero_()
    x[0].add_(1)
    assert x.tolist() == [[1, 1, 1], [0, 0, 0]]


def _uploads(step):
    """Run a step four times and return how many transfers to the device each run made."""
    counts = [0]
    for _ in range(4):
        step()
        torch_go_xla.sync()
        counts.append((met.metric_data("TransferToDeviceTime") or (0,))[0])
    return [b - a for a, b in zip(counts[1:], counts[2:], strict=False)]


def test_zeros_are_uploaded_once_in_a_loop():
    kept, total = [], torch.ones(7, device="xla")

    def accumulates():
        kept[:] = torch.zeros(7, device="xla"), torch.zeros(7, device="xla")
        kept[0][2] += 1

    def starts_over():
        total.zero_()
        total[3] += 2

    met.clear_all()
    assert _uploads(accumulates) == [0, 0, 0]
    assert [k.sum().item() for k in kept] == [1, 0]
    met.clear_all()
    assert _uploads(starts_over) == [0, 0, 0]
    assert met.metric_data("TransferToDeviceTime") is None, "a storage that had a buffer is no new state"
    assert total.tolist() == [0, 0, 0, 2, 0, 0, 0]


def test_states_of_one_shape_begin_with_the_same_zeros():
    met.clear_all()
    first, second = (torch.zeros(3, 5, device="xla") for _ in range(2))
    first.add_(1)
    second.sub_(1)
    torch_go_xla.sync()
    first.mul_(2)
    torch_go_xla.sync()
    assert met.metric_data("TransferToDeviceTime")[0] == 1
    assert first.unique().tolist() == [2]
    assert second.unique().tolist() == [-1]
    third = torch.zeros(3, 5, device="xla")
    third[0] += 4
    assert third.sum().item() == 20
