"""Lets the Go library load on systems with an older C library than the one it is built on.

glibc 2.32 and 2.34 gave functions that are decades old a new version, as they
moved from libpthread, libdl and libresolv into libc itself. 2.29 gave log one,
without the old handling of errors. What is linked on such a system asks for the
new version. Here it is linked against stubs of the old libraries first, which
newer systems still have. So it asks for the old version, and the wheel is a
``manylinux_2_28`` one.
"""

from __future__ import annotations

from pathlib import Path

from .target import target
from .toolchain import Toolchain

# Those that became a symbol later than a machine's first ones.
LATER = {"x86_64": {"pthread_condattr_setclock": "GLIBC_2.3.3"}}
# What Go's runtime and its package net call, and our C files.
FUNCTIONS = {
    "libdl.so.2": ("dladdr", "dlclose", "dlerror", "dlopen", "dlsym"),
    "libpthread.so.0": (
        "pthread_attr_getstack", "pthread_attr_getstacksize", "pthread_condattr_setclock", "pthread_create",
        "pthread_detach", "pthread_getattr_np", "pthread_key_create", "pthread_once", "pthread_setspecific",
        "pthread_sigmask",
    ),
    "libm.so.6": ("log",),
    "libresolv.so.2": ("__res_search",),
}  # fmt: skip


def stubs(tools: Toolchain, directory: Path) -> None:
    """Write the stubs into a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    compiler, machine = tools.go_env("CC").split(), target()
    for library, functions in FUNCTIONS.items():
        source, versions = directory / f"{library}.c", directory / f"{library}.versions"
        nodes: dict[str, str] = {}
        for name in functions:
            version = LATER.get(machine.machine, {}).get(name, machine.oldest)
            nodes[version] = nodes.get(version, "") + f"{name}; "
        versions.write_text("".join(f"{version} {{ {names}}};\n" for version, names in nodes.items()))
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in functions))
        tools.run(
            *compiler, "-shared", "-nostdlib", "-fno-builtin", f"-Wl,-soname,{library}",
            f"-Wl,--version-script={versions}", "-o", directory / library, source,
        )  # fmt: skip


def linked(tools: Toolchain, directory: Path) -> Toolchain:
    """Return the toolchain with settings by which Go links against the stubs in a directory."""
    libraries = " ".join(f"-l:{library}" for library in FUNCTIONS)
    env = dict(tools.env)
    # Headers older than glibc 2.34 have the same definition.
    env["CGO_CFLAGS"] = f"{env['CGO_CFLAGS']} -Dres_search=__res_search"
    env["CGO_LDFLAGS"] = f"{env.get('CGO_LDFLAGS', '-O2 -g')} -L{directory} {libraries}"
    return Toolchain(tools.go, env, tools.python_include)
