"""Tensors of the device between processes, by torch.multiprocessing."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp

import torch_go_xla  # noqa: F401 (the device)

pytestmark = [pytest.mark.longer, pytest.mark.xdist_group("processes")]

SPAWN = mp.get_context("spawn")


def module() -> torch.nn.Module:
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))
    net[2].weight = net[0].weight
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.arange(float(p.numel())).reshape(p.shape))
    return net.to("xla")


def echo(asked: Any, answers: Any) -> None:
    """Check what comes, and send it back, changed."""
    while (message := asked.get(timeout=120)) is not None:
        name, value = message
        if name == "views":
            base, row, bits = value
            row.add_(1)
            assert base[1].tolist() == [4, 5, 6] and base[0].tolist() == [0, 1, 2]
            assert bits.dtype == torch.int32 and (bits.cpu() == base.cpu().view(torch.int32)).all()
        elif name == "leaf":
            (value * 2).sum().backward()
            assert value.is_leaf and value.grad.tolist() == [2, 2]
        elif name == "module":
            assert value[2].weight is value[0].weight and isinstance(value[0].weight, torch.nn.Parameter)
            value[0].bias.data.add_(1)
        elif name == "plain":
            value = value + 1
        answers.put((name, value))


VALUES = {
    "plain": lambda: torch.arange(3, device="xla"),
    "half": lambda: torch.arange(3, device="xla").to(torch.bfloat16),
    "empty": lambda: torch.zeros(0, 3, device="xla"),
    "scalar": lambda: torch.tensor(2.5, device="xla"),
    "complex": lambda: torch.tensor([1 + 2j, 3j], device="xla").conj(),
    "negative": lambda: torch.tensor([1 + 2j, 3j], device="xla").conj().imag,
    "strided": lambda: torch.arange(24.0, device="xla").reshape(2, 3, 4).transpose(0, 2)[1:, ::2],
    "expanded": lambda: torch.arange(3.0, device="xla").expand(4, 3),
    "leaf": lambda: torch.ones(2, device="xla", requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, device="xla"), requires_grad=False),
}


@pytest.fixture(scope="module")
def peer():
    asked, answers = SPAWN.Queue(), SPAWN.Queue()
    process = SPAWN.Process(target=echo, args=(asked, answers))
    process.start()

    def ask(name: str, value: Any) -> Any:
        asked.put((name, value))
        back, result = answers.get(timeout=120)
        assert back == name
        return result

    yield ask
    asked.put(None)
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("name", VALUES)
def test_there_and_back(peer, name: str) -> None:
    x = VALUES[name]()
    y = peer(name, x)
    assert type(y) is type(x) and y.device == x.device and y.dtype == x.dtype and y.requires_grad == x.requires_grad
    assert y.stride() == x.stride() and y.is_conj() == x.is_conj() and y.is_neg() == x.is_neg()
    expected = x.detach().cpu() + (name == "plain")
    assert torch.equal(y.detach().cpu(), expected)


def test_views_of_one_storage(peer) -> None:
    base = torch.arange(6.0, device="xla").reshape(2, 3)
    got, row, bits = peer("views", (base, base[1], base.view(torch.int32)))
    assert got.tolist() == [[0, 1, 2], [4, 5, 6]], "written by the other process"
    row.zero_()
    assert got.tolist() == [[0, 1, 2], [0, 0, 0]] and bits.tolist()[1] == [0, 0, 0]
    assert base.tolist() == [[0, 1, 2], [3, 4, 5]], "the sender keeps its own"


def test_module(peer) -> None:
    net = module()
    back = peer("module", net)
    assert back[0].weight is back[2].weight and back[1].running_mean.device.type == "xla"
    assert torch.equal(back[0].bias.detach().cpu(), net[0].bias.detach().cpu() + 1)
    x = torch.ones(2, 3, device="xla")
    back.eval()(x).sum().backward()
    assert back[0].weight.grad is not None


def test_a_tensor_with_a_history_is_refused() -> None:
    x = torch.ones(2, device="xla", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf tensor which requires_grad"):
        ForkingPickler.dumps(x)


def given(x: torch.Tensor, parameter: torch.nn.Parameter, pipe: Any, simple: Any) -> None:
    pipe.send(x + parameter.detach())
    simple.put(parameter)
    assert pipe.recv() == "taken"  # shared memory lives as long as its sender


def test_arguments_pipe_and_simple_queue() -> None:
    ours, theirs = SPAWN.Pipe()
    simple = SPAWN.SimpleQueue()
    x, p = torch.ones(2, device="xla"), torch.nn.Parameter(torch.tensor([1.0, 2.0], device="xla"))
    process = SPAWN.Process(target=given, args=(x, p, theirs, simple))
    process.start()
    assert ours.recv().tolist() == [2, 3]
    back = simple.get()
    assert isinstance(back, torch.nn.Parameter) and back.requires_grad and back.tolist() == [1, 2]
    ours.send("taken")
    process.join(60)
    assert process.exitcode == 0


class OnDevice(torch.utils.data.Dataset):
    """Samples that a worker makes on its own device."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.full((2,), float(i), device="xla") * 2


def test_data_loader_workers() -> None:
    loader = torch.utils.data.DataLoader(OnDevice(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    batches = list(loader)
    assert [b.device.type for b in batches] == ["xla", "xla"]
    assert [b.tolist() for b in batches] == [[[0, 0], [2, 2]], [[4, 4], [6, 6]]]


def forked(asked: Any, answers: Any) -> None:
    try:
        asked.get(timeout=120)
    except RuntimeError as e:
        answers.put((type(e).__name__, str(e)))


def test_a_forked_process_is_told_what_to_do() -> None:
    fork = mp.get_context("fork")
    asked, answers = fork.Queue(), fork.Queue()
    process = fork.Process(target=forked, args=(asked, answers))
    process.start()
    asked.put(torch.ones(2, device="xla"))
    kind, text = answers.get(timeout=120)
    process.join(60)
    assert kind == "ForkedProcessError" and "spawn" in text and ".cpu()" in text


def test_sparse_tensors_arrive(peer: Any) -> None:
    for x in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr(), torch.eye(4).to_sparse_bsc((2, 2))):
        back = peer("sparse", x.to("xla"))
        assert (back.layout, back.device.type) == (x.layout, "xla")
        assert torch.equal(back.cpu().to_dense(), x.to_dense())
