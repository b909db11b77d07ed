"""Tensors made from numbers equal torch on the CPU."""

import warnings

import pytest
import torch
from cpu_reference import Batch, opinfos

import torch_go_xla
import torch_go_xla.debug.metrics as metrics

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8)

OPS = """
    arange linspace logspace eye full full_like zeros zeros_like ones ones_like scalar_tensor new_full new_zeros
    new_ones tril_indices triu_indices
""".split()

ROWS = """
    arange range linspace logspace eye full scalar_tensor zeros ones full_like zeros_like ones_like new_full new_zeros
    new_ones tril_indices triu_indices
""".split()


def add(batch, label, make, *args, **kwargs):
    """Compare what make gives on both devices."""
    want = make(*args, **kwargs, device="cpu")
    got = make(*args, **kwargs, device="xla")
    assert got.dtype == want.dtype, label
    assert got.shape == want.shape, label
    batch.pending.append((label, got, want))


@pytest.mark.parametrize("name", OPS)
def test_opinfo(name):
    # A half type's points of a line are rounded once here, by torch after every step.
    batch = Batch({torch.bfloat16: (1.6e-2, 2e-2), torch.float16: (4e-3, 4e-3)})
    for op in opinfos(name):
        for dtype in (*TYPES, torch.bool, torch.complex64):
            if dtype not in op.supported_dtypes("cpu") or name == "logspace" and not dtype.is_floating_point:
                continue
            for i, s in enumerate(list(op.sample_inputs("cpu", dtype))[:7]):
                kwargs = {k: v for k, v in s.kwargs.items() if k != "device"}
                if name.startswith("new_") or name.endswith("_like"):
                    batch.add(f"{name} {dtype} {i}", op, s.input, *s.args, **kwargs)
                else:
                    add(batch, f"{op.formatted_name} {dtype} {i}", op.op, s.input, *s.args, **kwargs)
    batch.check()


def test_errors():
    cases = [
        lambda d: torch.arange(0, 5, 0, device=d),
        lambda d: torch.arange(0, 5, -1, device=d),
        lambda d: torch.arange(0, float("inf"), device=d),
        lambda d: torch.arange(0, float("nan"), device=d),
        lambda d: torch.arange(5, dtype=torch.bool, device=d),
        lambda d: torch.linspace(0, 1, -1, device=d),
        lambda d: torch.linspace(0, 1j, 3, dtype=torch.float32, device=d),
        lambda d: torch.linspace(torch.zeros(2, device=d), 1, 3, device=d),
        lambda d: torch.linspace(0, 1, 3, dtype=torch.bool, device=d),
        lambda d: torch.eye(-1, device=d),
        lambda d: torch.eye(2, -1, device=d),
        lambda d: torch.full((-1,), 1, device=d),
        lambda d: torch.full((2,), 2**40, dtype=torch.int32, device=d),
        lambda d: torch.full((2,), 1e300, dtype=torch.float32, device=d),
        lambda d: torch.full((2,), 300, dtype=torch.uint8, device=d),
        lambda d: torch.full((2,), 1j, dtype=torch.float32, device=d),
        lambda d: torch.full((2,), float("nan"), dtype=torch.int64, device=d),
        lambda d: torch.zeros(2, -3, device=d),
        lambda d: torch.tril_indices(-1, 2, device=d),
        lambda d: torch.tril_indices(2, 2, dtype=torch.float32, device=d),
    ]
    for k, case in enumerate(cases):
        errors = []
        for device in ("cpu", "xla"):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - class and text are compared
                case(device)
            errors.append(caught.value)
        assert isinstance(errors[1], type(errors[0])), f"case {k}: {errors}"
        assert str(errors[1]) == str(errors[0]), f"case {k}"


def test_ranges():
    batch = Batch()
    for args in ((5,), (2, 9), (0, 10, 3), (9, 0, -2), (3, 3), (0.5, 3), (0, 1, 0.1), (-5, 5, 2.5), (2**40, 2**40 + 3)):
        add(batch, f"{args}", torch.arange, *args)
        for dtype in TYPES:
            if max(map(abs, args)) < 100 and min(args) >= 0:
                add(batch, f"{args} {dtype}", torch.arange, *args, dtype=dtype)
    add(batch, "long", torch.arange, 0, 3e7, 1e6 / 3)
    add(batch, "large floats", torch.arange, 2.0**24, 2.0**24 + 9)
    add(batch, "bounds as fractions", torch.arange, 1, 2.5, dtype=torch.int32)
    add(batch, "true", torch.arange, True)
    batch.check()


