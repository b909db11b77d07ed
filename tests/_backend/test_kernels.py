"""Kernels through torch: binding, encoding, destinations, errors, against torch CPU."""

import sys
import warnings

import pytest
import torch

import torch_go_xla
from torch_go_xla._backend import mixed, register, rows
from torch_go_xla._backend.core import native


def xla(*args, **kwargs):
    return torch.tensor(*args, **kwargs).to("xla")


@pytest.fixture(scope="module")
def kernels():
    return register.make_kernels(rows.read(native().op_table()))


@pytest.fixture(scope="module")
def add(kernels):
    return kernels["add.Tensor"]


# ---- binding ----


def test_arguments_by_position_and_name(add):
    x = xla([1.0, 2.0])
    assert add(x, x).tolist() == [2, 4]
    assert add(x, other=x, alpha=3).tolist() == [4, 8]
    assert add(alpha=2, other=1, self=x).tolist() == [3, 4]


@pytest.mark.parametrize(
    "args, kwargs, text",
    [
        ((1,), {}, "missing argument 'other'"),
        ((1, 2, 3), {}, "takes 2 positional arguments but 3 were given"),
        ((1, 2), {"beta": 3}, "unexpected keyword argument 'beta'"),
        ((1, 2), {"self": 3}, "multiple values for argument 'self'"),
        (("a", 2), {}, "expected a tensor, got str"),
        ((1, [2]), {}, "expected a tensor, got list"),
    ],
)
def test_wrong_calls_of_a_kernel(add, args, kwargs, text):
    with pytest.raises(TypeError, match=text):
        add(*args, **kwargs)


def test_a_number_too_large_is_an_overflow(add):
    with pytest.raises(OverflowError):
        add(xla([1]), 1 << 64)


def test_kernels_have_a_name(add):
    assert add.name == "add.Tensor" and repr(add) == "<kernel add.Tensor>"


def test_every_form_of_every_row_has_a_kernel(kernels):
    """In-place and out= forms of single-tensor rows exist wherever torch has them with the same arguments."""
    names = [row["name"] for row in native().op_table()]
    missing = []
    for name in names:
        base, _, overload = name.partition(".")
        in_place = base + "_" + ("." + overload if overload else "")
        try:
            schema = register.of(in_place)
        except RuntimeError:
            continue
        composite = register._is_composite(f"aten::{in_place}")
        if not composite and schema.written == schema.args[:1] and in_place not in kernels:
            missing.append(in_place)
    assert missing == []


# ---- numbers and other arguments ----


@pytest.mark.parametrize("number", [2, 2.5, True, -3, 1e300, float("inf")])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bool, torch.float64])
def test_wrapped_numbers_promote_as_on_the_cpu(number, dtype):
    t = torch.tensor([1, 0, 1], dtype=dtype)
    want, got = t + number, t.to("xla") + number
    assert got.dtype == want.dtype
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.uint8, torch.bool])
def test_cpu_tensors_without_dimensions_mix(dtype):
    zero_dim = torch.tensor(1.0).to(dtype)
    for t in (torch.tensor([1, 2]), torch.tensor([0.5, 2])):
        want, got = t * zero_dim, t.to("xla") * zero_dim
        assert got.dtype == want.dtype and torch.equal(got.cpu(), want)


def test_the_number_of_a_tensor():
    """torch asks CPU tensors that it has made of numbers for it; other tensors have none."""
    assert torch.tensor(3)._wrapped_number == 3 and torch.tensor(2.5, dtype=torch.float64)._wrapped_number == 2.5
    assert torch.tensor(True)._wrapped_number is True and torch.tensor(1j, dtype=torch.complex128)._wrapped_number == 1j
    for other in (torch.tensor(2.5), torch.tensor([3]), torch.tensor(3, device="xla"), torch.tensor(3, device="meta")):
        assert not hasattr(other, "_wrapped_number")
    marked = torch.tensor(3)
    marked._wrapped_number = "mine"
    assert marked._wrapped_number == "mine"


