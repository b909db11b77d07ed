"""Runs torch_xla's own SPMD tests on this package, under the name torch_xla.

    python tests/upstream/spmd.py CHECKOUT [FILE...]

CHECKOUT is a working copy of torch_xla's repository. Every file runs in a process of its own, on 4 devices. Printed
are the counts beside those of torch_xla 2.9, and the tests that fail, with the reason where it is a known difference.
The exit status is 1 if one fails without a reason.
"""

from __future__ import annotations

import sys

from runner import Suite

# By file: what passes with torch_xla 2.9 itself.
FILES: dict[str, int | str | None] = {
    "test_xla_sharding": 81,
    "test_xla_sharded_tensor": 2,
    "test_xla_virtual_device": None,
    "test_dtensor_integration": 3,
    "test_dtensor_integration2": 1,
    "test_dtensor_integration3": 1,
    "test_dtensor_convert_mesh": 7,
    "test_dtensor_redistribute": 13,
    "test_xla_dtensor_placements": 3,
    "test_xla_dtensor_spec_conversion": 10,
    "test_xla_spmd_python_api_interaction": 22,
    "test_fsdp_v2": None,
    "test_mp_input_sharding": None,
    "test_spmd_debugging": None,
    "test_spmd_parameter_wrapping": None,
    "test_dynamo_spmd": None,
    "test_xla_sharding_hlo": None,
}

_TEXT = "asserts lines of XLA's text form of the program; ours is StableHLO"
_PROPAGATED = "distribute_tensor gives torch's own kind of DTensor, whose results know their placements"
_ONE = "expects that the process has one CPU device"
_UPLOADED = "expects that tensors wait on the host; here they are sent at once"
_COUNTER = "asks for a counter or a timing of torch_xla's implementation"
_REPLICATED = "a result that is on every device because the compiler chose so counts as not sharded"

# By test: why it fails here.
DIFFERENCES: dict[str, str] = {
    "test_2d_tensor_3d_mesh": _TEXT,
    "test_annotate_custom_sharding": _TEXT,
    "test_backward_optimization_barrier": _TEXT,
    "test_fsdp_v2_basic": _TEXT,
    "test_inplace_add_with_sharding": _TEXT,
    "test_mark_manual_sharding": _TEXT,
    "test_mark_sharding_aot_compile": _TEXT,
    "test_mark_sharding_autograd": _TEXT,
    "test_mark_sharding_ir": _TEXT,
    "test_spmd_full_to_shard_shape": _TEXT,
    "test_spmd_shard_to_full_shape": _TEXT,
    "test_xla_sharded_hlo_dump": _TEXT,
    "test_metrics_recorded": _COUNTER,
    "test_model_weight_metrics": _COUNTER,
    "test_op_sharding_cache": _COUNTER,
    "test_dynamo_input_sharding_changed": _COUNTER,
    "test_sharding_propagation": _COUNTER,
    "test_propagate_replicated_sharding": _REPLICATED,
    "test_dynamo_spmd_output_sharding_spec": _REPLICATED,
    "test_dynamo_input_sharding_threashold": "expects a failure once an input was resharded often; here it compiles",
    "test_xla_sharded_hlo_dump_post_optimizations": _TEXT,
    "test_fallback": "expects polar to run on the host; here the device computes it",
    "test_virtual_device_no_upload": _UPLOADED,
    "test_virtual_device_upload_after_mark_sharding": _UPLOADED,
    "test_virtual_device_upload_after_tracing": _UPLOADED,
    "test_xla_distribute_module_auto": "automatic sharding is not supported",
    "test_xla_distribute_tensor": _PROPAGATED,
    "test_xla_placement": _PROPAGATED,
    "test_placements_caching_behavior": _PROPAGATED,
    "test_auto_wrapped_tensor_spec_failure": _PROPAGATED,
    "test_spec_caching": _PROPAGATED,
    "test_device_count_mismatch_assertion": "the mesh is refused when torch makes it, with a RuntimeError",
    "test_global_runtime_device_count": _ONE,
    "test_addressable_runtime_device_count": _ONE,
    "test_debugging_spmd_single_host_tiled_cpu": _ONE,
    "test_multi_host_replicated_cpu": _ONE,
    "test_single_host_partial_replication_cpu": _ONE,
    "test_single_host_replicated_cpu": _ONE,
    "test_runtime_spmd_api": "turns SPMD off by an environment variable; here it stays on",
    "test_xla_backend": "expects that SPMD and a process group exclude each other",
}


if __name__ == "__main__":
    sys.exit(Suite("spmd", FILES, DIFFERENCES, devices=4, single=_ONE).main())
