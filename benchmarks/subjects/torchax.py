"""torchax, torch's operations on JAX, in a Python of its own: it needs an older torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cases import Case, Sample, status
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


def _trainer(name: str, quick: bool) -> Callable[[], Any]:
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


def _training(name: str, steps: int, quick_steps: int) -> Case:
    def case(s: Subject, quick: bool) -> Sample:
        step, n = _trainer(name, quick), quick_steps if quick else steps

        def sample() -> None:
            for _ in range(n):
                loss = step()
            s.wait(loss)

        s.wait(step())
        return sample, n

    return case


def _first_step(_: Subject, quick: bool) -> Sample:
    return lambda: _trainer("gpt", quick)().item(), 1


def _training_memory(name: str) -> Case:
    def case(_: Subject, quick: bool) -> Sample:
        def sample() -> float:
            step = _trainer(name, quick)
            for _ in range(4):
                step().item()
            return status("VmHWM")

        return sample, 1

    return case


OWN: dict[str, Case] = {
    "mlp-compiled": _training("mlp", 100, 20),
    "gpt-compiled": _training("gpt", 10, 3),
    "resnet-compiled": _training("resnet", 4, 1),
    "first-step": _first_step,
    "first-step-warm": _first_step,
    "gpt-memory": _training_memory("gpt"),
    "resnet-memory": _training_memory("resnet"),
}
CASES = (*OWN, "compiled-10", "compiled-100", "compiled-1000", "matmul", "fused", "to-device", "item")