@pytest.mark.parametrize("value", [0.0, 1.0, -1.5, 65504.0, 6e-8, 2.0**-14, float("inf"), -0.0])
def test_half_values_are_read_exactly(value):
    for dtype in (torch.float16, torch.bfloat16):
        zero_dim = torch.tensor(value, dtype=dtype)
        got = torch.zeros(1, dtype=torch.float64, device="xla") + zero_dim
        assert got.item() == zero_dim.item()
        assert (
            (torch.full((1,), 1.0, dtype=torch.float64, device="xla") * torch.tensor(float("nan"), dtype=dtype))
            .isnan()
            .item()
        )


def test_sizes_beyond_the_buffer_on_the_stack():
    parts = [torch.full((1,), float(i)) for i in range(500)]
    want = torch.cat(parts)
    assert torch.equal(torch.cat([p.to("xla") for p in parts]).cpu(), want)


def test_tensors_without_elements():
    x = torch.zeros(0, 3, device="xla")
    assert (x + 1).shape == (0, 3) and x.sum().item() == 0 and native().fast.handle(x) > 0
    x.add_(1)
    assert torch.cat([x, x]).shape == (0, 3)


# ---- destinations ----


def test_in_place_returns_the_tensor_and_bumps_its_version():
    x = torch.zeros(3, device="xla")
    version = x._version
    assert x.add_(1) is x and x._version == version + 1 and x.tolist() == [1, 1, 1]


def test_in_place_checks():
    x = torch.zeros(2, device="xla")
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        x.add_(torch.zeros(3, 2, device="xla"))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.zeros(2, dtype=torch.int64, device="xla").add_(0.5)
    with pytest.raises(RuntimeError):
        torch.zeros(1, device="xla").expand(3).add_(1)


def test_out_takes_its_size():
    x = xla([1.0, 2.0])
    out = torch.empty(0, device="xla")
    assert torch.add(x, x, out=out) is out and out.tolist() == [2, 4]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.add(xla([[1.0], [2.0]]), x, out=out)
    assert out.shape == (2, 2)
    strided = torch.zeros(2, 2, device="xla").t()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.add(xla([[1.0, 2.0], [3.0, 4.0]]), 0, out=strided)
    assert strided.stride() == (1, 2) and strided.tolist() == [[1, 2], [3, 4]]


def test_out_with_two_results():
    x = xla([[3.0, 1.0], [2.0, 5.0]])
    values, indices = torch.empty(0, device="xla"), torch.empty(0, dtype=torch.int64, device="xla")
    result = torch.max(x, 1, out=(values, indices))
    assert result[0] is values and values.tolist() == [3, 5] and indices.tolist() == [0, 1]


def test_batch_norm_updates_its_statistics():
    torch.manual_seed(0)
    x = torch.randn(4, 3, 5)
    ours, theirs = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    ours.to("xla")
    for train in (True, False):
        ours.train(train), theirs.train(train)
        torch.testing.assert_close(ours(x.to("xla")).cpu(), theirs(x))
    torch.testing.assert_close(ours.running_mean.cpu(), theirs.running_mean)
    torch.testing.assert_close(ours.running_var.cpu(), theirs.running_var)
    assert ours.num_batches_tracked.item() == 1
    plain = torch.nn.functional.batch_norm(x.to("xla"), None, None, training=True)
    torch.testing.assert_close(plain.cpu(), torch.nn.functional.batch_norm(x, None, None, training=True))


# ---- devices ----


@pytest.mark.parametrize("swap", [False, True])
def test_tensors_of_two_devices(swap):
    pair = [torch.ones(2, device="xla"), torch.ones(2)]
    if swap:
        pair.reverse()
    with pytest.raises(RuntimeError, match="found at least two devices, xla:0 and cpu!"):
        torch.add(*pair)
    with pytest.raises(RuntimeError, match="device"):
        torch.cat(pair)
    with pytest.raises(RuntimeError, match="meta"):
        torch.mul(pair[swap], torch.ones(2, device="meta"))


