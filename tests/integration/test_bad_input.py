"""A user's wrong moves: each a clear error of the class that torch raises, and the process lives."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import null_device
import processes
import pytest
import torch

import torch_go_xla.core.xla_model as xm


def x(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(sizes, dtype=dtype, device="xla")


@pytest.fixture(scope="module")
def null_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return null_device.build(tmp_path_factory.mktemp("nullplugin"))


# ---- devices ----


def test_wrong_device_index() -> None:
    with pytest.raises(RuntimeError, match=r"xla:7.*this process has 1 xla device"):
        torch.ones(2, device="xla:7")
    with pytest.raises(RuntimeError, match="xla:7"):
        xm.xla_device(7)


@pytest.mark.parametrize(
    ("env", "cls", "words"),
    [
        ({"PJRT_DEVICE": "WARP"}, "ValueError", "WARP"),
        ({"PJRT_LIBRARY_PATH": "/nowhere/libpjrt.so"}, "RuntimeError", "/nowhere/libpjrt.so"),
        ({"PJRT_LIBRARY_PATH": __file__}, "RuntimeError", "test_bad_input.py"),
        ({"PJRT_LIBRARY_PATH": "relative.so"}, "RuntimeError", "absolute"),
        ({"CPU_NUM_DEVICES": "many"}, "ValueError", "CPU_NUM_DEVICES"),
        ({"CPU_NUM_DEVICES": "0"}, "ValueError", "CPU_NUM_DEVICES"),
    ],
)
def test_device_that_cannot_be_opened(ok, env, cls, words) -> None:
    out = ok(
        "bad_input/device_that_cannot_be_opened.py",
        **env,
    )
    lines = out.strip().splitlines()
    assert lines[-1] == "alive 2.0"
    assert out.count(cls) >= 2 and words in out, out


def test_library_without_the_entry_point(ok, tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int nothing;\n")
    library = tmp_path / "libempty.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    out = ok(
        "bad_input/library_without_the_entry_point.py",
        PJRT_LIBRARY_PATH=str(library),
    )
    assert "GetPjrtApi" in out and str(library) in out


@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("1.0", "RuntimeError: .*its API is 1.0, this client speaks 0.57 to 0.x"),
        ("0.40", "RuntimeError: .*its API is 0.40, older than 0.57"),
        ("0.114", r"\['NULL:0'\]"),
    ],
    ids=["newer", "older", "newer, and compatible"],
)
def test_library_of_another_version(ok, null_plugin: Path, version: str, answer: str) -> None:
    out = ok(
        "bad_input/library_of_another_version.py",
        PJRT_DEVICE=None,
        PJRT_LIBRARY_PATH=str(null_plugin),
        NULL_PJRT_API=version,
    )
    assert re.fullmatch(answer, out.strip()), out


def test_start_up_writes_nothing(python) -> None:
    done = python("bad_input/start_up_writes_nothing.py", XLA_FLAGS=None)
    assert (done.code, done.out, done.err) == (0, "3.0\n", "")


def test_unknown_compiler_flag(python) -> None:
    done = python(
        "bad_input/unknown_compiler_flag.py",
        XLA_FLAGS="--xla_no_such_flag=1",
    )
    assert done.code == 0, done.err
    assert "xla_no_such_flag" in done.out


# ---- operands: the class and the words of torch on the CPU, at the call ----


def zeros(device: str, *sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, device=device)


WRONG = {
    "shapes that do not broadcast": lambda d: torch.ones(2, 3, device=d) + torch.ones(4, device=d),
    "in place into a smaller tensor": lambda d: torch.ones(2, device=d).add_(torch.ones(2, 2, device=d)),
    "float into int": lambda d: torch.ones(2, dtype=torch.int64, device=d).add_(1.5),
    "matrix product": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "dimension out of range": lambda d: torch.ones(2, 3, device=d).sum(5),
    "dtype of a linear layer": lambda d: torch.nn.functional.linear(
        torch.ones(2, 3, device=d), torch.ones(4, 3, dtype=torch.float64, device=d)
    ),
    "impossible view": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "index of a dimension": lambda d: torch.ones(2, 3, device=d)[5],
    "write to an expanded tensor": lambda d: torch.ones(1, device=d).expand(4).add_(1),
    "bool minus bool": lambda d: torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d),
    "cat of different ranks": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, device=d)]),
    "item of several": lambda d: torch.ones(2, device=d).item(),
    "negative size": lambda d: torch.empty(-1, device=d),
    "where of an int": lambda d: torch.where(
        torch.ones(2, dtype=torch.int32, device=d), torch.ones(2, device=d), torch.ones(2, device=d)
    ),
    "resize of a leaf": lambda d: torch.ones(2, device=d, requires_grad=True).resize_(4),
    "in place on a leaf": lambda d: torch.ones(2, device=d, requires_grad=True).add_(1),
    "conv channels": lambda d: torch.nn.functional.conv2d(
        torch.ones(1, 3, 8, 8, device=d), torch.ones(4, 2, 3, 3, device=d)
    ),
    "sizes that differ in two dimensions": lambda d: torch.add(zeros(d, 2, 2, 4, 4), zeros(d, 2, 2)),
    "cat of different sizes": lambda d: torch.cat([zeros(d, 2, 2), zeros(d, 5, 1)]),
    "rounding mode": lambda d: torch.div(zeros(d, 2), 2, rounding_mode="bad"),
    "flip of a dimension twice": lambda d: torch.flip(zeros(d, 2, 2), dims=[0, 1, 0, -1]),
    "full of a negative size": lambda d: torch.full([2, -2, 2], 1.5, device=d),
    "gather by an index of another rank": lambda d: torch.gather(zeros(d, 2, 2), 1, zeros(d, 2, 2, 2).long()),
    "gather by a larger index": lambda d: torch.gather(zeros(d, 2, 2, 2, 2), 1, zeros(d, 4, 2, 4, 2).long()),
    "random numbers of an empty interval": lambda d: zeros(d, 10).random_(3, 1),
    "random numbers beyond the type": lambda d: zeros(d, 10).half().random_(3, 65506),
    "uniform numbers of an empty interval": lambda d: zeros(d, 5).uniform_(5.0, 2.0),
    "mm of three dimensions": lambda d: torch.mm(zeros(d, 2, 2, 2), zeros(d, 2, 2)),
    "mm of different sizes": lambda d: torch.mm(zeros(d, 2, 5), zeros(d, 8, 2)),
    "bmm of a matrix": lambda d: torch.bmm(zeros(d, 3, 4), zeros(d, 2, 4, 3)),
    "bmm with a matrix": lambda d: torch.bmm(zeros(d, 2, 3, 4), zeros(d, 4, 3)),
    "bmm of different batches": lambda d: torch.bmm(zeros(d, 4, 3, 4), zeros(d, 2, 4, 3)),
    "bmm of different sizes": lambda d: torch.bmm(zeros(d, 2, 3, 8), zeros(d, 2, 4, 3)),
    "baddbmm of different sizes": lambda d: torch.baddbmm(zeros(d, 3, 3), zeros(d, 2, 3, 8), zeros(d, 2, 4, 3)),
    "roll without shifts": lambda d: torch.roll(zeros(d, 2, 2), []),
    "roll with shifts alone": lambda d: torch.roll(zeros(d, 2, 2), [2, 2]),
    "roll with fewer dimensions": lambda d: torch.roll(zeros(d, 2, 2), [2, 2], [0]),
    "bytes that overflow": lambda d: torch.empty(1 << 62, 4, device=d),
    "strides that overflow": lambda d: torch.empty_strided((2, 3), (1 << 62, 1), device=d),
    "a resize that overflows": lambda d: zeros(d, 2).resize_(1 << 61, 2),
    "a result that overflows": lambda d: zeros(d, 1).expand(1 << 40).unsqueeze(1) + zeros(d, 1).expand(1 << 40),
    "trace of three dimensions": lambda d: torch.trace(zeros(d, 2, 2, 2)),
    "clamp without bounds": lambda d: torch.ops.aten.clamp.default(zeros(d, 2)),
    "kernel of a pooling": lambda d: torch.nn.functional.avg_pool3d(zeros(d, 1, 4, 4, 4), [2, 2]),
    "stride of a pooling": lambda d: torch.nn.functional.avg_pool3d(zeros(d, 1, 4, 4, 4), 2, [1, 2]),
    "padding of a pooling": lambda d: torch.nn.functional.avg_pool3d(zeros(d, 1, 4, 4, 4), 2, padding=[1, 2]),
}


def test_a_shape_of_too_many_elements(ok) -> None:
    out = ok("bad_input/a_shape_of_too_many_elements.py")
    assert out.count("overflow") == 3 and out.count("5.0") == 3, out


@pytest.mark.parametrize(
    "op",
    [
        lambda x, n: torch.mvlgamma(x, n),
        lambda x, n: torch.special.multigammaln(x, n),
        lambda x, n: x.clone().mvlgamma_(n),
        lambda x, n: torch.mvlgamma(x, n, out=x.clone()),
    ],
)
def test_more_terms_than_memory(op) -> None:
    """Where torch cannot allocate the terms it raises a RuntimeError; here their sum would take minutes."""
    with pytest.raises(RuntimeError, match="mvlgamma: can't allocate memory for 2147483648 terms of each of 900"):
        op(x(900) * 9, 1 << 31)
    a = torch.rand(3, 3) + 9
    torch.testing.assert_close(op(a.to("xla"), 4).cpu(), op(a, 4))
    a.requires_grad_()
    (want,) = torch.autograd.grad(torch.mvlgamma(a, 4).sum(), a)
    b = a.detach().to("xla").requires_grad_()
    (got,) = torch.autograd.grad(torch.mvlgamma(b, 4).sum(), b)
    torch.testing.assert_close(got.cpu(), want)


def test_a_degree_that_floats_cannot_count_to(ok) -> None:
    """The recurrence ends: a counter in 32-bit floats stays at 2 to the power of 24."""
    ok(
        """
