"""The ops of ``python -m benchmarks.op_speed``: an op, a type and a size each, for torch's devices and for JAX.

Operands are made by numpy from shapes, so that all subjects have the same. A function gets `torch` or `jax.numpy`,
then the operands; where the two differ JAX has a function of its own, or none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .subjects import Subject

# What a sample takes at least, in seconds: ops are repeated, so that caches and threads are warm, as in a loop.
_LEAST = 30e-3

# Torch's namespace or JAX's, then the operands.
Op = Callable[..., Any]


@dataclass(frozen=True)
class OpCase:
    """An op on operands of these shapes; "int64" operands hold 0 to 999, "spd" ones are positive definite."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    op: Op
    dtype: str = "float32"
    jax: Op | None = None  # what JAX computes; None: the same function, of jax.numpy
    has_jax: bool = True
    grads: bool = False  # computes the gradients of all operands too
    spd: bool = False

    @property
    def key(self) -> str:
        """The name of the case, with its type and sizes."""
        return f"{self.name} {self.dtype} {', '.join('×'.join(map(str, s)) or '1' for s in self.shapes)}"


def _pointwise() -> Iterator[OpCase]:
    for name in ("sin", "cos", "exp", "log", "tanh", "sqrt", "abs", "log1p", "floor", "square"):
        for n in (1 << 12, 1 << 20):
            yield OpCase(name, ((n,),), lambda t, x, f=name: getattr(t, f)(x))
        yield OpCase(name, ((1 << 20,),), lambda t, x, f=name: getattr(t, f)(x), "bfloat16")
    for name in ("erf", "erfinv", "sigmoid", "gelu", "silu"):
        yield OpCase(name, ((1 << 20,),), *_special(name))
    for name in ("add", "multiply", "maximum", "pow"):
        yield OpCase(name, ((1 << 20,), (1 << 20,)), lambda t, x, y, f=name: getattr(t, f)(t.abs(x), y))
    yield OpCase("where", ((1 << 20,), (1 << 20,)), lambda t, x, y: t.where(x > 0, x, y))


def _special(name: str) -> tuple[Op, str, Op]:
    def torchs(t: Any, x: Any) -> Any:
        return getattr(t if name in ("erf", "erfinv", "sigmoid") else t.nn.functional, name)(x)

    def jaxs(_: Any, x: Any) -> Any:
        if name in ("erf", "erfinv"):
            return getattr(_lax(), name.replace("inv", "_inv"))(x)
        return getattr(_nn(), name)(x)

    return torchs, "float32", jaxs


def _reductions() -> Iterator[OpCase]:
    for name in ("sum", "mean", "max", "prod"):
        for n in (1 << 12, 1 << 22):
            yield OpCase(f"{name} of all", ((n,),), lambda t, x, f=name: getattr(t, f)(x))
    for name in ("sum", "mean", "argmax", "logsumexp", "var"):
        for shape, axis in (((4096, 512), 1), ((4096, 512), 0)):
            yield OpCase(f"{name} of {'rows' if axis else 'columns'}", (shape,), *_reduction(name, axis))
    for name in ("cumsum", "cumprod"):
        for shape in ((1 << 20,), (4096, 64)):
            yield OpCase(name, (shape,), lambda t, x, f=name: getattr(t, f)(x, -1))
    yield OpCase("norm", ((1 << 20,),), lambda t, x: t.linalg.norm(x))
    yield OpCase("softmax", ((4096, 512),), lambda t, x: t.softmax(x, -1), jax=lambda j, x: _nn().softmax(x))
    yield OpCase(
        "log_softmax", ((64, 32000),), lambda t, x: t.log_softmax(x, -1), jax=lambda j, x: _nn().log_softmax(x)
    )


def _reduction(name: str, axis: int) -> tuple[Op, str, Op]:
    def jaxs(j: Any, x: Any) -> Any:
        return _nn().logsumexp(x, axis) if name == "logsumexp" else getattr(j, name)(x, axis)

    return (lambda t, x: getattr(t, name)(x, dim=axis)), "float32", jaxs


