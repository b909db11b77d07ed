"""What the features of jax_suite.py are registered by, and the arrays that they share."""

import jax
import jax.numpy as jnp
import numpy as np

FEATURES = {}


def feature(function):
    """Registers a feature under the function's name."""
    FEATURES[function.__name__] = function
    return function


def normal(*shape, seed=0, dtype="float32"):
    """The same numbers on every backend."""
    values = np.random.RandomState(seed).standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * np.random.RandomState(seed + 99).standard_normal(shape)
    return jnp.asarray(values.astype(dtype))


def double_types():
    """A context in which arrays of 64-bit types exist."""
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()
