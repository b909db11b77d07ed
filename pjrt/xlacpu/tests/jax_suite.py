"""Public features of JAX, run on one backend; the results go to a file.

    python jax_suite.py OUTPUT.npz

The same program runs twice, with the plugin as JAX's only platform and on
jaxlib's own CPU, and test_jax.py compares the two files. A feature is a function
that returns arrays; NAME/i in the file is the i-th array of a feature, and
NAME/error what it raised.
"""

import sys

import jax
import jax.numpy as jnp
import jax_linalg  # noqa: F401  registers its features
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_features import FEATURES, double_types, feature, normal

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map


def mesh(*names):
    """All four devices, along the named axes."""
    shape = {1: (4,), 2: (2, 2)}[len(names)]
    return Mesh(np.array(jax.devices()[:4]).reshape(shape), names)


# ----- transformations


@feature
def jit():
    f = jax.jit(lambda x, w: jnp.tanh(x @ w).sum(axis=0))
    return f(normal(32, 16), normal(16, 8, seed=1))


@feature
def grad():
    def loss(w, x):
        return jnp.mean((jax.nn.relu(x @ w["a"]) @ w["b"]) ** 2)

    weights = {"a": normal(8, 16), "b": normal(16, 4, seed=1)}
    return jax.jit(jax.value_and_grad(loss))(weights, normal(32, 8, seed=2))


@feature
def vmap():
    return jax.vmap(jnp.dot, in_axes=(0, None))(normal(5, 7), normal(7, seed=1))


@feature
def higher_derivatives():
    f = lambda x: jnp.sum(jnp.sin(x) ** 3)  # noqa: E731
    x = normal(6)
    return jax.hessian(f)(x), jax.jacfwd(jnp.cumsum)(x), jax.jvp(f, (x,), (x,))


@feature
def custom_derivatives():
    @jax.custom_vjp
    def f(x):
        return x**2

    f.defvjp(lambda x: (x**2, x), lambda x, g: (3 * x * g,))

    @jax.custom_jvp
    def h(x):
        return jnp.sin(x)

    h.defjvp(lambda primals, tangents: (h(primals[0]), 5 * tangents[0]))
    return jax.grad(f)(2.0), jax.grad(h)(1.0)


@feature
def checkpoint():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.cos(x)).sum())
    return jax.grad(f)(normal(10))


# ----- control flow


@feature
def scan():
    step = lambda c, x: (c * 0.5 + x, c + x)  # noqa: E731
    return lax.scan(step, jnp.zeros(3), normal(20, 3))


@feature
def scan_gradient():
    f = lambda c, xs: lax.scan(lambda c, x: (jnp.tanh(c + x), c), c, xs)[0].sum()  # noqa: E731
    return jax.grad(f, argnums=(0, 1))(normal(4), normal(9, 4, seed=1))


@feature
def while_loop():
    return jax.jit(lambda n: lax.while_loop(lambda v: v[0] < n, lambda v: (v[0] + 1, v[1] * 2), (0, 1)))(7)


@feature
def cond_and_switch():
    f = jax.jit(lambda i, x: lax.cond(i > 1, jnp.sin, jnp.cos, x) + lax.switch(i, [jnp.exp, jnp.abs], x))
    return f(0, normal(4)), f(2, normal(4))


@feature
def fori_loop():
    return lax.fori_loop(0, 10, lambda i, v: v + i * v, jnp.ones(2))


@feature
def associative_scan():
    return lax.associative_scan(jnp.multiply, 1 + 0.1 * normal(33))


# ----- arrays


@feature
def sort():
    x = normal(6, 40)
    return jnp.sort(x), jnp.argsort(x, axis=0), lax.top_k(x, 5), lax.sort((x, x * 2), num_keys=1)


@feature
def gather_and_scatter():
    x, i = normal(10, 4), jnp.array([3, 1, 1, 9])
    return x[i], x.at[i].add(1.0), x.at[i].max(0.5), jnp.take_along_axis(x, jnp.argsort(x, 1), 1)


@feature
def reductions():
    x = normal(7, 30)
    return (
        x.sum(),
        x.mean(0),
        x.std(1),
        x.argmax(1),
        jnp.cumsum(x, 1),
        jnp.cumprod(x, 0),
        jax.nn.logsumexp(x, 1),
        jnp.median(x),
        jnp.percentile(x, 30.0),
    )


