"""What machine is built for, by the environment."""

import platform
import sysconfig

import pytest

from build_support import surface, target, toolchain


def test_this_machine_by_default(monkeypatch):
    monkeypatch.delenv("TORCH_GO_XLA_TARGET", raising=False)
    t = target.target()
    assert t.machine == platform.machine() and not t.cross
    assert surface.library_name() == "_goxla" + sysconfig.get_config_var("EXT_SUFFIX")


def test_another_machine(monkeypatch, tmp_path):
    other = next(m for m in target.TARGETS if m != platform.machine())
    monkeypatch.setenv("TORCH_GO_XLA_TARGET", other)
    t = target.target()
    assert t.cross and f"-{other}-" in surface.library_name() and t.platform == f"manylinux_2_28_{other}"
    tools = toolchain.Toolchain(tmp_path, {"PATH": ""}, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(toolchain.BuildError, match=f"no {other}-linux-gnu-gcc and no .*apt install"):
        t.tools(tools)
    for command in ("gcc", "g++"):
        file = tmp_path / f"{other}-linux-gnu-{command}"
        file.write_text("#!/bin/sh\n")
        file.chmod(0o755)
    env = t.tools(tools).env
    assert env["GOARCH"] == t.goarch and env["CC"] == f"{other}-linux-gnu-gcc"


def test_a_machine_that_cannot_be_built_for(monkeypatch):
    monkeypatch.setenv("TORCH_GO_XLA_TARGET", "vax")
    with pytest.raises(toolchain.BuildError, match="vax is not a machine that can be built for: x86_64, aarch64"):
        target.target()
