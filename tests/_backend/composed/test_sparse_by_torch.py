"""Torch's own kernels of sparse tensors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torchgen
from sparse_cases import Case, compare, empty, gradients, hybrid, matrix, other

import torch_go_xla
from torch_go_xla._backend.composed import sparse_by_torch
from torch_go_xla._backend.kernels import SPARSE, SPARSE_COMPRESSED

NATIVE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"


def registrations(key: str) -> dict[str, bool]:
    """Return the overloads that torch registers for a key of the CPU: whether CUDA's kernel is the same."""
    found = {}
    for entry in NATIVE.read_text().split("\n- func: ")[1:]:
        for keys in re.findall(rf"^    ([\w, ]*\b{key}CPU\b[\w, ]*): \w+", entry, re.M):
            found[entry.partition("(")[0]] = f"{key}CUDA" in keys
    return found


# What torch shares, but has a step in it that asks for the type of the device.
STUBS = {
    "Sparse": {"sparse_mask", "_sparse_mask_projection"},
    "SparseCsr": {"_to_sparse", "_to_sparse_bsc", "_to_sparse_bsr", "_to_sparse_csc", "_to_sparse_csr"},
}
# What is not supported.
ABSENT = {
    "Sparse": {"_pin_memory", "is_pinned", "hspmm.out", "sspaddmm.out"},
    "SparseCsr": {
        *("_pin_memory", "is_pinned", "triangular_solve.X", "_sparse_csr_prod.dim_dtype"),
    },
}


@pytest.mark.skipif(torch.__version__ < "2.15", reason="the lists are those of torch 2.15")
@pytest.mark.parametrize("key", ["Sparse", "SparseCsr"])
def test_the_lists_are_torchs(key: str) -> None:
    listed = sparse_by_torch.COO if key == "Sparse" else sparse_by_torch.COMPRESSED
    torchs = registrations(key)
    assert {name for name, same in torchs.items() if same} - STUBS[key] == set(listed)
    kernels = SPARSE if key == "Sparse" else SPARSE_COMPRESSED
    assert torchs.keys() - kernels.keys() == ABSENT[key]


UNARY = [*sparse_by_torch._UNARY, "nan_to_num", "relu", "isnan", "isinf"]


@pytest.mark.parametrize("name", UNARY)
def test_zero_preserving_ops(name: str) -> None:
    for x in (matrix(), other(), hybrid(), empty(), matrix(torch.int64)):
        compare(getattr(torch, name), x)


@pytest.mark.parametrize("name", ["abs", "sin", "sqrt", "neg", "relu", "trunc"])
def test_in_place_and_out(name: str) -> None:
    for x in (matrix(), other()):
        compare(lambda x: getattr(x.clone(), f"{name}_")(), x)
    if name != "relu":
        compare(lambda x: getattr(torch, name)(x, out=torch.empty_like(x)), other())


CONSTRUCTED: dict[str, Case] = {
    "with a size": lambda d: torch.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], (2, 3), device=d),
    "without a size": lambda d: torch.sparse_coo_tensor([[0, 1], [2, 0]], [1.0, 2.0], device=d),
    "of tensors": lambda d: torch.sparse_coo_tensor(
        torch.tensor([[0, 1]], device=d), torch.ones(2, 3, device=d), (4, 3), dtype=torch.float64
    ),
    "without elements": lambda d: torch.sparse_coo_tensor((2, 3), device=d),
    "of a type": lambda d: torch.sparse_coo_tensor((2, 3), dtype=torch.int64, device=d),
    "that is coalesced": lambda d: torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,), is_coalesced=True, device=d),
    "coalesced and checked": lambda d: torch.sparse_coo_tensor(
        [[0, 1]], [1.0, 2.0], (2,), is_coalesced=True, check_invariants=True, device=d
    ),
    "not coalesced and checked": lambda d: torch.sparse_coo_tensor(
        [[1, 1]], [1.0, 2.0], (2,), is_coalesced=True, check_invariants=True, device=d
    ),
    "with gradients": lambda d: torch.sparse_coo_tensor([[0]], [1.0], (2,), requires_grad=True, device=d),
    "with an index out of range": lambda d: torch.sparse_coo_tensor(
        [[0, 7]], [1.0, 2.0], (2,), check_invariants=True, device=d
    ),
    "with a negative index": lambda d: torch.sparse_coo_tensor([[0, -1]], [1.0, 2.0], device=d),
    "with indices of another rank": lambda d: torch.sparse_coo_tensor([0, 1], [1.0, 2.0], device=d),
    "empty": lambda d: torch.empty(2, 3, layout=torch.sparse_coo, device=d),
    "zeros": lambda d: torch.zeros(2, 3, layout=torch.sparse_coo, device=d),
    "eye": lambda d: torch.eye(3, device=d).to_sparse(),
    "new": lambda d: torch.sparse_coo_tensor((2, 3), device=d).new(
        torch.tensor([[0], [1]], device=d), torch.ones(1, device=d), (2, 3)
    ),
}


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructors(name: str) -> None:
    compare(lambda x: CONSTRUCTED[name](x.device), torch.ones(1))


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("coalesced", [None, False, True])
def test_values_have_gradients(coalesced: bool | None, checked: bool) -> None:
    def made(values: torch.Tensor) -> torch.Tensor:
        indices = torch.tensor([[0, 2]], device=values.device)
        return torch.sparse_coo_tensor(indices, values, (3,), is_coalesced=coalesced, check_invariants=checked)

    compare(gradients(made), torch.ones(2))


def test_constructors_wait_for_nothing() -> None:
    i, v = torch.tensor([[0, 1]], device="xla"), torch.ones(2, device="xla")
    torch_go_xla.sync(wait=True)
    before = torch_go_xla._core.core.syncs()
    x = torch.sparse_coo_tensor(i + 1, v * 2, (4,))
    assert (x._nnz(), x.shape, x.is_coalesced()) == (2, (4,), False)
    assert torch_go_xla._core.core.syncs() == before


def test_between_devices() -> None:
    for x in (matrix(), other(), hybrid(), empty()):
        there = x.to("xla")
        assert there.is_sparse and there.device.type == "xla" and there.is_coalesced() == x.is_coalesced()
        assert torch.equal(there._indices().cpu(), x._indices())
        for back in (there.cpu(), there.to("cpu"), torch.empty_like(x).copy_(there)):
            assert back.device.type == "cpu" and back.is_coalesced() == x.is_coalesced()
            assert torch.equal(back._indices(), x._indices()) and torch.equal(back._values(), x._values())
        assert there.to("xla") is there
        assert there.to(torch.float64).dtype == torch.float64


def test_text() -> None:
    text = repr(other().to("xla"))
    assert text == repr(other()).replace("size=(4, 5)", "device='xla:0', size=(4, 5)")
    assert "grad_fn" in repr(other().to("xla").requires_grad_() * 2)
