"""The examples in docstrings run on the CPU device, and print what they say. An example imports what it uses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from build_support.public import PYTHON


def sources() -> dict[str, str]:
    """Return the texts of the modules that have examples; private ones define public names."""
    found = {}
    for path in sorted(p for p in PYTHON.rglob("*.py") if "_go" not in p.parts):
        text = path.read_text(encoding="utf-8")
        if ">>> " in text:
            found[".".join(path.relative_to(PYTHON).with_suffix("").parts).removesuffix(".__init__")] = text
    return found


@pytest.mark.parametrize(("kind", "devices"), [("single", "1"), ("spmd", "4")])
def test_examples_run(kind: str, devices: str, ok: Callable[..., str]) -> None:
    ok("pages/examples.py", kind, *sources(), CPU_NUM_DEVICES=devices)


def test_few_examples_do_not_run() -> None:
    skipped = [line.strip() for text in sources().values() for line in text.splitlines() if "doctest: +SKIP" in line]
    assert skipped == [
        '>>> y = xb.call_jax(f, (x, 3.0))["y"]  # doctest: +SKIP',
        ">>> y.sum().backward()  # doctest: +SKIP",
        ">>> x.grad.tolist()  # doctest: +SKIP",
        '>>> torch_go_xla.register_ffi_target("scale", ctypes.CDLL("libscale.so").Scale)  # doctest: +SKIP',
        '>>> double(torch.ones(2, device="xla")).tolist()  # doctest: +SKIP',
        '>>> xr.initialize_cache("/tmp/programs")  # doctest: +SKIP',
    ], "JAX, a library that must be built, and a call that must come before the device opens"
