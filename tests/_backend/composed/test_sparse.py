"""Sparse COO tensors, with torch's CPU as the oracle."""

from __future__ import annotations

import warnings

import pytest
import torch
from sparse_cases import Case, assert_same, compare, dense, empty, gradients, hybrid, matrix, on, other

import torch_go_xla
from torch_go_xla.debug import metrics
from torch_go_xla.tiers import set_tier

TYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,  # only sums
    torch.complex64,
]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_elements_at_one_place_are_summed(dtype: torch.dtype) -> None:
    compare(lambda x: x.coalesce(), matrix(dtype))
    compare(lambda x: x.to_dense(), matrix(dtype))


UNARY: dict[str, Case] = {
    "coalesce": lambda x: x.coalesce(),
    "to_dense": lambda x: x.to_dense(),
    "index_select of rows": lambda x: x.index_select(0, torch.tensor([3, 0, 3], device=x.device)),
    "index_select of columns": lambda x: x.index_select(1, torch.tensor([1, -1, 2], device=x.device)),
    "select": lambda x: x.select(0, 2),
    "indexing": lambda x: x[3],
    "narrow_copy": lambda x: x.narrow_copy(1, 1, 3),
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: torch.sparse.sum(x, 0),
    "sum of columns": lambda x: torch.sparse.sum(x, [1]),
    "sum of both": lambda x: torch.sparse.sum(x, [0, 1]),
    "sum as float64": lambda x: torch.sparse.sum(x, 1, dtype=torch.float64),
    "softmax along rows": lambda x: torch.sparse.softmax(x, 0),
    "softmax along columns": lambda x: torch.sparse.softmax(x, 1),
    "log_softmax": lambda x: torch.sparse.log_softmax(x, 1),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(*range(x.dim())[::-1][-2:], *range(2, x.dim())),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "cat": lambda x: torch.cat((x, x), 1),
    "norm": lambda x: x.norm(),
    "clone": lambda x: x.clone(),
    "zeros_like": lambda x: torch.zeros_like(x),
    "empty_like": lambda x: torch.empty_like(x),
    "ones_like": lambda x: torch.ones_like(x),
    "double": lambda x: x.double(),
    "any": lambda x: x.any() if x.dtype == torch.bool else (x != x).to_dense(),
    "to_sparse": lambda x: x.to_sparse(),
    "to_sparse with dense dimensions": lambda x: x.to_dense().to_sparse(1),
    "mv": lambda x: x @ torch.ones(x.shape[1], device=x.device),
    "_nnz": lambda x: (x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_coalesced(), x.is_sparse, x.numel()),
    "indices of one that is not coalesced": lambda x: x.indices(),
    "resize": lambda x: x.clone().sparse_resize_((4, 5, *x.shape[2:]), 2, x.dense_dim()),
    "resize and clear": lambda x: x.clone().sparse_resize_and_clear_((2, 3), 1, 1),
    "dot": lambda x: torch.dot(x, x),
}
MAKERS = {"matrix": matrix, "coalesced": other, "hybrid": hybrid, "empty": empty}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", UNARY)
def test_of_one_tensor(name: str, kind: str) -> None:
    compare(UNARY[name], MAKERS[kind]())


PAIRS: dict[str, Case] = {
    "add": lambda x, y: x + y,
    "add with alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "add_": lambda x, y: x.clone().add_(y),
    "mul_": lambda x, y: x.clone().mul_(y),
    "sparse_mask": lambda x, y: x.sparse_mask(y.coalesce()),
    "sparse_mask with a mask that is not coalesced": lambda x, y: x.sparse_mask(y),
    "projection": lambda x, y: x._sparse_mask_projection(y),
    "projection with counts": lambda x, y: x._sparse_mask_projection(y, True),
    "copy_": lambda x, y: x.clone().copy_(y),
    "div": lambda x, y: x / y,
    "mm": lambda x, y: x @ y.t(),
}


OPERANDS = [(x, y) for x in MAKERS for y in MAKERS if (x == "hybrid") == (y == "hybrid")]


@pytest.mark.parametrize("left, right", OPERANDS)
@pytest.mark.parametrize("name", PAIRS)
def test_of_two_sparse_tensors(name: str, left: str, right: str) -> None:
    compare(PAIRS[name], MAKERS[left](), MAKERS[right]())


@pytest.mark.parametrize("dtype", TYPES[:-2] + TYPES[-1:], ids=str)
@pytest.mark.parametrize("name", ["add", "mul", "sub"])
def test_types_are_promoted(name: str, dtype: torch.dtype) -> None:
    compare(PAIRS[name], matrix(dtype), other())


