"""Features of JAX for jax_suite.py: linear algebra. They return what is unique, or a reconstruction."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax_features import double_types, feature, normal


def _square(dtype, seed=0):
    return normal(2, 6, 6, seed=seed, dtype=dtype)


def _positive(dtype):
    x = _square(dtype)
    return x @ jnp.conj(jnp.swapaxes(x, -1, -2)) + 6 * jnp.eye(6, dtype=dtype)


def _each_type(function):
    with double_types():
        return tuple(function(t) for t in ("float32", "complex64", "float64", "complex128"))


@feature
def linalg_cholesky():
    return _each_type(lambda t: jnp.linalg.cholesky(_positive(t)))


@feature
def linalg_cholesky_of_indefinite():
    return jnp.linalg.cholesky(-jnp.eye(3))


@feature
def linalg_triangular_solve():
    def f(t):
        low, b = jnp.tril(_positive(t)), normal(2, 6, 3, seed=5, dtype=t)
        solve = functools.partial(lax.linalg.triangular_solve, low)
        return (
            solve(b, left_side=True, lower=True),
            solve(b, left_side=True, lower=True, transpose_a=True),
            solve(b, left_side=True, lower=True, transpose_a=True, conjugate_a=True),
            solve(jnp.swapaxes(b, -1, -2), left_side=False, lower=True),
        )

    return _each_type(f)


@feature
def linalg_lu():
    def f(t):
        x = normal(2, 6, 4, dtype=t)
        return (
            *lax.linalg.lu(x),
            jnp.linalg.det(_square(t)),
            jnp.linalg.inv(_square(t)),
            jnp.linalg.solve(_square(t), normal(2, 6, 2, dtype=t)),
        )

    return _each_type(f)


@feature
def linalg_qr():
    def f(t):
        x = normal(2, 7, 4, dtype=t)
        q, r = jnp.linalg.qr(x)
        full, _ = jnp.linalg.qr(x, mode="complete")
        return q @ r, jnp.abs(r), jnp.conj(jnp.swapaxes(full, -1, -2)) @ full

    return _each_type(f)


@feature
def linalg_eigh():
    def f(t):
        x = _positive(t)
        w, v = jnp.linalg.eigh(x)
        return w, (v * w[..., None, :].astype(t)) @ jnp.conj(jnp.swapaxes(v, -1, -2)), jnp.linalg.eigvalsh(x)

    return _each_type(f)


@feature
def linalg_eigh_of_nan():
    return jnp.linalg.eigvalsh(jnp.full((3, 3), jnp.nan))


@feature
def linalg_svd():
    def f(t):
        x = normal(2, 7, 4, dtype=t)
        u, s, vh = jnp.linalg.svd(x, full_matrices=False)
        full = jnp.linalg.svd(x, full_matrices=True)
        return (
            (u * s[..., None, :].astype(t)) @ vh,
            s,
            jnp.linalg.svd(x, compute_uv=False),
            jnp.conj(jnp.swapaxes(full[0], -1, -2)) @ full[0],
            jnp.linalg.pinv(x),
        )

    return _each_type(f)


@feature
def linalg_eig():
    def f(t):
        x = _square(t)[0]
        w, v = jnp.linalg.eig(x)
        return jnp.sort_complex(w), (v * w) @ jnp.linalg.inv(v)

    return _each_type(f)


@feature
def linalg_schur_and_hessenberg():
    def f(t):
        x = _square(t)[0]
        s, z = jax.scipy.linalg.schur(x, output="real" if t.startswith("float") else "complex")
        h, q = jax.scipy.linalg.hessenberg(x, calc_q=True)
        return z @ s @ jnp.conj(z.T), q @ h @ jnp.conj(q.T)

    return _each_type(f)


@feature
def linalg_tridiagonal():
    d, off, b = jnp.abs(normal(5)) + 3, normal(5, seed=1), normal(5, 2, seed=2)
    lower, upper = off.at[0].set(0), off.at[-1].set(0)
    return lax.linalg.tridiagonal_solve(lower, d, upper, b), jax.scipy.linalg.eigh_tridiagonal(
        d, off[:4], eigvals_only=True
    )


@feature
def linalg_the_rest():
    x = _square("float32")[0]
    return (
        jax.scipy.linalg.expm(x),
        jnp.linalg.slogdet(x),
        jnp.linalg.matrix_power(x, 3),
        jnp.linalg.norm(x, 2),
        jnp.linalg.lstsq(normal(9, 6), normal(9, 2, seed=3))[0],
        jnp.linalg.matrix_rank(x),
        jnp.linalg.cond(x),
    )


@feature
def linalg_gradients():
    x = _positive("float32")
    return (
        jax.grad(lambda x: jnp.linalg.cholesky(x).sum())(x),
        jax.grad(lambda x: jnp.linalg.inv(x).sum())(x),
        jax.grad(lambda x: jnp.linalg.slogdet(x)[1].sum())(x),
        jax.grad(lambda x: jnp.linalg.eigvalsh(x)[..., 0].sum())(x),
    )


@feature
def linalg_empty():
    return jnp.linalg.inv(jnp.zeros((0, 3, 3))), jnp.linalg.cholesky(jnp.zeros((2, 0, 0)))
