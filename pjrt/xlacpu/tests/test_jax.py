"""JAX on the plugin against JAX on jaxlib's own CPU."""

import pathlib
import re
import subprocess

import pytest
from interpreters import lapack_of, pythons_with

np = pytest.importorskip("numpy", reason="numpy is not installed")

SUITE = pathlib.Path(__file__).resolve().parent / "jax_suite.py"
TEXT = SUITE.read_text() + SUITE.with_name("jax_linalg.py").read_text()
NAMES = re.findall(r"^@feature\ndef (\w+)\(", TEXT, re.MULTILINE)
PYTHONS = pythons_with("jax") or [None]

# Relative to the largest magnitude in the array.
TOLERANCE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}


def run_suite(python, output, env):
    done = subprocess.run([python, str(SUITE), str(output)], capture_output=True, text=True, env=env, timeout=900)
    assert done.returncode == 0, f"died with {done.returncode}:\n{done.stderr[-4000:]}"
    with np.load(output) as results:
        return dict(results)


@pytest.fixture(scope="session")
def runs(request, plugin, clean_environment, tmp_path_factory):
    """Both runs of the suite by one interpreter: (on the plugin, on jaxlib)."""
    cache = {}

    def get(python):
        if python is None:
            pytest.skip("jax is not importable: set XLACPU_JAX_PYTHON")
        if python not in cache:
            folder = tmp_path_factory.mktemp("jax")
            theirs = dict(
                clean_environment,
                JAX_PLATFORMS="cpu",
                XLA_FLAGS="--xla_force_host_platform_device_count=4",
            )
            ours = dict(
                clean_environment,
                JAX_PLATFORMS="xla_cpu",
                PJRT_NAMES_AND_LIBRARY_PATHS=f"xla_cpu:{plugin}",
                CPU_NUM_DEVICES="4",
            )
            lapack = lapack_of(python)
            if lapack:
                ours["PJRT_XLA_CPU_LAPACK_LIBRARY"] = lapack
            cache[python] = (
                run_suite(python, folder / "ours.npz", ours),
                run_suite(python, folder / "theirs.npz", theirs),
                lapack,
            )
        return cache[python]

    return get


def compare(name, ours, theirs):
    mine = sorted(k for k in ours if k.split("/")[0] == name)
    assert f"{name}/error" not in theirs, f"jaxlib itself: {theirs[f'{name}/error']}"
    assert f"{name}/error" not in ours, str(ours[f"{name}/error"])
    assert mine and mine == sorted(k for k in theirs if k.split("/")[0] == name)
    for key in mine:
        a, b = ours[key], theirs[key]
        assert a.dtype == b.dtype and a.shape == b.shape, key
        if a.dtype.kind in "fc":
            finite = np.abs(b[np.isfinite(b)])
            scale = max(1.0, float(finite.max(initial=0.0)))
            limit = TOLERANCE.get(a.dtype.name, 1e-2)
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit * scale, err_msg=key)
        else:
            np.testing.assert_array_equal(a, b, err_msg=key)


@pytest.mark.parametrize("python", PYTHONS, ids=lambda p: pathlib.Path(p).parts[-3] if p else "none")
@pytest.mark.parametrize("name", NAMES)
def test_feature(runs, python, name):
    ours, theirs, lapack = runs(python)
    if name.startswith("linalg") and lapack is None:
        pytest.skip("no LAPACK library: install scipy-openblas32 or set XLACPU_LAPACK")
    compare(name, ours, theirs)


@pytest.mark.parametrize("python", PYTHONS, ids=lambda p: pathlib.Path(p).parts[-3] if p else "none")
def test_the_plugin_ran(runs, python):
    ours, theirs, _ = runs(python)
    assert "tensorflow-cpu" in str(ours["platform_version"])
    assert "tensorflow-cpu" not in str(theirs["platform_version"])


def test_linear_algebra_without_lapack_says_what_to_set(plugin, clean_environment, tmp_path):
    python = PYTHONS[0]
    if python is None:
        pytest.skip("jax is not importable: set XLACPU_JAX_PYTHON")
    env = dict(
        clean_environment,
        JAX_PLATFORMS="xla_cpu",
        PJRT_NAMES_AND_LIBRARY_PATHS=f"xla_cpu:{plugin}",
    )
    code = (
        "import jax.numpy as jnp\n"
        "try: jnp.linalg.cholesky(jnp.eye(3)).block_until_ready()\n"
        "except Exception as error: print(error)\n"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "PJRT_XLA_CPU_LAPACK_LIBRARY" in done.stdout