MIXED: dict[str, tuple[Case, tuple[int, ...]]] = {
    "dense + sparse": (lambda x, y: y + x, (4, 5)),
    "sparse + dense": (lambda x, y: x + y, (4, 5)),
    "dense.add_": (lambda x, y: y.clone().add_(x, alpha=-0.5), (4, 5)),
    "dense.add_ to a view": (lambda x, y: y.clone().t().add_(x), (5, 4)),
    "add of another size": (lambda x, y: y + x, (4, 1)),
    "sparse * dense": (lambda x, y: x * y, (4, 5)),
    "dense * sparse": (lambda x, y: y * x, (4, 5)),
    "sparse * row": (lambda x, y: x * y, (5,)),
    "sparse * larger": (lambda x, y: x * y, (2, 4, 5)),
    "dense.mul_": (lambda x, y: y.clone().mul_(x), (4, 5)),
    "mm": (lambda x, y: x.mm(y), (5, 3)),
    "@": (lambda x, y: x @ y, (5, 3)),
    "sparse.mm": (lambda x, y: torch.sparse.mm(x, y), (5, 3)),
    "dense @ sparse": (lambda x, y: y @ x, (3, 4)),
    "mm of another size": (lambda x, y: x @ y, (4, 3)),
    "mv": (lambda x, y: x.mv(y), (5,)),
    "addmm": (lambda x, y: torch.sparse.addmm(torch.ones(4, 3, device=x.device), x, y, beta=2, alpha=3), (5, 3)),
    "addmm of a row": (lambda x, y: torch.addmm(torch.ones(3, device=x.device), x, y), (5, 3)),
    "addmm_": (lambda x, y: torch.ones(4, 3, device=x.device).addmm_(x, y), (5, 3)),
    "hspmm": (lambda x, y: torch.hspmm(x, y).coalesce(), (5, 3)),
    "sparse_mask": (lambda x, y: y.sparse_mask(x), (4, 5)),
    "sparse_mask of another size": (lambda x, y: y.sparse_mask(x), (4, 1)),
    "mm of another type": (lambda x, y: x @ y.double(), (5, 3)),
}


@pytest.mark.parametrize("kind", ["matrix", "coalesced", "empty"])
@pytest.mark.parametrize("name", MIXED)
def test_with_dense_tensors(name: str, kind: str) -> None:
    case, size = MIXED[name]
    compare(case, MAKERS[kind](), dense(*size))


HYBRID: dict[str, tuple[Case, tuple[int, ...]]] = {
    "dense + sparse": (lambda x, y: y + x, (4, 5, 3)),
    "sparse * dense": (lambda x, y: x * y, (4, 5, 3)),
    "sparse * vector": (lambda x, y: x * y, (3,)),
    "sparse * column": (lambda x, y: x * y, (5, 1)),
    "mm": (lambda x, y: x @ y, (5, 3)),
    "sparse_mask": (lambda x, y: y.sparse_mask(x.coalesce()), (4, 5, 3)),
}


@pytest.mark.parametrize("name", HYBRID)
def test_hybrid_with_dense_tensors(name: str) -> None:
    case, size = HYBRID[name]
    compare(case, hybrid(), dense(*size))


def batches() -> torch.Tensor:
    return torch.stack((matrix().to_dense(), other().to_dense(), torch.zeros(4, 5))).to_sparse()


def test_products_of_batches() -> None:
    compare(lambda x, y: torch.bmm(x, y), batches(), dense(3, 5, 2))
    compare(lambda x, y: torch.bmm(x, y), batches(), dense(2, 5, 2))
    compare(lambda x, y: torch.bmm(y, x), batches(), dense(3, 2, 4))
    compare(lambda x: torch.sparse.sum(x, (0, 2)), batches())