@feature
def contractions():
    x, y = normal(4, 5, 6), normal(4, 6, 3, seed=1)
    return jnp.einsum("bij,bjk->bik", x, y), jnp.tensordot(x, y[0], 1), x[0] @ y[1]


@feature
def strings_of_ops():
    x = normal(3, 8)
    return (
        jnp.concatenate([x, x[:, ::-1]]),
        jnp.pad(x, 2, mode="reflect"),
        jnp.roll(x, 3, 1),
        jnp.where(x > 0, x, -1),
        jnp.clip(x, -0.5, 0.5),
        jnp.searchsorted(jnp.sort(x[0]), x[1]),
        jnp.unique(jnp.round(x), size=4),
        jnp.histogram(x, 5)[0],
        jnp.convolve(x[0], x[1]),
    )


@feature
def special_functions():
    x = jnp.abs(normal(50)) + 0.1
    s = jax.scipy.special
    return (
        s.erf(x),
        s.gammaln(x),
        s.digamma(x),
        s.i0(x),
        s.ndtri(x / 10),
        s.betainc(x, x + 1, x / 10),
        jnp.sinc(x),
        jax.nn.gelu(x),
        jax.nn.softmax(x),
        jax.nn.softplus(x),
    )


# ----- types


def _arithmetic(dtype):
    x = jnp.asarray(np.arange(-8, 8).reshape(4, 4)).astype(dtype)
    y = x.T @ x + x
    return y.astype("float32") if dtype not in ("complex64", "complex128") else y


@feature
def half_precision():
    return _arithmetic("float16"), _arithmetic("bfloat16")


@feature
def integers():
    return tuple(_arithmetic(t) for t in ("int8", "uint8", "int16", "int32", "uint32", "int64"))


@feature
def complex_numbers():
    x = normal(5, 5, dtype="complex64")
    return jnp.exp(x) @ x, jnp.abs(x), jnp.angle(x), jnp.conj(x)


@feature
def double_precision():
    with double_types():
        x = normal(6, 6, dtype="float64")
        return jnp.sin(x) @ x, x.sum(), jnp.fft.fft(x)


@feature
def eight_and_four_bits():
    x = normal(32)
    names = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3fnuz", "float8_e5m2fnuz"]
    floats = tuple(x.astype(n).astype("float32") for n in names)
    return floats + (jnp.arange(-8, 8).astype("int4").astype("int32"), jnp.arange(16).astype("uint4").astype("int32"))


# ----- fft, convolution, random


@feature
def fft():
    x = normal(8, 16)
    return jnp.fft.fft(x), jnp.fft.ifft2(x), jnp.fft.rfft(x), jnp.fft.irfft(jnp.fft.rfft(x)), jnp.fft.fftn(x)


@feature
def convolution():
    x, k = normal(2, 16, 16, 4), normal(3, 3, 4, 8, seed=1)
    numbers = ("NHWC", "HWIO", "NHWC")

    def f(x, k, strides=(1, 1), **options):
        return lax.conv_general_dilated(x, k, strides, "SAME", dimension_numbers=numbers, **options)

    grads = jax.grad(lambda x, k: jnp.sum(f(x, k) ** 2), argnums=(0, 1))(x, k)
    return (
        f(x, k),
        f(x, k, (2, 2)),
        f(x, k, rhs_dilation=(2, 2)),
        grads,
        f(x, normal(3, 3, 1, 8, seed=2), feature_group_count=4),
    )


@feature
def pooling():
    f = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")  # noqa: E731
    x = normal(2, 8, 8, 3)
    return f(x), jax.grad(lambda x: f(x).sum())(x)


@feature
def random():
    key = jax.random.key(3)
    r = jax.random
    return (
        r.normal(key, (9,)),
        r.uniform(key, (9,)),
        r.randint(key, (9,), 0, 100),
        r.permutation(key, 12),
        r.categorical(key, normal(4, 6)),
        r.gamma(key, 2.0, (9,)),
        r.bernoulli(key, 0.4, (9,)),
        r.truncated_normal(key, -1, 1, (9,)),
        r.split(key, 3)[1].dtype is not None,
    )


# ----- buffers and executables


@feature
def donation():
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones((256, 256))
    where = x.unsafe_buffer_pointer()
    y = f(x)
    return y, y.unsafe_buffer_pointer() == where, x.is_deleted()


@feature
def use_after_donation():
    f = jax.jit(lambda x: x + 1, donate_argnums=0)
    x = jnp.ones(4)
    f(x)
    try:
        f(x)
    except (RuntimeError, ValueError) as error:
        return "donated" in str(error) or "deleted" in str(error)
    return False