def _nn() -> Any:
    import jax

    return jax.nn


def _products() -> Iterator[OpCase]:
    for n in (64, 256, 1024):
        yield OpCase("matmul", ((n, n), (n, n)), lambda t, x, y: t.matmul(x, y))
    for dtype in ("bfloat16", "float16", "float64", "int64", "int32"):
        yield OpCase("matmul", ((512, 512), (512, 512)), lambda t, x, y: t.matmul(x, y), dtype)
    yield OpCase("matmul, batched", ((16, 128, 128), (16, 128, 128)), lambda t, x, y: t.matmul(x, y))
    yield OpCase("matmul by a vector", ((2048, 2048), (2048,)), lambda t, x, y: t.matmul(x, y))
    yield OpCase("linear of one row", ((1, 2048), (2048, 2048)), lambda t, x, w: t.matmul(x, w.T))
    yield OpCase("linear", ((256, 1024), (1024, 1024)), lambda t, x, w: t.matmul(x, w.T), grads=True)
    yield OpCase("einsum", ((32, 64, 64), (32, 64, 64)), lambda t, x, y: t.einsum("bij,bkj->bik", x, y))
    yield OpCase("outer", ((1024,), (1024,)), lambda t, x, y: t.outer(x, y))


def _linalg() -> Iterator[OpCase]:
    for n in (64, 256):
        yield OpCase("cholesky", ((n, n),), lambda t, x: t.linalg.cholesky(x), spd=True)
        yield OpCase("qr", ((n, n),), lambda t, x: t.linalg.qr(x))
        yield OpCase("svd", ((n, n),), lambda t, x: t.linalg.svd(x, full_matrices=False))
        yield OpCase("eigh", ((n, n),), lambda t, x: t.linalg.eigh(x), spd=True)
        yield OpCase("solve", ((n, n), (n, 4)), lambda t, x, y: t.linalg.solve(x, y))
        yield OpCase("inverse", ((n, n),), lambda t, x: t.linalg.inv(x))
        yield OpCase("determinant", ((n, n),), lambda t, x: t.linalg.det(x))
    yield OpCase("rfft", ((1 << 18,),), lambda t, x: t.fft.rfft(x))
    yield OpCase("rfft of rows", ((256, 1024),), lambda t, x: t.fft.rfft(x))


def _orders() -> Iterator[OpCase]:
    for dtype in ("float32", "int64"):
        for shape in ((1 << 18,), (256, 1024)):
            yield OpCase("sort", (shape,), lambda t, x: t.sort(x), dtype)
            yield OpCase("argsort", (shape,), lambda t, x: t.argsort(x), dtype)
    yield OpCase("topk", ((1 << 18,),), lambda t, x: t.topk(x, 10), jax=lambda j, x: _lax().top_k(x, 10))
    yield OpCase("median", ((1 << 18,),), lambda t, x: t.median(x))
    yield OpCase("kthvalue", ((1 << 18,),), lambda t, x: t.kthvalue(x, 100), has_jax=False)
    yield OpCase("unique", ((1 << 16,),), lambda t, x: t.unique(x), "int64", has_jax=False)
    yield OpCase("bincount", ((1 << 18,),), lambda t, x: t.bincount(x), "int64", has_jax=False)
    yield OpCase("nonzero", ((1 << 18,),), lambda t, x: t.nonzero(x > 500), "int64", has_jax=False)
    yield OpCase("masked_select", ((1 << 18,),), lambda t, x: x[x > 0], has_jax=False)


def _lax() -> Any:
    import jax

    return jax.lax


