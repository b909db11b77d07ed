"""torchax, torch's operations on JAX, in a Python of its own: it needs an older torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cases import Case, trained_by
from . import Subject

VERSIONS = ("3.12", "3.13")
REQUIRES = ("torch==2.9.0", "torchax==0.0.13", "jax==0.12.0.1", "jaxlib==0.12.0.1", "optax", "numpy")
IMPORT = "import torch, torchax"
CACHE = "JAX_COMPILATION_CACHE_DIR"
ENVIRONMENT = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}


def subject() -> Subject:
    """Return the subject; needs torchax."""
    import jax
    import torchax
    from torchax import interop

    torchax.enable_globally()
    return Subject(
        "torchax", "jax", lazy=False, compile=interop.jax_jit,
        wait=lambda *values: interop.call_jax(jax.block_until_ready, values),
    )  # fmt: skip


def _trainer(_: Subject, name: str, quick: bool) -> Callable[[], Any]:
    """Return a function that takes a training step, its arrays donated, and returns the loss."""
    import optax
    import torch
    import torchax
    from torchax import interop
    from torchax.train import make_train_step

    from ..models import TASKS

    torchax.disable_globally()
    torch.manual_seed(0)
    model, x, y, _ = TASKS[name](quick)
    torchax.enable_globally()
    model.to("jax")
    x, y = x.to("jax"), y.to("jax")
    optimizer = optax.adamw(3e-4, weight_decay=0.01) if name == "gpt" else optax.sgd(0.01, momentum=0.9)

    def forward(weights: Any, buffers: Any, args: Any) -> Any:
        return torch.func.functional_call(model, {**weights, **buffers}, args)

    buffers = dict(model.named_buffers())
    weights = dict(model.named_parameters())
    update = make_train_step(forward, torch.nn.functional.cross_entropy, optimizer)
    compiled = interop.jax_jit(update, kwargs_for_jax_jit={"donate_argnums": (0, 2)})
    held = [weights, interop.call_jax(optimizer.init, weights)]

    def step() -> Any:
        loss, *held[:] = compiled(held[0], buffers, held[1], (x,), y)
        return loss

    return step


OWN: dict[str, Case] = trained_by(_trainer)
CASES = (*OWN, "compiled-10", "compiled-100", "compiled-1000", "matmul", "fused", "to-device", "item")