import torch, torch_go_xla
x, n = torch.tensor([0.5]), (1 << 24) + 10
print(torch.special.legendre_polynomial_p(x.to("xla"), n).item())
""",
        timeout=120,
    )


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operands(name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 (the class is what is compared)
        WRONG[name]("cpu")
    with pytest.raises(expected.type) as got:
        WRONG[name]("xla")
    assert str(got.value).partition("\n")[0] == str(expected.value).partition("\n")[0]


def test_modified_in_place_error() -> None:
    a = torch.ones(3, device="xla", requires_grad=True)
    b = a * 2
    c = b * b
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


def test_mixed_devices() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x(3) + torch.ones(3)
    assert (x(3) + torch.tensor(2.0)).tolist() == [3, 3, 3]  # a 0-dim CPU tensor is a number


def test_numpy_of_a_device_tensor() -> None:
    with pytest.raises(TypeError, match="convert xla:0 device type tensor to numpy"):
        x(3).numpy()


# ---- processes ----


def test_op_in_a_forked_child(ok) -> None:
    out = ok(
        "bad_input/op_in_a_forked_child.py",
    )
    assert "ForkedProcessError" in out and "spawn" in out and out.strip().endswith("[3.0, 3.0, 3.0]")


def test_dataloader_workers(ok) -> None:
    out = ok(
        "bad_input/dataloader_workers.py",
    )
    assert out.strip() == "496.0"


@pytest.mark.compiled
@pytest.mark.longer
def test_ctrl_c_while_the_compiler_works() -> None:
    """KeyboardInterrupt comes while a value is waited for, and the tensors are usable afterwards."""
    program = processes.command("bad_input/ctrl_c.py")
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout is not None
        assert p.stdout.readline().strip() == "ready"
        time.sleep(0.7)
        p.send_signal(signal.SIGINT)
        rest = p.stdout.read().split()
    assert rest == ["interrupted", "64.0"]


def test_ctrl_c_while_the_device_works(ok, null_plugin: Path) -> None:
    """KeyboardInterrupt comes from every wait for a device that takes ten minutes."""
    assert ok("bad_input/waits.py", null_plugin, timeout=120).splitlines() == ["interrupted"] * 3 + ["[2.0, 2.0]"]


# ---- saving ----


def test_save_into_a_missing_directory(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        xm.save({"x": x(3)}, tmp_path / "nowhere" / "a.pt")


def test_save_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    xm.save({"x": x(3)}, path)
    before = path.read_bytes()

    class Unwilling:
        def __reduce__(self):
            raise ValueError("cannot be pickled")

    with pytest.raises(ValueError, match="cannot be pickled"):
        xm.save({"x": x(3) * 2, "y": Unwilling()}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a device that is always full")
def test_save_to_a_full_disk() -> None:
    with open("/dev/full", "wb", buffering=0) as full, pytest.raises((OSError, RuntimeError)):
        xm.save({"x": torch.ones(100_000, device="xla")}, full)
    assert x(2).tolist() == [1, 1]


def test_a_disk_that_fills_up_keeps_the_old_file(ok, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk."""
    out = ok("bad_input/a_disk_that_fills_up.py", tmp_path / "a.pt")
    refused, files, saved = out.splitlines()
    assert refused.startswith("refused:") and files == "['a.pt']" and saved == "[2.0, 2.0, 2.0]"
