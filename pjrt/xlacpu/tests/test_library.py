"""The library as a file: what it exports, what it needs, what it refuses."""

import subprocess
import sys

import pytest


def readelf(plugin, option):
    done = subprocess.run(["readelf", option, plugin], capture_output=True, text=True, check=True)
    return done.stdout


def test_exports_two_functions_alone(plugin):
    done = subprocess.run(["nm", "-D", "--defined-only", plugin], capture_output=True, text=True, check=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert names == {"GetPjrtApi", "XlaCpuPlugin_Vet"}


def test_names_no_place(plugin):
    dynamic = readelf(plugin, "-dW")
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
    needed = [line for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert any("libtensorflow_cc.so.2" in line for line in needed)
    assert not any("/" in line.split("[")[-1] for line in needed)


def run_python(code, *arguments, env):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=env,
        timeout=120,
    )


def test_without_its_libraries_loading_fails_cleanly(plugin, clean_environment):
    code = "import ctypes, sys\ntry: ctypes.CDLL(sys.argv[1])\nexcept OSError as e: print(e)\n"
    done = run_python(code, plugin, env=clean_environment)
    assert done.returncode == 0
    assert "libtensorflow_cc.so.2" in done.stdout


# Loads TensorFlow's libraries and the plugin, and prints what vetting says.
VET = """
import ctypes, os, sys
folder, plugin = sys.argv[1:3]
for name in ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2"):
    ctypes.CDLL(os.path.join(folder, name))
text = ctypes.create_string_buffer(1000)
code = ctypes.CDLL(plugin).XlaCpuPlugin_Vet(None, text, 1000)
print(code, text.value.decode())
"""


def test_accepts_the_release_it_is_built_on(tensorflow, plugin, clean_environment):
    done = run_python(VET, tensorflow, plugin, env=clean_environment)
    assert done.stdout == "0 \n", done.stderr


def test_refuses_a_library_that_differs(tensorflow, plugin, clean_environment, tmp_path):
    """A framework library with one more byte: the same code under another size."""
    name = "libtensorflow_framework.so.2"
    (tmp_path / "libtensorflow_cc.so.2").symlink_to(tensorflow / "libtensorflow_cc.so.2")
    (tmp_path / name).write_bytes((tensorflow / name).read_bytes() + b"\0")
    done = run_python(VET, tmp_path, plugin, env=clean_environment)
    assert done.stdout.startswith("9 "), done.stdout + done.stderr
    assert name in done.stdout and "tensorflow-cpu 2.21.0" in done.stdout
    assert str(tmp_path) in done.stdout


def test_refuses_other_code_of_the_same_size(tensorflow, plugin, clean_environment, tmp_path):
    """A library whose header differs in a word that the dynamic linker does not read: it loads, and is another."""
    name = "libtensorflow_framework.so.2"
    (tmp_path / "libtensorflow_cc.so.2").symlink_to(tensorflow / "libtensorflow_cc.so.2")
    data = bytearray((tensorflow / name).read_bytes())
    place = slice(0x28, 0x30)  # where the table of sections lies
    assert any(data[place])
    data[place] = bytes(8)
    (tmp_path / name).write_bytes(data)
    done = run_python(VET, tmp_path, plugin, env=clean_environment)
    assert done.stdout.startswith("9 "), done.stdout + done.stderr
    assert "fingerprint" in done.stdout and str(tmp_path / name) in done.stdout


def test_refuses_another_release(tensorflow, plugin, clean_environment, tmp_path):
    """A library before TensorFlow's that says it is another release, as one in the process already would."""
    other = tmp_path / "libother.so"
    source = tmp_path / "other.c"
    source.write_text('const char *TF_Version(void) { return "2.20.0"; }')
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", other, source], check=True)
    done = run_python(VET, tensorflow, plugin, env=dict(clean_environment, LD_PRELOAD=str(other)))
    assert done.stdout.startswith("9 "), done.stdout + done.stderr
    assert f"{other} is TensorFlow 2.20.0" in done.stdout


@pytest.mark.slow
def test_lives_beside_torch(tensorflow, plugin, clean_environment):
    pytest.importorskip("torch", reason="torch is not installed")
    code = VET + (
        "import torch\n"
        "x = torch.ones(64, 64)\n"
        "print(float((x @ x).sum()))\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(0 if float((x + 1).sum()) == 8192 else 1)\n"
        "print(os.waitpid(pid, 0)[1])\n"
    )
    done = run_python(code, tensorflow, plugin, env=clean_environment)
    assert done.stdout.splitlines() == ["0 ", "262144.0", "0"], done.stderr
