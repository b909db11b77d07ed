"""Rewrites what gopy generates, so that no call of it can end the process or leak.

As generated, a Go panic in any exported function aborts the interpreter. Some
paths return without taking the GIL back. Functions that return only an error
leak a C string per call. Void functions offer to run on a goroutine of their
own, where nothing recovers. The library is tied to the place and the name of
one Python installation. The functions here take the generated texts and
return them without these faults. They raise BuildError when gopy's output is
not what they were written for (v0.4.10), so that a new gopy cannot slip by.
"""

from __future__ import annotations

import re

from .toolchain import BuildError

# One exported function: its head, its name, its signature, its body.
_EXPORT = re.compile(r"(?P<head>//export (?P<name>\w+)\nfunc (?P<signature>[^\n]*)\{\n)(?P<body>.*?^\}\n)", re.S | re.M)

_SAVE = "\t_saved_thread := C.PyEval_SaveThread()\n"
_RESTORE = "C.PyEval_RestoreThread(_saved_thread)"

_PREAMBLE_END = '*/\nimport "C"\n'

# How exports give up the GIL and take it back, at the end of the preamble: by ending.c, if the library has it.
_GIL = """
extern PyThreadState *tgx_release_gil(void) __attribute__((weak));
extern void tgx_restore_gil(PyThreadState *) __attribute__((weak));
static inline PyThreadState *release_gil(void) { return tgx_release_gil ? tgx_release_gil() : PyEval_SaveThread(); }
static inline void restore_gil(PyThreadState *s) { tgx_restore_gil ? tgx_restore_gil(s) : PyEval_RestoreThread(s); }
"""

_RUNTIME = """
// ---- what every export above relies on ----

// gil is the thread state of a caller whose GIL is given up.
type gil struct{ state *C.PyThreadState }

// release gives up the GIL for the time of a call.
func release() gil { return gil{C.release_gil()} }

// restore takes the GIL back, once.
func (g *gil) restore() {
	if s := g.state; s != nil {
		g.state = nil
		C.restore_gil(s)
	}
}

// raise turns a recovered panic into a Python exception. It needs the GIL.
func raise(r any) {
	text := C.CString(fmt.Sprintf("[PanicError] %v\\n%s", r, debug.Stack()))
	C.PyErr_SetString(C.PyExc_RuntimeError, text)
	C.free(unsafe.Pointer(text))
}

// leave ends an export that gave up the GIL.
func leave(g *gil) {
	r := recover()
	g.restore()
	if r != nil {
		raise(r)
	}
}

// guard ends an export that kept the GIL.
func guard() {
	if r := recover(); r != nil {
		raise(r)
	}
}
"""


def exports(go: str) -> dict[str, str]:
    """Return the exported functions of the generated Go text: name to signature and body."""
    return {m["name"]: m["signature"] + "\n" + m["body"] for m in _EXPORT.finditer(go)}


def _without_own_goroutine(text: str) -> str:
    """Drop the goRun parameter of void functions, which starts an unguarded goroutine."""
    text = re.sub(
        r"\tif boolPyToGo\(goRun\) \{\n.*?\t\} else \{\n(.*?)\t\}\n",
        lambda m: re.sub(r"^\t", "", m[1], flags=re.M),
        text,
        flags=re.S,
    )
    return re.sub(r"(, )?goRun C\.char", "", text)


def _error_only(body: str) -> str:
    """Return None, instead of a C string that no one frees, from a function of one error result."""
    if "\tvar __err error\n" not in body:
        return body
    body = body.replace("\t\treturn estr\n", "\t\tC.free(unsafe.Pointer(estr))\n\t\treturn nil\n")
    return body.replace('\treturn C.CString("")\n', "\treturn nil\n")


def _export(m: re.Match[str]) -> str:
    """Rewrite one exported function."""
    head = _without_own_goroutine(m["head"])
    body = _error_only(_without_own_goroutine(m["body"]))
    if _SAVE not in body:
        return head + "\tdefer guard()\n" + body
    body = body.replace(f"\tdefer {_RESTORE}\n", "")
    body = body.replace(_SAVE, "\t_gil := release()\n\tdefer leave(&_gil)\n")
    return head + body.replace(_RESTORE, "_gil.restore()")


