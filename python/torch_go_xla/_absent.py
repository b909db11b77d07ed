"""What torch_xla 2.9 has and this package does not, and what to use in its place.

A test holds torch_xla's public names against the package and this table (tests/test_absent.py).
"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import NoReturn

__all__ = ["attributes", "reason"]

_OWN = "it is an internal of torch_xla"
_TOOL = "it reads files that only torch_xla writes"
_DEBUG = "use torch_go_xla.debug.compilations.explain and torch_go_xla.debug.profiler"
_PALLAS = "its kernels are for TPU only: use torch.nn.functional.scaled_dot_product_attention"
_BUILDER = "programs are not built by hand: write them in torch, or use torch.cond, torch.while_loop and scan"
_BUNDLE = "a bundle is a folder of StableHLO, JSON and numpy files: see docs of torch_go_xla.stablehlo"
_FLAT = "torch's fully_shard does not flatten parameters: save by torch.distributed.checkpoint"
_TF = "TensorFlow is not used: run bundles by torch_go_xla_runtime"
_DYNAMIC = "sizes are static: export a program for each"
_QUANTIZED = "use torch.ao and torchao: their quantize and dequantize ops are lowered"
_RECORDED = "it is a helper of torch_xla's own loop: use torch_go_xla.experimental.scan.scan"
_GROUP = "the backend is a class of torch's own: use torch.distributed with init_process_group('xla')"

# Modules, and names behind their module. A name that ends in * stands for all that begin so.
_TABLE = {
    "torch_xla.logger": "use logging.getLogger('torch_go_xla')",
    "torch_xla.dist": _OWN,
    "torch_xla._patched_functions": _OWN,
    "torch_xla.amp.autocast_mode": "use torch_go_xla.amp.autocast",
    "torch_xla.amp.syncfree.*": "use torch_go_xla.amp.syncfree",
    "torch_xla.backends.logger": _OWN,
    "torch_xla.core.functions.AllReduce*": "use torch_go_xla.core.functions.all_reduce",
    "torch_xla.core.functions.AllGather*": "use torch_go_xla.core.functions.all_gather",
    "torch_xla.core.xla_builder.*": _BUILDER,
    "torch_xla.core.xla_model.XLA_LIB": "define ops by torch.library",
    "torch_xla.core.xla_model.DeviceContext*": _OWN,
    "torch_xla.core.xla_model.CoalescingBuckets*": "collectives of lists are combined by the compiler",
    "torch_xla.core.xla_model.send": "use torch.distributed.send or collective_permute",
    "torch_xla.core.xla_model.recv": "use torch.distributed.recv or collective_permute",
    "torch_xla.core.xla_model.get_stablehlo_bytecode": "use get_stablehlo, which returns the text",
    "torch_xla.core.xla_op_registry": _BUILDER,
    "torch_xla.debug.frame_parser_util": _TOOL,
    "torch_xla.debug.metrics_compare_utils": _TOOL,
    "torch_xla.debug.model_comparator": "compare with torch on the CPU by torch.testing.assert_close",
    "torch_xla.debug.profiler.*_tracer_marked_step": _OWN,
    "torch_xla.distributed.data_parallel": "threads do not share devices: use DistributedDataParallel or SPMD",
    "torch_xla.distributed.fsdp._init_utils": _OWN,
    "torch_xla.distributed.fsdp.consolidate_sharded_ckpts": _FLAT,
    "torch_xla.distributed.fsdp.state_dict_utils": _FLAT,
    "torch_xla.distributed.fsdp.utils.*": _OWN,
    "torch_xla.distributed.fsdp.xla_flatten_params_wrapper": _FLAT,
    "torch_xla.distributed.fsdp.xla_fully_sharded_data_parallel": "use torch_go_xla.distributed.fsdp",
    "torch_xla.distributed.parallel_loader.PerDeviceQueue*": _OWN,
    "torch_xla.distributed.parallel_loader.ParallelLoader.send_cpu_data_to_device": _OWN,
    "torch_xla.distributed.spmd.api.log": _OWN,
    "torch_xla.distributed.spmd.api.with_xla": _OWN,
    "torch_xla.distributed.spmd.debugging.RICH_ENABLED": _OWN,
    "torch_xla.distributed.spmd.xla_sharded_tensor.no_dispatch": _OWN,
    "torch_xla.distributed.spmd.xla_sharding.Mesh.get_jax_mesh": "JAX is not used",
    "torch_xla.distributed.spmd.xla_sharding.PyTree*": _OWN,
    "torch_xla.distributed.spmd.xla_sharding.shard_as": "use mark_sharding with the spec of the other tensor",
    "torch_xla.distributed.spmd.xla_sharding.aot_mark_sharding_fake": _OWN,
    "torch_xla.distributed.spmd.xla_sharding.EinsumLinear.__init__": "its parameters are those of torch.nn.Linear",
    "torch_xla.distributed.xla_backend.*": _GROUP,
    "torch_xla.distributed.xla_multiprocessing.device_kind_handler_dict": _OWN,
    "torch_xla.distributed.xla_multiprocessing.create_optimized_replica_groups": _OWN,
    "torch_xla.experimental.assume_pure.*": _OWN,
    "torch_xla.experimental.custom_kernel.*": _PALLAS,
    "torch_xla.experimental.deprecation": _OWN,
    "torch_xla.experimental.distributed_checkpoint._helpers": _OWN,
    "torch_xla.experimental.distributed_checkpoint.manager": "use the package's CheckpointManager",
    "torch_xla.experimental.distributed_checkpoint.planners": "use torch.distributed.checkpoint's planners",
    "torch_xla.experimental.distributed_checkpoint.util": "use the package's prime_optimizer",
    "torch_xla.experimental.dynamo_mark_sharding": "mark_sharding works under torch.compile",
    "torch_xla.experimental.dynamo_set_buffer_donor": "donation is decided by reference counts",
    "torch_xla.experimental.gradient_accumulation.*": _OWN,
    "torch_xla.experimental.pjrt_backend": _GROUP,
    "torch_xla.experimental.quantized": _QUANTIZED,
    "torch_xla.experimental.scan.*": _RECORDED,
    "torch_xla.experimental.splash_attention": _PALLAS,
    "torch_xla.experimental.stablehlo_custom_call.extract_custom_call_outputs_shape_dtype": _OWN,
    "torch_xla.experimental.stablehlo_custom_call.to_*_backward": _OWN,
    "torch_xla.experimental.unbounded_dynamism_export": _DYNAMIC,
    "torch_xla.experimental.xla_dynamic_reshape_ops": _DYNAMIC,
    "torch_xla.experimental.xla_marker": "use torch_go_xla.experimental.mark_pattern_utils",
    "torch_xla.experimental.xla_mlir_debuginfo": _DEBUG,
    "torch_xla.experimental.xla_quantized_matmul": _QUANTIZED,
    "torch_xla.runtime.R": _OWN,
    "torch_xla.runtime.FN": _OWN,
    "torch_xla.stablehlo.*": _BUNDLE,
    "torch_xla.tf_saved_model_integration": _TF,
    "torch_xla.utils.checkpoint.*": _OWN,
    "torch_xla.utils.checkpoint_tagger": "use torch_go_xla.experimental.distributed_checkpoint.CheckpointManager",
    "torch_xla.utils.keyd_queue": "use queue of the standard library",
    "torch_xla.utils.stablehlo_test_utils": _TF,
}


def reason(name: str) -> str | None:
    """Return why a module or a name of torch_xla is absent and what to use; None if it is not in the table.

    Example:
        >>> from torch_go_xla._absent import reason
        >>> reason("torch_xla.core.xla_builder.create_builder")
        'programs are not built by hand: write them in torch, or use torch.cond, torch.while_loop and scan'
    """
    for pattern, text in _TABLE.items():
        if fnmatchcase(name, pattern):
            return text
    return None


def attributes(module: str) -> Callable[[str], NoReturn]:
    """Return the ``__getattr__`` of a module: names of torch_xla's module that are absent say what to use."""

    def __getattr__(name: str) -> NoReturn:
        why = reason(f"torch_xla{module.removeprefix('torch_go_xla')}.{name}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}" + (f": {why}" if why else ""))

    return __getattr__