def test_a_cpu_tensor_is_no_destination_of_an_xla_op():
    with pytest.raises(RuntimeError):
        torch.zeros(()).add_(torch.ones((), device="xla"))
    with pytest.raises(RuntimeError):
        torch.add(torch.ones(2, device="xla"), 1, out=torch.empty(2))


def test_indices_may_be_on_the_cpu():
    x = torch.arange(6.0).view(3, 2)
    i = torch.tensor([2, 0])
    assert torch.equal(x.to("xla")[i].cpu(), x[i])
    y = x.to("xla")
    y[i] = 7.0
    x[i] = 7.0
    assert torch.equal(y.cpu(), x)


def test_errors_have_the_class_that_the_core_names():
    x = torch.zeros(2, 3, device="xla")
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.sum(x, 5)
    with pytest.raises(RuntimeError):
        x @ x


def test_an_invalid_device_index():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.zeros(2, device="xla:99")


# ---- lazy bits ----


def test_lazy_conjugation_is_honoured():
    z = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, 2.0]])
    x = z.to("xla")
    assert x.conj().is_conj()
    for f in (
        lambda t: t.conj().clone(),
        lambda t: t.conj() + 1,
        lambda t: t.conj() @ t,
        lambda t: t @ t.mH,
        lambda t: t.conj().imag,
        lambda t: t.conj().imag.clone(),
        lambda t: torch.zeros_like(t).copy_(t.conj()),
        lambda t: torch.view_as_real(t.conj().resolve_conj()),
    ):
        want = f(z)
        torch.testing.assert_close(f(x).cpu().resolve_conj().resolve_neg(), want.resolve_conj().resolve_neg())
    y, c = torch.zeros_like(x), torch.zeros_like(z)
    y.conj().copy_(x)
    c.conj().copy_(z)
    torch.testing.assert_close(y.cpu(), c)


def test_plain_kernels_do_not_look_for_lazy_bits(kernels, monkeypatch):
    """Only ops that torch leaves to their kernel pay for the question."""
    asked = []
    monkeypatch.setattr(mixed, "fall_back", lambda *a: asked.append(a))
    kernels["add.Tensor"](torch.ones(2, device="xla"), 1)
    assert asked == []


# ---- foreach ----

LISTS = [
    ("_foreach_add_", (1.5,)), ("_foreach_mul_", (2,)), ("_foreach_add_", ([1.0, 2.0],)), ("_foreach_sub_", ("list",)),
    ("_foreach_addcdiv_", ("list", "list", [0.1, 0.2])), ("_foreach_addcmul_", ("list", "list", 0.5)),
    ("_foreach_lerp_", ("list", 0.25)), ("_foreach_zero_", ()), ("_foreach_sqrt_", ()), ("_foreach_copy_", ("list",)),
    ("_foreach_maximum_", (0.5,)), ("_foreach_clamp_max_", ("list",)), ("_foreach_div_", ("list",)),
    ("_foreach_addcmul_", ("list", "list", torch.tensor([0.1, 0.2]))),
    ("_foreach_pow_", (2.0,)), ("_foreach_neg_", ()),
]  # fmt: skip


@pytest.mark.parametrize("name, args", LISTS, ids=[f"{n}{i}" for i, (n, _) in enumerate(LISTS)])
def test_foreach_in_place(name, args):
    def fresh():
        torch.manual_seed(0)
        return [torch.rand(3) + 0.5, torch.rand(2, 2) + 0.5]

    results = []
    for device in ("cpu", "xla"):
        tensors = [t.to(device) for t in fresh()]
        others = [(t + 1).to(device) for t in fresh()]
        getattr(torch, name)(tensors, *(others if a == "list" and isinstance(a, str) else a for a in args))
        results.append([t.cpu() for t in tensors])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize(
    "numbers, leaves", [(0.3, 1), ([0.3, 0.3, 0.3], 1), ([0.3, 0.7, 0.3], 2), ([0.3, 0.7, 0.9], 3)]
)
def test_equal_numbers_of_a_foreach_call_are_one(numbers, leaves):
    tensors = [torch.full((2,), float(i), device="xla") for i in range(1, 4)]
    torch_go_xla.sync()
    for calls in (1, 2):  # those of another call are others
        torch._foreach_mul_(tensors, numbers)
        assert torch_go_xla._XLAC._get_xla_tensors_text(tensors).count("(argument)") == calls * leaves
    factors = numbers if isinstance(numbers, list) else [numbers] * 3
    for i, (t, x) in enumerate(zip(tensors, factors, strict=True), 1):
        torch.testing.assert_close(t.cpu(), torch.full((2,), i * x * x))


