"""What a wheel carries, and what building one needs."""

from pathlib import Path

from build_support import backend, pipeline, plugin

PLUGIN = Path("torch_go_xla", "_lib", "libpjrt_xla_cpu.so")


def test_a_wheel_carries_the_plugin_prebuilt(monkeypatch):
    monkeypatch.delenv(plugin.SWITCH, raising=False)
    assert PLUGIN in pipeline.products()
    # Of the one release whose layouts it is compiled for, at build as at run time.
    assert plugin.requirement() in backend.get_requires_for_build_wheel()
    assert plugin.requirement().startswith("tensorflow-cpu==")


def test_the_plugin_can_be_left_out(monkeypatch):
    monkeypatch.setenv(plugin.SWITCH, "0")
    assert PLUGIN not in pipeline.products()
    assert plugin.requirement() not in backend.get_requires_for_build_wheel()
