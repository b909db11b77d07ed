"""The machine that the Go library is built for: this one, or another kind by ``TORCH_GO_XLA_TARGET``.

For another kind, Debian's cross compilers are enough. Headers of CPython are those of the Python
that builds: they are the same on all 64-bit Linux machines.
"""

from __future__ import annotations

import os
import platform
import shutil
import sysconfig
from dataclasses import dataclass

from .toolchain import BuildError, Toolchain


@dataclass(frozen=True)
class Target:
    """A kind of machine: the names that the kernel, Go and glibc have for it."""

    machine: str
    goarch: str
    oldest: str  # the version of the symbols that glibc had from the first on this machine

    @property
    def cross(self) -> bool:
        """Whether it is another kind than this machine's."""
        return self.machine != platform.machine()

    @property
    def suffix(self) -> str:
        """How the name of an extension module ends, such as ``.cpython-311-x86_64-linux-gnu.so``."""
        return str(sysconfig.get_config_var("EXT_SUFFIX")).replace(platform.machine(), self.machine)

    @property
    def platform(self) -> str:
        """The tag of its wheels."""
        return f"manylinux_2_28_{self.machine}"

    @property
    def compilers(self) -> dict[str, str]:
        """What Go calls to compile and link C and C++ for it, by variable; {} for this machine's own."""
        prefix = f"{self.machine}-linux-gnu"
        return {"CC": f"{prefix}-gcc", "CXX": f"{prefix}-g++"} if self.cross else {}

    @property
    def missing(self) -> list[str]:
        """The compilers for it that this machine does not have."""
        return [c for c in self.compilers.values() if shutil.which(c) is None]

    def tools(self, tools: Toolchain) -> Toolchain:
        """Return the toolchain with the settings by which Go compiles for it; BuildError without its compilers."""
        if not self.cross:
            return tools
        if self.missing:
            names = " and no ".join(self.missing)
            raise BuildError(f"no {names} (on Debian: apt install g++-{self.machine}-linux-gnu)")
        return Toolchain(tools.go, {**tools.env, **self.compilers, "GOARCH": self.goarch}, tools.python_include)


TARGETS = {t.machine: t for t in (Target("x86_64", "amd64", "GLIBC_2.2.5"), Target("aarch64", "arm64", "GLIBC_2.17"))}


def target() -> Target:
    """Return what ``TORCH_GO_XLA_TARGET`` names, this machine by default."""
    name = os.environ.get("TORCH_GO_XLA_TARGET") or platform.machine()
    if name not in TARGETS:
        raise BuildError(f"{name} is not a machine that can be built for: {', '.join(TARGETS)}")
    return TARGETS[name]