def _moves() -> Iterator[OpCase]:
    yield OpCase("NCHW to NHWC", ((16, 64, 56, 56),), lambda t, x: x.permute(0, 2, 3, 1).contiguous(),
                 jax=lambda j, x: x.transpose(0, 2, 3, 1))  # fmt: skip
    yield OpCase("transpose", ((2048, 2048),), lambda t, x: x.t().contiguous(), jax=lambda j, x: x.T)
    yield OpCase("cat", ((1 << 19,), (1 << 19,)), lambda t, x, y: t.concatenate((x, y)))
    yield OpCase("flip", ((1 << 20,),), lambda t, x: t.flip(x, (0,)))
    yield OpCase("roll", ((1 << 20,),), lambda t, x: t.roll(x, 100))
    yield OpCase("repeat", ((1 << 10, 64),), lambda t, x: t.tile(x, (4, 4)))
    yield OpCase("take rows", ((32000, 128), (4096,)), lambda t, x, i: x[_whole(t, i)])
    yield OpCase("to float64", ((1 << 20,),), lambda t, x: x.to(t.float64), has_jax=False)


def _whole(t: Any, i: Any) -> Any:
    return t.abs(i * 1000).to(t.int64) if hasattr(t, "nn") else t.abs(i * 1000).astype("int32")


def _convolutions() -> Iterator[OpCase]:
    def conv(rank: int, **options: Any) -> Op:
        return lambda t, x, w: getattr(t.nn.functional, f"conv{rank}d")(x, w, **options)

    def jaxs(rank: int, groups: int = 1, padding: int = 1) -> Op:
        return lambda _, x, w: _lax().conv_general_dilated(x, w, (1,) * rank, [(padding, padding)] * rank,
                                                           feature_group_count=groups)  # fmt: skip

    image = (8, 64, 56, 56)
    for grads in (False, True):
        yield OpCase("conv 3×3", (image, (64, 64, 3, 3)), conv(2, padding=1), jax=jaxs(2), grads=grads)
        yield OpCase("conv 1×1", (image, (128, 64, 1, 1)), conv(2), jax=jaxs(2, padding=0), grads=grads)
        yield OpCase(
            "depthwise 3×3", (image, (64, 1, 3, 3)), conv(2, padding=1, groups=64), jax=jaxs(2, 64), grads=grads
        )
        yield OpCase("grouped 3×3", (image, (64, 8, 3, 3)), conv(2, padding=1, groups=8), jax=jaxs(2, 8), grads=grads)
        yield OpCase("conv of 1 dimension", ((8, 64, 2048), (64, 64, 3)), conv(1, padding=1), jax=jaxs(1), grads=grads)
        yield OpCase("conv of 3 dimensions", ((2, 16, 16, 28, 28), (32, 16, 3, 3, 3)), conv(3, padding=1), jax=jaxs(3),
                     grads=grads)  # fmt: skip
        yield OpCase("transposed conv", (image, (64, 64, 3, 3)), lambda t, x, w: t.nn.functional.conv_transpose2d(x, w),
                     has_jax=False, grads=grads)  # fmt: skip
    yield OpCase("conv 3×3", (image, (64, 64, 3, 3)), conv(2, padding=1), "bfloat16", jax=jaxs(2))


def _networks() -> Iterator[OpCase]:
    for length, causal in ((128, True), (1024, True), (1024, False)):
        shape = (1, 8, length, 64)
        for grads in (False, True):
            yield OpCase(
                f"attention{', causal' * causal}", (shape,) * 3, _attention(causal), has_jax=False, grads=grads
            )
    for grads in (False, True):
        yield OpCase("layer_norm", ((4096, 512),), lambda t, x: t.nn.functional.layer_norm(x, (512,)), has_jax=False,
                     grads=grads)  # fmt: skip
        yield OpCase("cross_entropy", ((256, 32000),), lambda t, x: t.nn.functional.cross_entropy(x, t.argmax(x, -1)),
                     has_jax=False, grads=grads)  # fmt: skip
        yield OpCase("max_pool2d", ((8, 64, 56, 56),), lambda t, x: t.nn.functional.max_pool2d(x, 2), has_jax=False,
                     grads=grads)  # fmt: skip
    yield OpCase("avg_pool2d", ((8, 64, 56, 56),), lambda t, x: t.nn.functional.avg_pool2d(x, 2), has_jax=False)
    yield OpCase("interpolate", ((8, 16, 64, 64),), lambda t, x: t.nn.functional.interpolate(
        x, scale_factor=2.0, mode="bilinear"), has_jax=False)  # fmt: skip
    yield OpCase("grid_sample", ((4, 16, 64, 64), (4, 64, 64, 2)), lambda t, x, g: t.nn.functional.grid_sample(
        x, g, align_corners=False), has_jax=False)  # fmt: skip


