"""JAX, in a Python of its own, with jitted functions where torch has steps.

It has no cases of torch modules: only what can be written the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import Subject

PYTHON = "BENCH_JAX_PYTHON"
IMPORT = "import jax"

# What a case gives: one sample, and how many units it is made of.
Sample = tuple[Callable[[], Any], int]


def subject() -> Subject:
    """Return the subject; needs jax."""
    return Subject("jax", "cpu")


def _cached(n: int) -> Callable[[Subject, bool], Sample]:
    def case(_: Subject, quick: bool) -> Sample:
        import jax
        import jax.numpy as jnp

        scale, shift = jnp.full((4,), 1.0001), jnp.full((4,), 0.5)

        @jax.jit
        def step(x: Any) -> Any:
            for _ in range(n // 2):
                x = x * scale + shift
            return x

        steps = 20 if quick else 100

        def sample() -> None:
            x = jnp.zeros(4)
            for _ in range(steps):
                x = step(x)
            x.block_until_ready()

        return sample, steps

    return case


def _matmul(_: Subject, quick: bool) -> Sample:
    import jax
    import jax.numpy as jnp

    size = 1024 if quick else 2048
    a = jax.random.normal(jax.random.PRNGKey(0), (size, size))
    multiply = jax.jit(jnp.matmul)
    return lambda: multiply(a, a).block_until_ready(), 1


def _item(_: Subject, quick: bool) -> Sample:
    import jax.numpy as jnp

    values = [jnp.zeros(1) for _ in range(50)]
    return lambda: [v.item() for v in values], len(values)


CASES = {"cached-10": _cached(10), "cached-100": _cached(100), "cached-1000": _cached(1000)}
CASES |= {"matmul": _matmul, "item": _item}
