"""Which library serves a device is found out without loading any."""

from __future__ import annotations

import subprocess
from pathlib import Path

import null_device
import pytest

import torch_go_xla.plugins as plugins


class Mine(plugins.DevicePlugin):
    """A plugin that says where its library is."""

    def library_path(self) -> str:
        return "/somewhere/libmine.so"


def test_a_registered_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PJRT_LIBRARY_PATH", raising=False)
    monkeypatch.setattr(plugins, "_plugins", dict(plugins._plugins))
    plugins.register_plugin("Mine", Mine())
    assert plugins.find_plugin("mine").library_path() == "/somewhere/libmine.so"
    with pytest.raises(TypeError, match="expected a DevicePlugin"):
        plugins.register_plugin("other", object())  # type: ignore[arg-type]


def test_what_a_plugin_states_reaches_its_library(ok, tmp_path: Path) -> None:
    """The options of its client, and variables, except those that the user has set."""
    library = str(null_device.build(tmp_path))
    out = ok("plugins/stated.py", PJRT_DEVICE="mine", PJRT_LIBRARY_PATH=None, LIBRARY=library, NULL_PJRT_DELAY_US="0")
    assert out.split() == ["3", "1000", "0"]


def test_options_reach_the_client_in_their_types(ok, tmp_path: Path) -> None:
    """The null plugin takes an int, and names the type of what it refuses: PJRT's numbers of them."""
    library = str(null_device.build(tmp_path))
    lines = ok("plugins/options.py", library, PJRT_DEVICE="mine", PJRT_LIBRARY_PATH=None).splitlines()
    for line, words in zip(
        lines,
        [
            "no option devices of type 0",
            "devices",
            "no option devices of type 2",
            "no option devices of type 3",
            "no option devices of type 4",
            *["TypeError: option devices of the plugin must be a string"] * 5,
            "TypeError: Object of type object",
            "2",
        ],
        strict=True,
    ):
        assert words in line, lines


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Packages with plugins: one by JAX's convention, one by an entry point, whose libraries must not be opened."""
    trap = tmp_path / "trap.c"
    trap.write_text("#include <stdlib.h>\n__attribute__((constructor)) static void opened(void) { abort(); }\n")
    jax = tmp_path / "jax_plugins" / "xla_trap"
    jax.mkdir(parents=True)
    (jax / "__init__.py").write_text("raise SystemExit('imported')")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", jax / "pjrt_plugin_trap.so", trap], check=True)
    (tmp_path / "jax_plugins" / "xla_empty").mkdir()
    (tmp_path / "named.py").write_text(
        "from torch_go_xla.plugins import DevicePlugin\n"
        "class Named(DevicePlugin):\n"
        f"    def library_path(self): return {str(jax / 'pjrt_plugin_trap.so')!r}\n"
    )
    info = tmp_path / "named-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: named\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[torch_go_xla.plugins]\nnamed = named:Named\n")
    return tmp_path


def test_nothing_is_loaded_while_searching(python, packages: Path) -> None:
    names = ["CPU", "CUDA", "TPU", "XLA_TRAP", "named", "xla_empty", "nothing"]
    done = python("plugins/search.py", packages, *names, PJRT_LIBRARY_PATH=None)
    assert done.code == 0, done.err
    lines = dict(line.split(" ", 1) for line in done.out.splitlines())
    library = str(packages / "jax_plugins" / "xla_trap" / "pjrt_plugin_trap.so")
    assert lines["CPU"].startswith("/") and lines["CPU"].endswith("libpjrt_xla_cpu.so")
    assert lines["XLA_TRAP"] == lines["named"] == library
    for name in ("CUDA", "TPU"):
        assert lines[name].startswith("/") or "pip install" in lines[name]
    for name in ("xla_empty", "nothing"):
        assert "refused:" in lines[name] and "XLA_TRAP" in lines[name] and "NAMED" in lines[name]


def test_a_plugin_among_those_of_jax_serves_a_device(ok, tmp_path: Path) -> None:
    package = tmp_path / "jax_plugins" / "null"
    package.mkdir(parents=True)
    null_device.build(package)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    out = ok(
        program + "import torch, torch_go_xla\nprint((torch.ones(2).to('xla') + torch.ones(2).to('xla')).tolist())",
        PJRT_DEVICE="null",
        PJRT_LIBRARY_PATH=None,
    )
    assert out.strip() == "[2.0, 2.0]"


def test_after_libraries_that_cannot_be_loaded_another_one_serves(ok, tmp_path: Path) -> None:
    out = ok("plugins/recovery.py", PJRT_DEVICE="null", LIBRARY=str(null_device.build(tmp_path)))
    assert out.splitlines() == ["RuntimeError True", "RuntimeError True", "[2.0, 2.0]"]


@pytest.mark.parametrize("plugin", [plugins.CudaPlugin, plugins.TpuPlugin])
def test_a_flag_that_the_library_does_not_know(
    plugin: type[plugins.DevicePlugin], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The vendors' libraries end the process for such a flag; the error comes before they are loaded."""
    library = tmp_path / "plugin.so"
    library.write_bytes(b"\0xla_dump_to\0xla_other")
    monkeypatch.setattr(plugin, "library_path", lambda self: str(library))
    monkeypatch.setitem(plugins._plugins, "CUDA", plugin())
    monkeypatch.setenv("PJRT_DEVICE", "CUDA")
    monkeypatch.delenv("PJRT_LIBRARY_PATH", raising=False)
    for good in ("", "--xla_dump_to=/tmp --xla_other", "flags.txt"):
        monkeypatch.setenv("XLA_FLAGS", good)
        assert plugins.device_settings(())["library"] == str(library)
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp --xla_no_such_flag=1")
    with pytest.raises(ValueError, match='unknown flag "xla_no_such_flag"'):
        plugins.device_settings(())


def test_what_a_gpu_is_compiled_for() -> None:
    name, options = plugins.CudaPlugin().topology_options("H100", 8)
    assert name == "" and options["topology"] == "1x1x8"
    assert "major: 9 minor: 0" in str(options["target_config"]) and "core_count: 132" in str(options["target_config"])
    assert "target_config" not in plugins.CudaPlugin().topology_options("", None)[1]
    assert plugins.TpuPlugin().topology_options("v5e:2x4", None) == ("v5e:2x4", {})