@pytest.mark.parametrize(
    "name, args", [("_foreach_norm", ()), ("_foreach_norm", (1,)), ("_foreach_add", (2,)), ("_foreach_max", ())]
)
def test_foreach_results(name, args):
    tensors = [torch.tensor([1.0, -4.0]), torch.tensor([[3.0]])]
    want = getattr(torch, name)(tensors, *args)
    got = getattr(torch, name)([t.to("xla") for t in tensors], *args)
    torch.testing.assert_close([t.cpu() for t in got], list(want))


def test_foreach_is_one_dispatch(kernels):
    assert "_foreach_add_.List" in kernels and "_foreach_lerp_.Scalar" in kernels


def test_foreach_refuses_before_it_writes():
    tensors = [torch.zeros(2, device="xla"), torch.zeros(2, device="xla")]
    others = [torch.ones(2, device="xla"), torch.ones(2)]
    with pytest.raises(RuntimeError):
        torch._foreach_add_(tensors, others)
    assert tensors[0].tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="same number of"):
        torch._foreach_add_(tensors, others[:1])


def test_foreach_copy_from_the_cpu():
    tensors = [torch.zeros(2, device="xla"), torch.zeros(1, device="xla")]
    torch._foreach_copy_(tensors, [torch.ones(2), torch.ones(1)])
    assert tensors[0].tolist() == [1, 1] and tensors[1].tolist() == [1]


# ---- the op table ----


def test_a_table_for_another_torch_is_refused():
    unary = "(Tensor self) -> Tensor"
    stated = {"relu": unary, "add.Tensor": unary, "nope": "() -> Tensor", "square": unary}
    table = [rows.Row(name, schema) for name, schema in stated.items()]
    with pytest.raises(register.SchemaMismatch) as e:
        register.read_table(table)
    text = str(e.value)
    assert "add.Tensor:" in text and "torch  aten::add.Tensor(Tensor self, Tensor other" in text
    assert "nope: torch has no such overload" in text and "square: torch makes it of other ops" in text
    assert "relu" not in text


def test_rows_that_an_older_torch_lacks_or_names_otherwise(monkeypatch):
    renamed, of_other_type = "(Tensor other_name) -> Tensor", "(Scalar self) -> Tensor"
    table = [
        rows.Row("relu", renamed, since="2.14"),
        rows.Row("nope", "() -> Tensor", since="2.14"),
        rows.Row("neg", of_other_type, since="2.14"),
    ]
    monkeypatch.setattr(torch, "__version__", "2.13.1+cpu")
    with pytest.raises(register.SchemaMismatch, match="neg:") as e:
        register.read_table(table)
    assert "relu" not in str(e.value) and "nope" not in str(e.value)
    assert list(register.read_table(table[:2])) == ["relu"]
    monkeypatch.setattr(torch, "__version__", "2.14.0")
    with pytest.raises(register.SchemaMismatch, match="(?s)relu:.*nope: torch has no such overload"):
        register.read_table(table[:2])


def test_source_locations():
    """The line of the caller travels with an op, past torch's and our own frames."""
    core = native()
    core.configure("XLA_IR_DEBUG", "1")
    try:
        line = sys._getframe().f_lineno + 1
        x = torch.nn.functional.relu(torch.ones(2, device="xla"))
        text = core.dump([core.fast.handle(x)], "stablehlo")
    finally:
        core.configure("XLA_IR_DEBUG", "0")
    assert f'"aten::relu"("{__file__}":{line}' in text
    assert "torch/nn" not in text
