"""Names of variables of the environment: torch_xla's ``torch_xla.core.xla_env_vars``.

docs/environment.md says which of them mean something here.
"""

__all__ = [
    "ACCELERATOR_TYPE",
    "CLOUD_TPU_TASK_ID",
    "CPU_NUM_DEVICES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "PJRT_CPU_ASYNC_CLIENT",
    "PJRT_DEVICE",
    "PJRT_DIST_SERVICE_ADDR",
    "PJRT_DYNAMIC_PLUGINS",
    "PJRT_LOCAL_PROCESS_COUNT",
    "PJRT_LOCAL_PROCESS_RANK",
    "PJRT_SELECT_DEFAULT_DEVICE",
    "RANK",
    "TPUVM_MODE",
    "TPU_ACCELERATOR_TYPE",
    "TPU_CHIPS_PER_HOST_BOUNDS",
    "TPU_CHIPS_PER_PROCESS_BOUNDS",
    "TPU_HOST_BOUNDS",
    "TPU_MESH_CTLER_ADDR",
    "TPU_MESH_CTLER_PORT",
    "TPU_NUM_DEVICES",
    "TPU_PROCESS_ADDRESSES",
    "TPU_PROCESS_BOUNDS",
    "TPU_PROCESS_PORT",
    "TPU_SKIP_MDS_QUERY",
    "TPU_VISIBLE_CHIPS",
    "TPU_WORKER_HOSTNAMES",
    "TPU_WORKER_ID",
    "WORKER_ID",
    "WORLD_SIZE",
]

TPUVM_MODE = "TPUVM_MODE"  # torch_xla's: whether the host is a TPU VM
TPU_NUM_DEVICES = "TPU_NUM_DEVICES"  # torch_xla's: number of TPU devices
CPU_NUM_DEVICES = "CPU_NUM_DEVICES"  # number of devices of the CPU plugin
CLOUD_TPU_TASK_ID = "CLOUD_TPU_TASK_ID"  # Cloud TPU's: index of this host
ACCELERATOR_TYPE = "ACCELERATOR_TYPE"  # Cloud TPU's: model and size of the slice
WORKER_ID = "WORKER_ID"  # Cloud TPU's: index of this host
TPU_SKIP_MDS_QUERY = "TPU_SKIP_MDS_QUERY"  # libtpu's: 1 to ask no metadata server
TPU_ACCELERATOR_TYPE = "TPU_ACCELERATOR_TYPE"  # libtpu's: model and size of the slice
TPU_WORKER_ID = "TPU_WORKER_ID"  # libtpu's: index of this host
TPU_WORKER_HOSTNAMES = "TPU_WORKER_HOSTNAMES"  # libtpu's: addresses of all hosts
TPU_HOST_BOUNDS = "TPU_HOST_BOUNDS"  # libtpu's: sizes of the array of hosts
TPU_CHIPS_PER_HOST_BOUNDS = "TPU_CHIPS_PER_HOST_BOUNDS"  # libtpu's: sizes of the array of chips of a host
TPU_MESH_CTLER_ADDR = "TPU_MESH_CONTROLLER_ADDRESS"  # libtpu's: address of the mesh controller
TPU_MESH_CTLER_PORT = "TPU_MESH_CONTROLLER_PORT"  # libtpu's: port of the mesh controller
PJRT_DEVICE = "PJRT_DEVICE"  # the device: CPU, CUDA, TPU or the name of a plugin
PJRT_SELECT_DEFAULT_DEVICE = "PJRT_SELECT_DEFAULT_DEVICE"  # torch_xla's: whether to choose a device without PJRT_DEVICE
PJRT_LOCAL_PROCESS_RANK = "PJRT_LOCAL_PROCESS_RANK"  # torch_xla's: index of the process on this machine
PJRT_LOCAL_PROCESS_COUNT = "PJRT_LOCAL_PROCESS_COUNT"  # torch_xla's: number of processes on this machine
PJRT_DYNAMIC_PLUGINS = "PJRT_DYNAMIC_PLUGINS"  # torch_xla's: whether to look for plugins
TPU_CHIPS_PER_PROCESS_BOUNDS = "TPU_CHIPS_PER_PROCESS_BOUNDS"  # libtpu's: sizes of the array of chips of a process
TPU_PROCESS_BOUNDS = "TPU_PROCESS_BOUNDS"  # libtpu's: sizes of the array of processes
TPU_PROCESS_ADDRESSES = "TPU_PROCESS_ADDRESSES"  # libtpu's: addresses of all processes
TPU_VISIBLE_CHIPS = "TPU_VISIBLE_CHIPS"  # libtpu's: chips that the process uses
TPU_PROCESS_PORT = "TPU_PROCESS_PORT"  # libtpu's: port of the process
PJRT_CPU_ASYNC_CLIENT = "PJRT_CPU_ASYNC_CLIENT"  # torch_xla's: whether its CPU device runs in the background
PJRT_DIST_SERVICE_ADDR = "PJRT_DIST_SERVICE_ADDR"  # torch_xla's: address of the job's store
LOCAL_RANK = "LOCAL_RANK"  # index of the process on this machine, set by torchrun
RANK = "RANK"  # index of the process in the job, set by torchrun
WORLD_SIZE = "WORLD_SIZE"  # number of processes of the job, set by torchrun
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"  # number of processes on this machine, set by torchrun
