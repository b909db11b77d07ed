"""The seams. A row states what is replaced, why, in which torch, by what, and what is lost without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Target:
    """A place in torch.

    Attributes:
        path: its dotted name.
        parameters: the names of the parameters of the function there, None for what shows none. A torch in which they
            are others has another function there. A name that ends in "?" is missing in older releases.
        new: whether torch has nothing there.

    Example:
        >>> from torch_go_xla.debug import seams
        >>> [target.path for target in seams.records()[0].seam.targets]
        ['torch.Tensor.is_xla', 'torch.Tensor.xla']
    """

    path: str
    parameters: tuple[str, ...] | None = None
    new: bool = False


@dataclass(frozen=True)
class Seam:
    """One row.

    Attributes:
        name: what the switch calls it.
        targets: what it replaces.
        reason: why torch needs it.
        loss: what users lose without it.
        replace: "module:function" of this package. The function takes what is at the targets, None for a new one, and
            returns what is to be there, a tuple for several targets.
        at: when it is applied: with the import, or with the first mesh of xla devices.
        by_hand: the function takes nothing and applies the seam itself; it returns "", or why this torch has no place
            for it.
        essential: without it values would be wrong or the process would end, so it cannot be left out.
        since, until: the first and the last minor release of torch that it is for.

    Example:
        >>> from torch_go_xla.debug import seams
        >>> all(record.seam.reason and record.seam.loss for record in seams.records())
        True
    """

    name: str
    targets: tuple[Target, ...]
    reason: str
    loss: str
    replace: str
    at: Literal["import", "mesh"] = "import"
    by_hand: bool = False
    essential: bool = False
    since: tuple[int, int] = (2, 13)
    until: tuple[int, int] | None = None


def _has(path: str, *parameters: str) -> Target:
    return Target(path, parameters or None)


def _new(path: str) -> Target:
    return Target(path, new=True)


TABLE: tuple[Seam, ...] = (
    # ---- tensors ----
    Seam(
        "tensor-xla",
        (_has("torch.Tensor.is_xla"), _new("torch.Tensor.xla")),
        reason="torch generates these for a named PrivateUse1 device, but refuses the name xla, which it has already",
        loss="t.xla() is missing, and t.is_xla is False for tensors of the device",
        replace="tensors:xla_names",
    ),
    Seam(
        "module-xla",
        (_new("torch.nn.Module.xla"), _new("torch.nn.utils.rnn.PackedSequence.xla")),
        reason="as for tensor-xla",
        loss="module.xla() and packed_sequence.xla() are missing; .to('xla') does the same",
        replace="modules:xla_methods",
    ),
    Seam(
        "wrapped-number",
        (_new("torch.Tensor._wrapped_number"),),
        reason="torch asks the tensor that it makes of a Python number for this attribute, and without it builds an "
        "AttributeError for each call of a Python kernel",
        loss="time only",
        replace="tensors:wrapped_number",
    ),
    Seam(
        "pin-memory",
        (_has("torch.Tensor.pin_memory"),),
        reason="torch asks the device's C++ hooks for a pinned allocator; Python cannot register one",
        loss="t.pin_memory() and DataLoader(pin_memory=True) raise",
        replace="tensors:pin_memory",
    ),
    Seam(
        "deepcopy",
        (_has("torch.Tensor.__deepcopy__", "self", "memo"),),
        reason="torch clones tensors of a device named xla one by one, as torch_xla's have no storage",
        loss="a deep copy of tensors that share a storage no longer shares one",
        replace="tensors:deepcopy",
        essential=True,
    ),
    Seam(
        "pickle",
        (_has("torch.Tensor._reduce_ex_internal", "self", "proto"),),
        reason="torch pickles tensors of a device named xla through numpy, without their storage",
        loss="tensors that share a storage are saved as several",
        replace="storages:reduce_ex",
        essential=True,
    ),
    # ---- storages ----
    Seam(
        "storage",
        (
            _has("torch.UntypedStorage.__new__", "args", "kwargs"),
            _has("torch.UntypedStorage.resize_"),
            _has("torch.UntypedStorage.cpu", "self"),
        ),
        reason="torch makes and resizes storages by the device's C++ allocator; Python cannot register one",
        loss="torch dereferences a null allocator, and the process ends",
        replace="storages:methods",
        essential=True,
    ),
    Seam(
        "storage-size",
        (Target("torch.UntypedStorage.nbytes"),),
        reason="no API of torch sets the size of a storage without its allocator; it is a word in c10::StorageImpl, "
        "found by its value",
        loss="t.resize_() beyond the storage, and storage.resize_(), raise",
        replace="storages:find_size",
        by_hand=True,
    ),
    Seam(
        "dlpack",
        (
            _has("torch.Tensor.__dlpack__", "self", "stream", "max_version", "dl_device", "copy", "read_only?"),
            _has("torch.Tensor.__dlpack_device__", "self"),
            _has("torch.to_dlpack"),
            _has("torch.utils.dlpack.to_dlpack"),
            _has("torch.from_dlpack", "ext_tensor", "device", "copy"),
            _has("torch.utils.dlpack.from_dlpack", "ext_tensor", "device", "copy"),
        ),
        reason="torch leaves __dlpack__ of a device named xla to torch_xla, and its C++ takes a handle for an address",
        loss="numpy.from_dlpack(t) and its kin raise, and from_dlpack(x, device='xla') always copies",
        replace="dlpack:functions",
    ),
    Seam(
        "generator",
        (Target("torch.Generator"),),
        reason="torch.Generator(device) asks the device's C++ hooks; its tp_new is replaced",
        loss='torch.Generator("xla") raises',
        replace="in_c:generators",
        by_hand=True,
    ),
    # ---- modules ----
    Seam(
        "parameters",
        (
            _has("torch.nn.Module.to", "self", "args", "kwargs"),
            _has("torch.nn.Module.cpu", "self"),
            _has("torch.nn.Module.to_empty", "self", "device", "recurse"),
        ),
        reason="torch exchanges the data of a parameter only between devices of one tensor type",
        loss="moving a module makes other parameters: ties between them, and optimizers made before, lose theirs",
        replace="modules:moves",
        essential=True,
    ),
    # ---- settings and services of the process ----
    Seam(
        "default-dtype",
        (_has("torch.set_default_dtype", "d"),),
        reason="the core computes result types, and nothing tells it of a new default",
        loss="after torch.set_default_dtype, ops that promote integers give float32",
        replace="process:default_dtype",
        essential=True,
    ),
    Seam(
        "matmul-precision",
        (_has("torch.set_float32_matmul_precision", "precision"),),
        reason="the core compiles products with a precision, and nothing tells it of a new one",
        loss="torch.set_float32_matmul_precision changes nothing on the device",
        replace="process:matmul_precision",
    ),
    Seam(
        "accelerator",
        (
            _has("torch.accelerator.synchronize", "device"),
            _has("torch.accelerator.current_device_index"),
            _has("torch.accelerator.set_device_index", "device"),
        ),
        reason="torch.accelerator asks the C++ guard, which knows the first device only, and cannot wait for it",
        loss="torch.accelerator.synchronize() raises, and set_device_index() changes nothing",
        replace="process:accelerator",
    ),
    Seam(
        "accelerator-memory",
        tuple(
            _has(f"{module}.{name}", *parameters)
            for module in ("torch.accelerator.memory", "torch.accelerator")  # which has the functions of the former
            for name, *parameters in (
                ("memory_stats", "device_index"),
                ("reset_accumulated_memory_stats", "device_index"),
                ("reset_peak_memory_stats", "device_index"),
                ("get_memory_info", "device_index"),
                ("empty_cache",),
            )
        ),
        reason="torch.accelerator asks the device's C++ allocator; Python cannot register one",
        loss="torch.accelerator.memory_allocated() and its kin fail an assertion in torch",
        replace="process:accelerator_memory",
    ),
    Seam(
        "backward-thread",
        (_has("torch.autograd.Variable._execution_engine"),),
        reason="torch runs a backward pass in a thread for each device, but starts one for xla:0 only, as a guard that "
        "Python registers counts one device. It has a setting for the calling thread, which every new thread loses",
        loss="backward() on xla:1 and later fails in torch's engine; on xla:0 the GIL changes hands for every op",
        replace="process:engine",
    ),
    Seam(
        "dynamo-openxla",
        (Target("torch._dynamo.backends.torchxla"),),
        reason="torch has a backend openxla of its own, which wants torch_xla, and keeps the first of a name",
        loss='torch.compile(backend="openxla") raises, as there is no torch_xla; the entry point is not looked at',
        replace="process:dynamo_backend",
        by_hand=True,
    ),
    # ---- in C, for speed ----
    Seam(
        "shortcuts",
        (Target("torch._C.TensorBase"),),
        reason="torch's argument parser and dispatcher take more time than recording an op; see "
        "gocore/pyfast/shortcut.c, which stands in front of the C functions of common methods and functions",
        loss="time only",
        replace="in_c:shortcuts",
        by_hand=True,
    ),
    Seam(
        "device-guard",
        (Target("torch._C._acc.DeviceGuard"),),
        reason="torch's guard for Python devices asks Python for the device type, with the GIL, several times for an "
        "op that needs a gradient; five slots of its vtable are replaced (gocore/pyfast/guard.c)",
        loss="time only: an op that needs a gradient takes 4.6 us instead of 3.7, three and their backward pass 76 "
        "instead of 67",
        replace="in_c:device_guard",
        by_hand=True,
        since=(2, 15),
        until=(2, 15),  # the layout of the vtable
    ),
    # ---- meshes and DTensors ----
    Seam(
        "device-mesh",
        (_has("torch.distributed.device_mesh.DeviceMesh.__new__", "args", "kwargs"),),
        reason="torch leaves a mesh of a device named xla to torch_xla: it makes no process groups and has no rank",
        loss='init_device_mesh("xla", ...) makes a mesh on which nothing works',
        replace="meshes:new_mesh",
    ),
    Seam(
        "dtensor",
        (
            _has("torch.distributed.tensor._api._FromTorchTensor"),
            _has("torch.distributed.tensor._api.Redistribute"),
            _has(
                "torch.distributed.tensor._api._dtensor_init_helper",
                *("init_op", "size", "device_mesh", "placements", "kwargs"),
            ),
        ),
        reason="a DTensor on a mesh of devices holds its logical tensor, a DTensor of torch's its local one",
        loss="on a mesh of devices redistribute() raises; from_local() and the factories make DTensors of local values",
        replace="meshes:dtensor_api",
        at="mesh",
    ),
    Seam(
        "dtensor-distribute",
        (Target("torch_xla.distributed.spmd", new=True),),
        reason="for a device named xla, distribute_tensor and distribute_module import their work from torch_xla",
        loss="distribute_tensor and distribute_module raise ImportError, on every mesh",
        replace="meshes:torch_xla_hook",
        at="mesh",
        by_hand=True,
    ),
    Seam(
        "dtensor-foreach",
        (_has("torch.optim.optimizer._foreach_supported_types"),),
        reason="optimizers update the parameters of listed types together, others one by one",
        loss="time only: an optimizer records an op for each parameter",
        replace="meshes:foreach_types",
        at="mesh",
    ),
    Seam(
        "fully-shard",
        (
            _has("torch.distributed.fsdp._fully_shard._fully_shard._get_mesh_info", "mesh", "dp_mesh_dims"),
            _has(
                "torch.distributed.fsdp._fully_shard._fully_shard._init_param_group",
                *("state", "params", "modules", "mesh_info", "post_forward_mesh_info", "device"),
                *("shard_placement_fn", "mp_policy", "offload_policy", "reshard_after_forward"),
            ),
        ),
        reason="XLA gathers parameters and scatters gradients on a mesh of devices; torch would by process groups",
        loss="fully_shard fails on a mesh of devices",
        replace="meshes:fully_shard",
        at="mesh",
    ),
)
