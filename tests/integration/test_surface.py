"""The names of torch_xla that programs use are there."""

from __future__ import annotations

import importlib
import inspect
import json

import pytest
import torch

import torch_go_xla

SURFACE = {
    "torch_go_xla": "device devices device_count sync step manual_seed real_devices __version__ _XLAC",
    "torch_go_xla.core.xla_model": "xla_device mark_step wait_device_ops save get_rng_state set_rng_state "
    "optimizer_step get_memory_info master_print is_master_ordinal unlazy xla_device_hw get_xla_supported_devices "
    "is_xla_tensor send_cpu_data_to_device get_stablehlo xla_real_devices",
    "torch_go_xla._XLAC": "_xla_get_cpu_tensors _functionalize_sync _xla_functionalize_sync _xla_sync_multi "
    "_xla_step_marker _get_xla_tensors_text _get_xla_tensors_hlo _get_xla_tensors_dot _xla_wait_device_ops "
    "_get_stablehlo _set_buffer_donation _get_buffer_donation _xla_get_devices _xla_memory_info",
    "torch_go_xla.runtime": "device_type global_runtime_device_count world_size global_ordinal initialize_cache "
    "local_ordinal process_index process_count set_device_type is_bf16_supported get_num_cached_compilation_graph",
    "torch_go_xla.debug.metrics": "metrics_report short_metrics_report counter_names counter_value metric_names "
    "metric_data clear_all clear_counters clear_metrics executed_fallback_ops",
    "torch_go_xla.debug.profiler": "Trace StepTrace trace_me trace start_trace stop_trace trace_detached start_server",
    "torch_go_xla.plugins": "DevicePlugin register_plugin",
}


@pytest.mark.parametrize("module", SURFACE)
def test_names(module: str) -> None:
    found = importlib.import_module(module)
    missing = [name for name in SURFACE[module].split() if not hasattr(found, name)]
    assert not missing


@pytest.mark.parametrize("module", SURFACE)
def test_every_public_function_is_documented(module: str) -> None:
    found = importlib.import_module(module)
    names = SURFACE[module].split()
    bare = [n for n in names if inspect.isfunction(getattr(found, n)) and not (getattr(found, n).__doc__ or "").strip()]
    assert not bare, f"without a docstring: {bare}"


def test_the_binding_surface_is_small() -> None:
    from torch_go_xla._go import _goxla

    functions = [n for n in dir(_goxla) if n.startswith("bindings_")]
    assert 0 < len(functions) <= 95, sorted(functions)


def test_schemas_of_the_table_are_torchs() -> None:
    from torch_go_xla._core import core

    rows = [(r["name"], r["schema"]) for r in core.op_table() if "::" not in r["name"]]
    assert len(rows) > 300
    wrong = []
    for name, schema in rows:
        base, _, overload = name.partition(".")
        theirs = str(torch._C._get_schema(f"aten::{base}", overload)).partition("(")[2]
        if "(" + theirs != schema:
            wrong.append((name, schema, "(" + theirs))
    assert not wrong, json.dumps(wrong[:5], indent=1)


def test_strings_and_properties() -> None:
    t = torch.ones(2, device="xla")
    assert str(t.device) == "xla:0" and t.is_xla and not torch.ones(2).is_xla
    assert "device='xla:0'" in repr(t)
    assert torch.ones(2).xla().device == t.device
    assert torch_go_xla.real_devices() == ["CPU:0"]
    assert torch_go_xla.devices() == [torch.device("xla:0")]
