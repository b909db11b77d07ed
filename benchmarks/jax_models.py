"""The models of `benchmarks.models` as JAX programs: parameters in dictionaries, and functions of them.

Each function returns the parameters, the state of the batch norms, inputs, labels, the forward function and the
optimizer. The forward function takes ``(parameters, state, inputs)`` and returns logits and the new state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

_random = np.random.default_rng(0)


def _normal(*shape: int, scale: float = 1.0) -> Any:
    return jnp.asarray(_random.standard_normal(shape) * scale, jnp.float32)


def _linear(inner: int, outer: int, bias: bool = True) -> dict[str, Any]:
    parameters = {"weight": _normal(inner, outer, scale=(3 * inner) ** -0.5)}
    return parameters | {"bias": jnp.zeros(outer)} if bias else parameters


def _apply(p: dict[str, Any], x: Any) -> Any:
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def _scales(n: int) -> dict[str, Any]:
    return {"weight": jnp.ones(n), "bias": jnp.zeros(n)}


def mlp(quick: bool) -> Any:
    """784 -> 512 -> 512 -> 10 with a batch of 128, for SGD."""
    del quick
    layers = [_linear(784, 512), _linear(512, 512), _linear(512, 10)]

    def forward(p: Any, state: Any, x: Any) -> Any:
        for layer in p[:-1]:
            x = jax.nn.relu(_apply(layer, x))
        return _apply(p[-1], x), state

    labels = jnp.asarray(_random.integers(0, 10, 128))
    return layers, (), _normal(128, 784), labels, forward, optax.sgd(0.01, momentum=0.9)


def _layer_norm(p: dict[str, Any], x: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["weight"] + p["bias"]


def _block(p: dict[str, Any], x: Any, heads: int) -> Any:
    n, time, width = x.shape
    depth = width // heads
    qkv = _apply(p["qkv"], _layer_norm(p["norm1"], x)).reshape(n, time, 3, heads, depth)
    q, k, v = qkv.transpose(2, 0, 3, 1, 4)
    past = jnp.tril(jnp.ones((time, time), bool))
    weights = jax.nn.softmax(jnp.where(past, q @ k.swapaxes(-1, -2) * depth**-0.5, -jnp.inf), -1)
    x = x + _apply(p["out"], (weights @ v).transpose(0, 2, 1, 3).reshape(n, time, width))
    return x + _apply(p["down"], jax.nn.gelu(_apply(p["up"], _layer_norm(p["norm2"], x)), approximate=True))


def gpt(quick: bool) -> Any:
    """4 blocks of width 256 with a batch of 8 times 128 words (2 of 32 when quick), for AdamW."""
    time, batch = (32, 2) if quick else (128, 8)
    words, width = 1024, 256

    def block() -> dict[str, Any]:
        return {
            "norm1": _scales(width), "norm2": _scales(width), "qkv": _linear(width, 3 * width),
            "out": _linear(width, width), "up": _linear(width, 4 * width), "down": _linear(4 * width, width),
        }  # fmt: skip

    parameters = {
        "words": _normal(words, width), "places": _normal(time, width), "blocks": [block() for _ in range(4)],
        "norm": _scales(width), "head": _linear(width, words, bias=False),
    }  # fmt: skip

    def forward(p: Any, state: Any, ids: Any) -> Any:
        x = p["words"][ids] + p["places"][jnp.arange(time)]
        for each in p["blocks"]:
            x = _block(each, x, 4)
        return _apply(p["head"], _layer_norm(p["norm"], x)).reshape(-1, words), state

    ids, labels = (jnp.asarray(_random.integers(0, words, shape)) for shape in ((batch, time), batch * time))
    return parameters, (), ids, labels, forward, optax.adamw(3e-4, weight_decay=0.01)


def _convolve(weight: Any, x: Any, stride: int) -> Any:
    pad = weight.shape[-1] // 2
    return jax.lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2)


def _batch_norm(p: dict[str, Any], state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
    mean, n = x.mean((0, 2, 3)), x.size // x.shape[1]
    centered = x - mean[:, None, None]
    variance = (centered**2).mean((0, 2, 3))
    scale = (jax.lax.rsqrt(variance + 1e-5) * p["weight"])[:, None, None]
    kept = {"mean": 0.9 * state["mean"] + 0.1 * mean, "var": 0.9 * state["var"] + 0.1 * variance * n / (n - 1)}
    return centered * scale + p["bias"][:, None, None], kept


def _unit(inner: int, outer: int, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A convolution and the batch norm behind it, and the norm's state."""
    weight = _normal(outer, inner, size, size, scale=(2 / (inner * size * size)) ** 0.5)
    return {"conv": weight, "norm": _scales(outer)}, {"mean": jnp.zeros(outer), "var": jnp.ones(outer)}


def resnet(quick: bool) -> Any:
    """A ResNet-18 for 32 x 32 images with a batch of 32 (4 when quick), for SGD."""
    units: dict[str, Any] = {"first": _unit(3, 64, 3)}
    strides, inner = [], 64
    for outer, first in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for stride in (first, 1):
            i = len(strides)
            units[f"{i}a"], units[f"{i}b"] = _unit(inner, outer, 3), _unit(outer, outer, 3)
            if stride != 1 or inner != outer:
                units[f"{i}c"] = _unit(inner, outer, 1)
            strides.append(stride)
            inner = outer
    parameters = {name: p for name, (p, _) in units.items()} | {"last": _linear(512, 10)}

    def forward(p: Any, state: Any, x: Any) -> Any:
        kept = {}

        def unit(name: str, x: Any, stride: int = 1) -> Any:
            y, kept[name] = _batch_norm(p[name]["norm"], state[name], _convolve(p[name]["conv"], x, stride))
            return y

        x = jax.nn.relu(unit("first", x))
        for i, stride in enumerate(strides):
            y = unit(f"{i}b", jax.nn.relu(unit(f"{i}a", x, stride)))
            x = jax.nn.relu(y + (unit(f"{i}c", x, stride) if f"{i}c" in p else x))
        return _apply(p["last"], x.mean((2, 3))), kept

    batch = 4 if quick else 32
    images, labels = _normal(batch, 3, 32, 32), jnp.asarray(_random.integers(0, 10, batch))
    state = {name: s for name, (_, s) in units.items()}
    return parameters, state, images, labels, forward, optax.sgd(0.01, momentum=0.9)


TASKS = {"mlp": mlp, "gpt": gpt, "resnet": resnet}


def trainer(name: str, quick: bool) -> Callable[[], Any]:
    """Return a function that takes a training step, its arrays donated, and returns the loss."""
    parameters, state, x, y, forward, optimizer = TASKS[name](quick)

    def loss(p: Any, s: Any, x: Any, y: Any) -> Any:
        logits, s = forward(p, s, x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), s

    def update(p: Any, s: Any, o: Any, x: Any, y: Any) -> Any:
        (value, s), gradients = jax.value_and_grad(loss, has_aux=True)(p, s, x, y)
        updates, o = optimizer.update(gradients, o, p)
        return optax.apply_updates(p, updates), s, o, value

    compiled = jax.jit(update, donate_argnums=(0, 1, 2))
    held = [parameters, state, optimizer.init(parameters)]

    def step() -> Any:
        *held[:], value = compiled(*held, x, y)
        return value

    return step