def harden_go(go: str) -> str:
    """Return the generated Go with a recover, and the GIL restored, on every path of every export."""
    out, n = _EXPORT.subn(_export, go)
    if n == 0 or n != len(re.findall(r"^//export ", go, re.M)):
        raise BuildError("gopy's output has exports of an unknown form: build_support/harden.py has to follow it")
    for left in ("_saved_thread", "goRun", "\treturn estr\n"):
        if left in out:
            raise BuildError(f"gopy's output still has {left.strip()!r}: build_support/harden.py has to follow it")
    # "k" is unsigned: negative numbers would arrive as 2**64 - n.
    out = out.replace('Py_BuildValue("k", val)', 'Py_BuildValue("L", (long long)val)')
    # The address of element 0 does not exist in an empty slice.
    out = out.replace("unsafe.Pointer(&s[0])", "unsafe.Pointer(unsafe.SliceData(s))")
    # The library must depend neither on libpython nor on where this Python lives.
    out = re.sub(r"^#cgo CFLAGS:.*$", "#cgo CFLAGS: -w", out, flags=re.M)
    out = re.sub(r"^#cgo LDFLAGS:.*$", "#cgo LDFLAGS: -Wl,--allow-shlib-undefined", out, flags=re.M)
    out = re.sub(r"^gopy gen .*\n", "", out, flags=re.M)
    if out.count(_PREAMBLE_END) != 1:
        raise BuildError("gopy's output has no preamble of a known form: build_support/harden.py has to follow it")
    out = out.replace(_PREAMBLE_END, _GIL + _PREAMBLE_END)
    out = out.replace("import (\n", 'import (\n\t"fmt"\n\t"runtime/debug"\n', 1)
    return out + _RUNTIME


def harden_pybindgen(script: str) -> str:
    """Return the pybindgen script with an exception check after every call, and strings freed."""
    script = re.sub(r"(, )?param\('bool', 'goRun'\)", "", script)
    strings = r"^mod\.add_function\((.*retval\('char\*'\).*)$"
    script = re.sub(strings, r"add_checked_string_function(mod, \1", script, flags=re.M)
    return re.sub(r"^mod\.add_function\(", "add_checked_function(mod, ", script, flags=re.M)


def harden_python(module: str) -> str:
    """Return the generated Python module without its changes of directory and its build path."""
    unwanted = r"^cwd = os\.getcwd\(\)\n|^currentdir = .*\n|^os\.chdir\(.*\)\n|^# gopy gen .*\n"
    module = re.sub(unwanted, "", module, flags=re.M)
    module = re.sub(r"(, )?goRun=False", "", module)
    return re.sub(r"(, )?goRun\)", ")", module)


def check_surface(declared: set[str], go: str, package: str) -> None:
    """Raise BuildError for exported functions that gopy left out, or carries in an unsafe way.

    declared is the set of exported function names in the Go sources. gopy leaves
    out what it cannot carry without an error; callbacks crash the interpreter,
    and handles of Go objects cost more than the calls they stand for.
    """
    made = {n.removeprefix(package + "_"): text for n, text in exports(go).items() if n.startswith(package + "_")}
    left_out = "gopy left it out (at most one result and an error can be returned)"
    faults = [f"{name}: {left_out}" for name in declared - made.keys()]
    not_a_function = "only functions can be carried, no types, constants or variables"
    faults += [f"{name}: {not_a_function}" for name in made.keys() - declared]
    for name in declared & made.keys():
        if "C.PyObject" in made[name].split("\n", 1)[0]:
            faults.append(f"{name}: callbacks cannot be carried")
        elif re.search(r"(FromHandle|handleFromPtr)_(?!Slice_byte\b)", made[name]):
            faults.append(f"{name}: parameters and results must be numbers, bool, string or []byte")
    if faults:
        listed = "\n  ".join(sorted(faults))
        raise BuildError(f"the functions of package {package} do not fit through gopy:\n  {listed}")