NUMBERS: dict[str, Case] = {
    "mul": lambda x: x * 2.5,
    "mul by a tensor": lambda x: x * torch.tensor(3.0, device=x.device),
    "mul_": lambda x: x.clone().mul_(0.5),
    "div": lambda x: x / 4,
    "div_": lambda x: x.clone().div_(4),
    "div rounded": lambda x: torch.div(x, 0.4, rounding_mode="floor"),
    "floor_divide": lambda x: x // 0.4,
    "pow": lambda x: x**3,
    "pow 0": lambda x: x**0,
    "zero_": lambda x: x.clone().zero_(),
    "add a number": lambda x: x + 1,
    "neg": lambda x: -x,
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("name", NUMBERS)
def test_with_numbers(name: str, kind: str) -> None:
    compare(NUMBERS[name], MAKERS[kind]())


DIFFERENTIABLE: dict[str, tuple[Case, tuple[torch.Tensor, ...]]] = {
    "to_dense": (lambda x: x.to_dense(), (matrix(),)),
    "to_dense of hybrid": (lambda x: x.to_dense(), (hybrid(),)),
    "to_sparse": (lambda x: x.to_sparse(), (dense(4, 5),)),
    "coalesce": (lambda x: x.coalesce(), (matrix(),)),
    "values": (lambda x: x.coalesce().values(), (matrix(),)),
    "mm": (lambda x, y: torch.sparse.mm(x, y), (matrix(), dense(5, 3))),
    "@": (lambda x, y: x @ y, (other(), dense(5, 3))),
    "addmm": (lambda x, y, z: torch.sparse.addmm(x, y, z), (dense(4, 3), matrix(), dense(5, 3))),
    "sparse @ sparse": (lambda x, y: torch.sparse.mm(x, y.t()), (matrix(), other())),
    "sum": (lambda x: torch.sparse.sum(x), (matrix(),)),
    "sum of rows": (lambda x: torch.sparse.sum(x, 0), (matrix(),)),
    "sum of columns of hybrid": (lambda x: torch.sparse.sum(x, 1), (hybrid(),)),
    "sum of dense": (lambda x: torch.sparse.sum(x, 2), (hybrid(),)),
    "sum of all": (lambda x: torch.sparse.sum(x, (0, 1)), (hybrid(),)),
    "softmax": (lambda x: torch.sparse.softmax(x, 1), (matrix(),)),
    "softmax of dense": (lambda x: torch.sparse.softmax(x, 2), (hybrid(),)),
    "log_softmax": (lambda x: torch.sparse.log_softmax(x, 0), (hybrid(),)),
    "add": (lambda x, y: x + y, (matrix(), other())),
    "dense + sparse": (lambda x, y: x + y, (dense(4, 5), matrix())),
    "mul": (lambda x, y: x * y, (other(), matrix().coalesce())),
    "mul by dense": (lambda x, y: x * y, (other(), dense(4, 5))),
    "sparse_mask": (lambda x: x.sparse_mask(other().to(x.device)), (dense(4, 5),)),
    "abs": (lambda x: x.abs(), (other(),)),
    "bmm": (lambda x, y: torch.bmm(x, y), (batches(), dense(3, 5, 2))),
    "index_select": (lambda x: x.index_select(0, torch.tensor([2, 0], device=x.device)), (other(),)),
    "transpose": (lambda x: x.t(), (other(),)),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name: str) -> None:
    case, args = DIFFERENTIABLE[name]
    compare(gradients(case), *args)


def test_gradients_by_the_values() -> None:
    def case(values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        indices = torch.tensor([[0, 1, 1], [2, 0, 2]], device=x.device)
        return torch.sparse.mm(torch.sparse_coo_tensor(indices, values, (2, 3)), x)

    compare(gradients(case), dense(3), dense(3, 4))


# ---- what is waited for ----


@pytest.mark.parametrize("coalesced", [True, False])
def test_products_and_sums_wait_for_nothing(coalesced: bool) -> None:
    x, y = matrix().to("xla"), dense(5, 3).to("xla")
    x = x.coalesce() if coalesced else x
    torch_go_xla.sync(wait=True)
    before = metrics.metric_data("ExecuteTime"), torch_go_xla._core.core.syncs()
    z = x @ y + x.to_dense().sum() + (x * 2).to_dense()[:, :3]
    z.add_(torch.sparse_coo_tensor(x._indices() % 3, x._values(), (4, 3)))
    assert (metrics.metric_data("ExecuteTime"), torch_go_xla._core.core.syncs()) == before
    assert z.shape == (4, 3)


@pytest.mark.parametrize("kernels", [True, False], ids=["torch", "composed"])
def test_coalescing_does_not_wait_for_values(kernels: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels:
        monkeypatch.setattr(type(torch_go_xla._core.core), "torch_kernels", lambda _: False)
    compare(lambda x: x.coalesce(), hybrid())
    compare(lambda x: x * x.coalesce(), matrix())


# ---- aliases ----


def test_values_are_an_alias() -> None:
    x = other().to("xla")
    x.values().mul_(2)
    x._values()[0] = 7
    want = other()
    want.values().mul_(2)
    want._values()[0] = 7
    assert_same(x, want)
    v = torch.ones(2, device="xla")
    x = torch.sparse_coo_tensor(torch.tensor([[0, 1]], device="xla"), v, (2,))
    v.add_(1)
    assert x.to_dense().tolist() == [2, 2]
    detached = x.detach()
    detached._values().zero_()
    assert v.tolist() == [0, 0]


# ---- what there is not ----


def test_what_has_no_kernel_says_so() -> None:
    x = other().to("xla")
    for f in (lambda: x.exp(), lambda: torch.sspaddmm(x, x, x.to_dense().t()), lambda: x.max()):
        with pytest.raises(NotImplementedError):
            f()
    with pytest.raises(RuntimeError):
        x + on("cpu", other())


@pytest.mark.parametrize("place", [4, -5])
def test_a_place_that_is_out_of_range_raises(place: int) -> None:
    x = other()
    assert x.shape[0] == 4
    errors = []
    for device in ("cpu", "xla"):
        with pytest.raises(IndexError) as raised:
            x.to(device).index_select(0, torch.tensor([1, place], device=device))
        errors.append(str(raised.value))
    assert errors[0] == errors[1]


# ---- gradients of tables, and their optimizers ----


class Bags(torch.nn.Module):
    def __init__(self, mode: str) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(6, 4, padding_idx=0, sparse=True)
        self.bag = torch.nn.EmbeddingBag(6, 4, mode=mode, sparse=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.table(x).sum(1) + self.bag(x)


OPTIMIZERS: dict[str, Case] = {
    "SparseAdam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_of_tables_equals_the_cpus(name: str, mode: str) -> None:
    torch.manual_seed(0)
    start = Bags(mode).state_dict()
    results = []
    for device in ("cpu", "xla"):
        model = Bags(mode).to(device)
        model.load_state_dict(start)
        optimizer = OPTIMIZERS[name](model.parameters())
        for step in range(4):
            x = ((torch.arange(12) * (step + 2)) % 6).reshape(3, 4).to(device)
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            assert all(p.grad is not None and p.grad.is_sparse for p in model.parameters())
            optimizer.step()
        results.append([p.detach().cpu() for p in model.parameters()] + [loss.detach().cpu()])
    for got, want in zip(results[1], results[0], strict=True):
        torch.testing.assert_close(got, want)


class GCN(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(5, 8), torch.nn.Linear(8, 3)

    def forward(self, adjacency: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(adjacency @ self.first(x))
        return torch.sparse.mm(adjacency, self.second(x))


def graph() -> torch.Tensor:
    """Return the normalized adjacency matrix of a ring of 12 nodes with some chords."""
    nodes = torch.arange(12)
    ends = torch.cat((torch.stack((nodes, (nodes + 1) % 12)), torch.stack((nodes[::3], (nodes[::3] + 5) % 12))), 1)
    ends = torch.cat((ends, ends.flip(0), torch.stack((nodes, nodes))), 1)
    degree = torch.bincount(ends[0]).float()
    weights = (degree[ends[0]] * degree[ends[1]]).rsqrt()
    return torch.sparse_coo_tensor(ends, weights, (12, 12)).coalesce()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("csr", [False, True])
def test_a_graph_network_learns_as_on_the_cpu(csr: bool, compiled: bool) -> None:
    torch.manual_seed(0)
    start = GCN().state_dict()
    losses = []
    for device in ("cpu", "xla"):
        model = GCN().to(device)
        model.load_state_dict(start)
        adjacency = graph().to(device)
        adjacency = adjacency.to_sparse_csr() if csr else adjacency
        x, labels = dense(12, 5).to(device), (torch.arange(12) % 3).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.05)

        def step() -> torch.Tensor:
            optimizer.zero_grad()  # noqa: B023
            loss = torch.nn.functional.cross_entropy(model(adjacency, x), labels)  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023
            return loss.detach()

        run = torch_go_xla.compile(step) if compiled and device == "xla" else step
        losses.append([run().item() for _ in range(6)])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert losses[0][-1] < losses[0][0]


def test_sparse_arguments_are_recorded_each_time() -> None:
    f = torch_go_xla.compile(lambda a, x: a @ x)
    a, x = other().to("xla"), dense(5, 3).to("xla")
    for _ in range(3):
        torch.testing.assert_close(f(a, x).cpu(), other() @ dense(5, 3))
    sparse = torch_go_xla.compile(lambda x: x * 2)
    for _ in range(3):
        assert_same(sparse(a), other() * 2)


def test_softmax_does_not_warn(capfd: pytest.CaptureFixture[str]) -> None:
    """Neither in Python nor where torch's kernels run, which print."""
    x = matrix().to("xla").coalesce()
    torch.set_warn_always(True)  # also of what another test has met
    try:
        with warnings.catch_warnings(), set_tier("eager"):
            warnings.simplefilter("error")
            torch.sparse.softmax(x, 1).to_dense().cpu()
    finally:
        torch.set_warn_always(False)
    assert "beta" not in capfd.readouterr().err
