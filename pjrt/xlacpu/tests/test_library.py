"""The library as a file: what it exports, what it needs, what it refuses."""

import pathlib
import re
import shutil
import subprocess
import sys

import pytest

PROGRAMS = pathlib.Path(__file__).with_name("programs")
XLA_LIBRARIES = ("libpjrt_xla_cpu_cc.so", "libpjrt_xla_cpu_framework.so")
FRAMEWORK = XLA_LIBRARIES[1]
IMPLEMENTATION = "libpjrt_xla_cpu_impl.so"  # the plugin itself; the other one opens it


def readelf(plugin, option):
    done = subprocess.run(["readelf", option, plugin], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", ["libpjrt_xla_cpu.so", IMPLEMENTATION])
def test_exports_two_functions_alone(plugin, name):
    command = ["nm", "-D", "--defined-only", plugin.with_name(name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names == {"GetPjrtApi", "XlaCpuPlugin_Vet"}


def test_finds_xlas_libraries_beside_itself_and_tensorflows_nowhere(plugin):
    dynamic = readelf(plugin.with_name(IMPLEMENTATION), "-dW").splitlines()
    (path,) = (line.split("[")[-1] for line in dynamic if "RPATH" in line or "RUNPATH" in line)
    assert path == "$ORIGIN]"
    needed = [line.split("[")[-1].rstrip("]") for line in dynamic if "(NEEDED)" in line]
    assert set(XLA_LIBRARIES) < set(needed)
    assert not any("/" in name or "tensorflow" in name for name in needed)


@pytest.mark.longer
@pytest.mark.parametrize("name", ["libpjrt_xla_cpu.so", IMPLEMENTATION, *XLA_LIBRARIES])
def test_needs_no_newer_system_than_the_wheel_says(plugin, name):
    """The symbol versions of manylinux_2_28: those of glibc 2.28 and of GCC 8's libraries."""
    newest = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11), "GCC": (7, 0, 0)}
    found = re.findall(r"Name: (\w+?)_([\d.]+)\b", readelf(plugin.with_name(name), "-VW"))
    assert "GLIBC" in {library for library, _ in found}
    assert not [(v, n) for v, n in found if tuple(map(int, n.split("."))) > newest[v]]


def run_python(program, *arguments, env):
    return subprocess.run(
        [sys.executable, PROGRAMS / program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )


def test_without_its_libraries_there_is_no_table_and_a_message(plugin, clean_environment, tmp_path):
    apart = [shutil.copy(plugin, tmp_path)]
    for missing in (IMPLEMENTATION, "libpjrt_xla_cpu_cc.so"):
        done = run_python("table.py", *apart, env=clean_environment)
        assert (done.returncode, done.stdout) == (0, "0\n")
        assert done.stderr.startswith("cannot load XLA:CPU: ") and missing in done.stderr
        done = run_python("vet.py", *apart, env=clean_environment)
        assert done.stdout.startswith("9 cannot load XLA:CPU: ") and missing in done.stdout
        shutil.copy(plugin.with_name(IMPLEMENTATION), tmp_path)


def test_accepts_the_libraries_it_is_built_with(plugin, clean_environment):
    done = run_python("vet.py", plugin, env=clean_environment)
    assert done.stdout == "0 \n", done.stderr


@pytest.fixture
def beside_other(plugin, tmp_path):
    """Make a folder with the plugin, XLA's library, and a framework library of the given bytes."""

    def make(data):
        for name in (plugin.name, IMPLEMENTATION, XLA_LIBRARIES[0]):
            (tmp_path / name).symlink_to(plugin.with_name(name).resolve())
        (tmp_path / FRAMEWORK).write_bytes(data)
        return tmp_path / plugin.name

    return make


def test_refuses_a_library_that_differs(plugin, beside_other, clean_environment, tmp_path):
    """A framework library with one more byte: the same code under another size."""
    data = plugin.with_name(FRAMEWORK).read_bytes() + b"\0"
    done = run_python("vet.py", beside_other(data), env=clean_environment)
    assert done.stdout.startswith("9 "), done.stdout + done.stderr
    assert FRAMEWORK in done.stdout and "tensorflow-cpu 2.21.0" in done.stdout
    assert str(tmp_path) in done.stdout


def test_refuses_other_code_of_the_same_size(plugin, beside_other, clean_environment, tmp_path):
    """A library whose header differs in a word that the dynamic linker does not read: it loads, and is another."""
    data = bytearray(plugin.with_name(FRAMEWORK).read_bytes())
    place = slice(0x28, 0x30)  # where the table of sections lies
    assert any(data[place])
    data[place] = bytes(8)
    done = run_python("vet.py", beside_other(data), env=clean_environment)
    assert done.stdout.startswith("9 "), done.stdout + done.stderr
    assert "fingerprint" in done.stdout and str(tmp_path / FRAMEWORK) in done.stdout


def test_a_symbol_that_all_libraries_see_is_not_taken_for_xlas(plugin, clean_environment, tmp_path):
    """A library before XLA's with one of its names, as those of TensorFlow are, which it loads with RTLD_GLOBAL."""
    other = tmp_path / "libother.so"
    source = tmp_path / "other.c"
    source.write_text('const char *TF_Version(void) { return "2.20.0"; }')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", other, source], check=True)
    done = run_python("vet.py", plugin, env=dict(clean_environment, LD_PRELOAD=str(other)))
    assert done.stdout == "0 \n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("first", ["plugin", "tensorflow"])
def test_lives_beside_tensorflow(plugin, clean_environment, first):
    """TensorFlow compiles with its own XLA, the plugin with its own, whichever comes first."""
    pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    done = run_python("beside_tensorflow.py", plugin, first, env=clean_environment)
    assert done.returncode == 0, done.stderr
    *out, names = done.stdout.splitlines()
    assert out == (["0 ", "6.0"] if first == "plugin" else ["6.0", "0 ", "6.0"])
    assert names == "['libpjrt_xla_cpu_cc.so', 'libtensorflow_cc.so.2']"


@pytest.mark.slow
def test_lives_beside_torch(plugin, clean_environment):
    pytest.importorskip("torch", reason="torch is not installed")
    done = run_python("beside_torch.py", plugin, env=clean_environment)
    assert done.stdout.splitlines() == ["0 ", "262144.0", "0"], done.stderr
