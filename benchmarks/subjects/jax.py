"""JAX, in a Python of its own, with jitted functions where torch has steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cases import Case, Sample, trained_by
from ..op_cases import BY_JAX
from . import Subject

VERSIONS = ("3.12", "3.13")
REQUIRES = ("jax==0.12.0.1", "jaxlib==0.12.0.1", "optax")
IMPORT = "import jax"
CACHE = "JAX_COMPILATION_CACHE_DIR"
ENVIRONMENT = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def subject() -> Subject:
    """Return the subject; needs jax."""
    import jax

    return Subject("jax", "cpu", lazy=False, wait=lambda *values: jax.block_until_ready(values))


def _trainer(_: Subject, name: str, quick: bool) -> Callable[[], Any]:
    from ..jax_models import trainer

    return trainer(name, quick)


def _trace(body: Callable[[Any, Any], Any], ops: int) -> Case:
    def case(_: Subject, quick: bool) -> Sample:
        import jax
        import jax.numpy as jnp

        x, y = jnp.zeros((2, 2)), jnp.ones((2, 2))
        return lambda: jax.jit(lambda x, y: body(x, y)).trace(x, y), ops

    return case


def _add(x: Any, _: Any) -> Any:
    for _ in range(1000):
        x = x + 1
    return x


def _mixed(x: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    for _ in range(125):
        x = (jax.nn.relu((x + 1) * y).T @ y).reshape(4).reshape(2, 2)
        x = jnp.maximum(x, y)
    return x


def _compiled(n: int) -> Case:
    def case(_: Subject, quick: bool) -> Sample:
        import jax
        import jax.numpy as jnp

        scale, shift = jnp.full((4,), 1.0001), jnp.full((4,), 0.5)

        @jax.jit
        def step(x: Any, scale: Any, shift: Any) -> Any:
            for _ in range(n // 2):
                x = x * scale
                x = x + shift
            return x

        steps = 30 if quick else 200

        def sample() -> None:
            x = jnp.zeros(4)
            for _ in range(steps):
                x = step(x, scale, shift)
            x.block_until_ready()

        sample()
        return sample, steps

    return case


def _item(_: Subject, quick: bool) -> Sample:
    import jax.numpy as jnp

    values = [jnp.zeros(1) for _ in range(50)]
    return lambda: [v.item() for v in values], len(values)


def _matmul(_: Subject, quick: bool) -> Sample:
    import jax
    import jax.numpy as jnp

    size = 1024 if quick else 2048
    a, b = (jax.random.normal(jax.random.PRNGKey(k), (size, size)) for k in range(2))
    multiply = jax.jit(jnp.matmul)
    return lambda: multiply(a, b).block_until_ready(), 1


def _fused(_: Subject, quick: bool) -> Sample:
    import jax
    import jax.numpy as jnp

    x = jax.random.uniform(jax.random.PRNGKey(0), ((8 if quick else 64) << 20,))
    compute = jax.jit(lambda x: jnp.sqrt(jnp.abs(jax.nn.relu(x * 1.5 + 0.5) * x - 1)) + x)
    return lambda: compute(x).block_until_ready(), 1


def _to_device(_: Subject, quick: bool) -> Sample:
    import jax.numpy as jnp
    import numpy as np

    host = np.random.default_rng(0).standard_normal(64 << 20, np.float32)
    return lambda: jnp.array(host, copy=True).block_until_ready(), 1


def _to_host(_: Subject, quick: bool) -> Sample:
    import jax.numpy as jnp
    import numpy as np

    there = jnp.ones(64 << 20)
    return lambda: np.array(there, copy=True), 1


OWN: dict[str, Case] = {
    "trace-add": _trace(_add, 1000),
    "trace-mixed": _trace(_mixed, 1000),
    **{f"compiled-{n}": _compiled(n) for n in (10, 100, 1000)},
    **trained_by(_trainer),
    "item": _item,
    "matmul": _matmul,
    "fused": _fused,
    "to-device": _to_device,
    "to-host": _to_host,
}
CASES = tuple(OWN)
OPS = BY_JAX