@feature
def ahead_of_time():
    lowered = jax.jit(lambda x: jnp.sin(x) * 2).lower(jax.ShapeDtypeStruct((8,), "float32"))
    compiled = lowered.compile()
    cost, memory = compiled.cost_analysis(), compiled.memory_analysis()
    cost = cost[0] if isinstance(cost, list) else cost
    return (
        compiled(normal(8)),
        "HloModule" in compiled.as_text(),
        cost["flops"] > 0,
        memory.argument_size_in_bytes,
        memory.output_size_in_bytes,
    )


@feature
def executable_serialization():
    from jax.experimental import serialize_executable

    compiled = jax.jit(lambda x: x @ x.T).lower(normal(5, 3)).compile()
    loaded = serialize_executable.deserialize_and_load(
        *serialize_executable.serialize(compiled), execution_devices=jax.devices()[:1]
    )
    return loaded(normal(5, 3))


@feature
def export():
    from jax import export as jax_export

    exported = jax_export.export(jax.jit(lambda x: jnp.cos(x)), platforms=["cpu"])(normal(6))
    return jax_export.deserialize(exported.serialize()).call(normal(6))


@feature
def dlpack():
    return np.from_dlpack(normal(4, 4))  # the other way asks for a backend named "cpu"


@feature
def device_transfers():
    x = normal(8)
    y = jax.device_put(x, jax.devices()[3])
    return y, list(y.devices())[0].id - jax.devices()[0].id, jax.device_put(y, jax.devices()[1]) + 1


@feature
def memory_statistics():
    stats = jax.devices()[0].memory_stats()
    return stats is None or stats["bytes_in_use"] >= 0


# ----- four devices


@feature
def named_sharding():
    s = NamedSharding(mesh("a", "b"), P("a", "b"))
    x = jax.device_put(normal(8, 8), s)
    f = jax.jit(lambda x, y: jnp.tanh(x @ y), out_shardings=s)
    y = f(x, x)
    return y, y.sharding == s, len(y.addressable_shards)


@feature
def sharded_gradient():
    x = jax.device_put(normal(8, 8), NamedSharding(mesh("a", "b"), P("a", "b")))
    return jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(x @ x))))(x)


@feature
def sharded_donation():
    x = jax.device_put(normal(8, 2), NamedSharding(mesh("x"), P("x")))
    y = jax.jit(lambda x: x * 2, donate_argnums=0)(x)
    return y, x.is_deleted()


def _mapped(function, in_specs=P("x"), out_specs=P("x")):  # noqa: B008  a PartitionSpec is immutable
    f = shard_map(function, mesh=mesh("x"), in_specs=in_specs, out_specs=out_specs)
    return jax.jit(f)(normal(16, 16))


@feature
def shard_map_psum():
    return _mapped(lambda x: lax.psum(x.sum(), "x"), out_specs=P()), _mapped(lambda x: lax.pmax(x, "x"), out_specs=P())


@feature
def shard_map_all_gather():
    return _mapped(lambda x: lax.all_gather(x, "x", tiled=True))


@feature
def shard_map_ppermute():
    return _mapped(lambda x: lax.ppermute(x, "x", [(i, (i + 1) % 4) for i in range(4)]))


@feature
def shard_map_all_to_all():
    return _mapped(lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True))


@feature
def shard_map_psum_scatter():
    return _mapped(lambda x: lax.psum_scatter(x, "x", tiled=True))


@feature
def sharded_constraint():
    m = mesh("x")

    @jax.jit
    def f(x):
        y = lax.with_sharding_constraint(x * 2, NamedSharding(m, P(None, "x")))
        return y.sum(axis=0)

    return f(jax.device_put(normal(8, 8), NamedSharding(m, P("x"))))


def main(output):
    """Runs every feature and writes the results."""
    results = {}
    for name, function in FEATURES.items():
        try:
            leaves = jax.tree.leaves(jax.block_until_ready(function()))
            for i, leaf in enumerate(leaves):
                results[f"{name}/{i}"] = np.asarray(leaf)
        except Exception as error:  # the comparison reports it
            results[f"{name}/error"] = np.array(f"{type(error).__name__}: {error}"[:2000])
    results["platform_version"] = np.array(jax.devices()[0].client.platform_version)
    np.savez(output, **results)


if __name__ == "__main__":
    main(sys.argv[1])