def test_spaces():
    batch = Batch()
    for steps in (0, 1, 2, 5, 8):
        add(batch, f"linspace {steps}", torch.linspace, -1, 4.5, steps)
        add(batch, f"integers {steps}", torch.linspace, -3, 8, steps, dtype=torch.int32)
        add(batch, f"complex {steps}", torch.linspace, 1j, 2, steps)
        add(batch, f"logspace {steps}", torch.logspace, -1, 2, steps, base=2.0)
        for device in ("cpu", "xla"):
            ends = torch.tensor([-1.0, 4.5], device=device)
            got = torch.linspace(ends[0], ends[1], steps, device="xla")
            batch.pending.append((f"ends on {device}", got, torch.linspace(-1, 4.5, steps)))
    batch.check()


def test_ends_need_no_new_program():
    """The ends of a line are arguments of the program, like every number that changes."""

    def line(end):
        out = torch.linspace(0, end, 6, device="xla") + torch.full((6,), end, device="xla")
        torch_go_xla.sync()
        return out.cpu()

    line(3.25)
    before = metrics.counter_value("UncachedCompile")
    assert before
    torch.testing.assert_close(line(7.75), torch.linspace(0, 7.75, 6) + 7.75)
    assert metrics.counter_value("UncachedCompile") == before


def test_triangle_indices():
    batch = Batch()
    for rows, cols in ((0, 3), (3, 0), (4, 3), (3, 7)):
        for offset in (-9, -2, 0, 1, 9):
            add(batch, f"tril {rows} {cols} {offset}", torch.tril_indices, rows, cols, offset)
            add(batch, f"triu {rows} {cols} {offset}", torch.triu_indices, rows, cols, offset)
    batch.check()


def test_default_types():
    batch = Batch()
    torch.set_default_dtype(torch.float64)
    try:
        for value in (1, 1.5, True, 1j):
            add(batch, f"full {value}", torch.full, (2,), value)
            add(batch, f"scalar {value}", torch.scalar_tensor, value if value != 1j else 2)
        add(batch, "eye", torch.eye, 2, 3)
        add(batch, "arange", torch.arange, 0, 1, 0.25)
        add(batch, "linspace", torch.linspace, 0, 1, 4)
    finally:
        torch.set_default_dtype(torch.float32)
    batch.check()


PARTS = {
    "narrow": lambda x: x.narrow(1, 1, 2),
    "transposed": lambda x: x[:2].t(),
    "column": lambda x: x[:, 1],
    "flat": lambda x: x[2],
}
FILLS = {
    "arange": lambda out: torch.arange(0, 8, out=out),
    "arange of another size": lambda out: torch.arange(0, 4, out=out),
    "range": lambda out: torch.range(0, 7, out=out),
    "linspace": lambda out: torch.linspace(1, 8, 8, out=out),
    "logspace": lambda out: torch.logspace(0, 3, 4, out=out),
    "eye": lambda out: torch.eye(2, 4, out=out),
    "full": lambda out: torch.full((4,), 3.0, out=out),
    "zeros": lambda out: torch.zeros((4, 2), out=out),
    "ones": lambda out: torch.ones((4, 2), out=out),
    "randperm": lambda out: torch.randperm(1, out=out),
}


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("part", PARTS)
def test_out_is_a_part_of_a_tensor(fill, part):
    """What out= leaves in the whole storage, its shape and the warnings are torch's."""

    def run(device):
        whole = torch.full((4, 4), 9.0, device=device)
        out = PARTS[part](whole)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert FILLS[fill](out) is out
        resized = any("will be resized" in str(w.message) or "was resized" in str(w.message) for w in caught)
        return whole.tolist(), out.shape, out.stride(), resized

    assert run("xla") == run("cpu")


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integers_of_a_line(dtype):
    for start, end, steps in ((1, 127, 50), (127, 1, 50), (0, 100, 33), (3, 120, 14), (0, 49, 50), (7, 70, 22)):
        want = torch.linspace(start, end, steps, dtype=dtype)
        assert torch.linspace(start, end, steps, dtype=dtype, device="xla").cpu().equal(want), (start, end, steps)
