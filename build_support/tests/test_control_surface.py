"""The Go library as Python sees it: values, errors and panics, through a trial package built for the purpose."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from build_support import BUILD, surface
from build_support.toolchain import BuildError, toolchain

PROGRAM = Path(__file__).with_name("programs") / "surface.py"

GOOD = """
// Package trial has one function of each form that the control surface may use.
package trial

import (
	"errors"

	_ "github.com/go-python/gopy/gopyh"
)

var version = "unset"

func Version() string { return version }

func Add(a int64, b int64) int64 { return a + b }

func Not(b bool) bool { return !b }

func Half(x float64) float64 { return x / 2 }

func Join(a string, b string) (string, error) {
	if b == "" {
		return "", errors.New("nothing to join")
	}
	return a + b, nil
}

func Check(n int64) error {
	if n < 0 {
		return errors.New("negative")
	}
	return nil
}

func Reverse(b []byte) ([]byte, error) {
	out := make([]byte, len(b))
	for i, x := range b {
		out[len(b)-1-i] = x
	}
	return out, nil
}

func Void(n int64) {
	if n < 0 {
		panic("void panic")
	}
}

func Nothing() {}

func PanicInt() int64 { panic("int panic") }

func PanicString() (string, error) { panic("string panic") }

func PanicError() error {
	var p *int
	*p = 1
	return nil
}

func Index(n int64) int64 { return []int64{1, 2}[n] }
"""


@pytest.fixture
def trial(request):
    """A package directory inside the Go module, and the directory for what is made from it."""
    base = BUILD / f"surface-{request.node.name}"
    shutil.rmtree(base, ignore_errors=True)
    package = base / "trial"
    package.mkdir(parents=True)
    yield package, base / "work"
    shutil.rmtree(base)


@pytest.mark.slow
def test_values_errors_and_panics(trial, tmp_path):
    package, work = trial
    (package / "trial.go").write_text(GOOD)
    files = surface.build(toolchain(), "1.2.3", package, work)
    home = tmp_path / "surface_under_test"
    home.mkdir()
    (home / "__init__.py").touch()
    for file in files:
        shutil.copy(file, home)
    done = subprocess.run([sys.executable, PROGRAM, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out.pop("growth") < 1 << 20, "a function that returns only an error leaks"
    assert out == {
        "version": "1.2.3",
        "add": [2**62 - 1, -5],
        "not": False,
        "half": -1.5,
        "join": ["éb", ["RuntimeError", "nothing to join"]],
        "check": [None, ["RuntimeError", "negative"]],
        "reverse": [list(b"cba"), []],
        "void": [None, ["RuntimeError", "[PanicError] void panic"], None],
        "panics": [
            ["RuntimeError", "[PanicError] int panic"],
            ["RuntimeError", "[PanicError] string panic"],
            ["RuntimeError", "[PanicError] runtime error: invalid memory address or nil pointer dereference"],
            ["RuntimeError", "[PanicError] runtime error: index out of range [7] with length 2"],
        ],
        "types": ["TypeError", "OverflowError"],
        "handles": ["RuntimeError", "RuntimeError"],
    }


@pytest.mark.slow
def test_library_names_no_python_and_no_build_path(trial):
    package, work = trial
    (package / "trial.go").write_text(GOOD)
    library = surface.build(toolchain(), "1.2.3", package, work)[0]
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    assert "NEEDED" in dynamic
    assert "libpython" not in dynamic
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic
    assert str(BUILD).encode() not in library.read_bytes()


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("func F() (int64, int64, error) { return 0, 0, nil }", "F: gopy left it out"),
        ("func F(f func(int64)) { f(1) }", "F: callbacks cannot be carried"),
        ("func F(x []int64) int64 { return x[0] }", "F: parameters and results must be"),
        ("type T struct{ X int64 }\nfunc F() int64 { return 1 }", "only functions can be carried"),
    ],
)
def test_what_gopy_cannot_carry_fails_the_build(trial, source, fault):
    package, work = trial
    head = 'package trial\n\nimport _ "github.com/go-python/gopy/gopyh"\n\n'
    (package / "trial.go").write_text(head + source)
    with pytest.raises(BuildError) as error:
        surface.build(toolchain(), "1.2.3", package, work)
    assert fault in str(error.value)