def _attention(causal: bool) -> Op:
    return lambda t, *qkv: t.nn.functional.scaled_dot_product_attention(*qkv, is_causal=causal)


FAMILIES = (_pointwise, _reductions, _products, _linalg, _orders, _moves, _convolutions, _networks)


def _named(families: tuple[Callable[[], Iterator[OpCase]], ...]) -> dict[str, OpCase]:
    named = {}
    for family in families:
        for case in family():
            key = case.key + " with gradients" * case.grads
            if key in named:
                raise ValueError(f"two cases are named {key}")
            named[key] = case
    return named


OPS = _named(FAMILIES)


def operands(case: OpCase) -> list[Any]:
    """Return the operands as numpy's arrays, float32 for the half types."""
    import numpy as np

    source = np.random.default_rng(0)
    made = []
    for shape in case.shapes:
        if case.dtype.startswith("int"):
            made.append(source.integers(0, 1000, shape, case.dtype))
            continue
        x = source.uniform(-1, 1, shape).astype("float64" if case.dtype == "float64" else "float32")
        made.append(x @ x.T + shape[0] * np.eye(shape[0], dtype=x.dtype) if case.spd else x)
    return made


def _repeated(work: Callable[[], Any]) -> tuple[Callable[[], Any], int]:
    """Return a function that does the work as often as a sample needs, and how often that is."""
    for _ in range(3):
        start = time.perf_counter()
        work()
        taken = time.perf_counter() - start
    times = max(1, math.ceil(_LEAST / taken))

    def sample() -> None:
        for _ in range(times):
            work()

    return sample, times


def by_torch(key: str) -> Callable[[Subject, bool], tuple[Callable[[], Any], int]]:
    """Return the case of `benchmarks.worker` for subjects of torch; each call is synced and waited for."""

    def case(s: Subject, quick: bool) -> tuple[Callable[[], Any], int]:
        import torch

        spec = OPS[key]
        args = [torch.from_numpy(x).to(s.device, getattr(torch, spec.dtype)) for x in operands(spec)]

        def work() -> None:
            leaves = [x.detach().requires_grad_(spec.grads) for x in args]
            out = spec.op(torch, *leaves)
            if spec.grads:
                out = torch.autograd.grad(out.sum(), leaves)
            s.sync()
            s.wait(out)

        return _repeated(work)

    return case


def by_jax(key: str) -> Callable[[Subject, bool], tuple[Callable[[], Any], int]]:
    """Return the case for JAX, jitted."""

    def case(s: Subject, quick: bool) -> tuple[Callable[[], Any], int]:
        import jax
        import jax.numpy as jnp

        spec = OPS[key]
        jax.config.update("jax_enable_x64", "64" in spec.dtype)
        op = spec.jax or spec.op
        args = [jnp.asarray(x, spec.dtype) for x in operands(spec)]
        function = jax.jit(
            jax.grad(lambda a: op(jnp, *a).sum()) if spec.grads else lambda a: op(jnp, *a)
        )  # fmt: skip
        return _repeated(lambda: jax.block_until_ready(function(args)))

    return case


BY_TORCH = {key: by_torch(key) for key in OPS}
BY_JAX = {key: by_jax(key) for key, case in OPS.items() if case.has_jax}
