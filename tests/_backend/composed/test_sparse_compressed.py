"""Compressed sparse tensors, with torch's CPU as the oracle."""

from __future__ import annotations

import pytest
import torch
from sparse_cases import Case, compare, dense, empty, gradients, matrix, other

LAYOUTS = [torch.sparse_csr, torch.sparse_csc]


def csr(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """4×5, the third row without an element."""
    x = matrix(dtype).to_dense()
    x[2] = 0
    return x.to_sparse_csr()


def batch() -> torch.Tensor:
    return torch.stack((dense(4, 5) * (dense(4, 5) > 0), dense(4, 5) * (dense(4, 5) > 0) * 2)).to_sparse_csr()


UNARY: dict[str, Case] = {
    "to_dense": lambda x: x.to_dense(),
    "to_sparse": lambda x: x.to_sparse(),
    "to_sparse_csr": lambda x: x.to_sparse_csr(),
    "to_sparse_csc": lambda x: x.to_sparse_csc(),
    "indices": lambda x: (x.crow_indices(), x.col_indices(), x.values(), x._nnz(), x.sparse_dim(), x.dense_dim()),
    "clone": lambda x: x.clone(),
    "neg": lambda x: -x,
    "sin": lambda x: x.sin(),
    "relu": lambda x: x.relu(),
    "mul": lambda x: x * 2.5,
    "mul by itself": lambda x: x * x,
    "div": lambda x: x / 2,
    "add": lambda x: x + x,
    "transpose": lambda x: x.transpose(-1, -2),
    "select": lambda x: x[1] if x.dim() == 3 else x[1, 1],
    "sum": lambda x: x.sum(),
    "sum of columns": lambda x: torch.sum(x, 1, keepdim=True),
    "sum of rows": lambda x: torch.sum(x, 0, keepdim=True),
    "sum of both": lambda x: torch.sum(x, (0, 1), keepdim=True),
    "sum without keepdim": lambda x: torch.sum(x, 1),
    "zeros_like": lambda x: torch.zeros_like(x),
    "empty_like": lambda x: torch.empty_like(x).shape,
    "double": lambda x: x.double(),
    "dense + sparse": lambda x: torch.ones(x.shape, device=x.device) + x,
    "mul by dense": lambda x: x * torch.ones(x.shape, device=x.device),
    "zero_": lambda x: x.clone().zero_(),
    "fill_": lambda x: x.clone().fill_(3),
    "copy_": lambda x: x.clone().copy_(x * 2),
    "resize_as_sparse_": lambda x: torch.empty_like(x).resize_as_sparse_(x).shape,
}


KINDS: dict[str, Case] = {
    "csr": csr,
    "csc": lambda: csr().to_sparse_csc(),
    "batch": batch,
    "empty": lambda: empty().to_sparse_csr(),
    "int64": lambda: csr(torch.int64),
}
# Sums of batches are not supported. The CPU's sum of nothing has values without a dimension.
OTHERS = {("add", "batch"), ("sum of both", "empty")}


@pytest.mark.parametrize("name, kind", [(name, kind) for name in UNARY for kind in KINDS if (name, kind) not in OTHERS])
def test_of_one_tensor(name: str, kind: str) -> None:
    compare(UNARY[name], KINDS[kind]())


@pytest.mark.parametrize("form", ["to_sparse_csr", "to_sparse_csc", "to_sparse"])
@pytest.mark.parametrize("kind", ["coo", "dense", "blocks"])
def test_conversions(form: str, kind: str) -> None:
    x = {"coo": matrix(), "dense": other().to_dense(), "blocks": torch.eye(4).to_sparse_bsr((2, 2))}[kind]
    compare(lambda x: getattr(x, form)(), x)


def test_blocks() -> None:
    compare(lambda x: x.to_sparse_bsr((2, 2)), dense(4, 4) * (dense(4, 4) > 1))
    compare(lambda x: x.to_sparse_bsr((2, 2)).to_dense(), dense(4, 4))


PRODUCTS: dict[str, tuple[Case, tuple[int, ...]]] = {
    "mm": (lambda x, y: x @ y, (5, 3)),
    "sparse.mm": (lambda x, y: torch.sparse.mm(x, y), (5, 3)),
    "dense @ sparse": (lambda x, y: y @ x, (3, 4)),
    "mv": (lambda x, y: x @ y, (5,)),
    "addmm": (lambda x, y: torch.addmm(torch.ones(4, 3, device=x.device), x, y, beta=2, alpha=3), (5, 3)),
    "addmv": (lambda x, y: torch.addmv(torch.ones(4, device=x.device), x, y), (5,)),
    "mm of another size": (lambda x, y: x @ y, (4, 3)),
    "sampled_addmm": (lambda x, y: torch.sparse.sampled_addmm(x, y, dense(2, 5).to(y.device), beta=2), (4, 2)),
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, layout: torch.layout) -> None:
    case, size = PRODUCTS[name]
    compare(case, csr().to_sparse(layout=layout), dense(*size))


def test_products_of_two() -> None:
    compare(lambda x, y: (x @ y).to_dense(), csr(), other().t().coalesce().to_sparse_csr())  # not in order on the CPU
    compare(lambda x, y: x + y, csr(), other().to_sparse_csr())
    compare(lambda x, y: torch.add(x, y, alpha=2), csr(), other().to_sparse_csr())
    compare(lambda x, y: x * y, csr(), other().to_sparse_csr())


REDUCTIONS = ["sum", "mean", "amax", "amin"]


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_products_with_a_reduction(reduce: str) -> None:
    compare(lambda x, y: torch.sparse.mm(x, y, reduce), csr(), dense(5, 3))
    compare(gradients(lambda x, y: torch.sparse.mm(x, y, reduce)), csr(), dense(5, 3))


GRADIENTS: dict[str, tuple[Case, tuple[torch.Tensor, ...]]] = {
    "mm by dense": (lambda y: csr().to(y.device) @ y, (dense(5, 3),)),
    "sparse.mm": (lambda x, y: torch.sparse.mm(x, y), (csr(), dense(5, 3))),
    "to_dense": (lambda x: x.to_dense(), (csr(),)),
    "to_sparse_csr": (lambda x: x.to_sparse_csr(), (dense(4, 5),)),
    "sampled_addmm": (
        lambda x, y: torch.sparse.sampled_addmm(csr().to(x.device), x, y).to_dense(),
        (dense(4, 2), dense(2, 5)),
    ),
    "values": (
        lambda v: torch.sparse_csr_tensor(
            torch.tensor([0, 1, 2], device=v.device), torch.tensor([1, 0], device=v.device), v, (2, 2)
        ).to_dense(),
        (dense(2),),
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    case, args = GRADIENTS[name]
    compare(gradients(case), *args)


CONSTRUCTED: dict[str, Case] = {
    "csr": lambda d: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
    "without a size": lambda d: torch.sparse_csr_tensor([0, 1, 2], [1, 0], [1.0, 2.0], device=d),
    "of int32": lambda d: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2], dtype=torch.int32), torch.tensor([1, 0], dtype=torch.int32), torch.ones(2), device=d
    ),
    "csc": lambda d: torch.sparse_csc_tensor([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2), device=d),
    "checked": lambda d: torch.sparse_csr_tensor(
        [0, 1, 2], [1, 7], [1.0, 2.0], (2, 2), check_invariants=True, device=d
    ),
    "zeros": lambda d: torch.zeros(2, 3, layout=torch.sparse_csr, device=d),
}


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructors(name: str) -> None:
    compare(lambda x: CONSTRUCTED[name](x.device), torch.ones(1))


def test_between_devices_and_text() -> None:
    for x in (csr(), csr().to_sparse_csc(), batch()):
        there = x.to("xla")
        assert there.layout == x.layout and there.device.type == "xla"
        assert torch.equal(there.cpu().to_dense(), x.to_dense())
    assert "device='xla:0'" in repr(csr().to("xla"))
