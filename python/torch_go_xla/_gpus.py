"""What the CUDA plugin must know of a GPU to compile for it where it is absent.

The figures are those of NVIDIA's data sheets, and of the table of compute capabilities in the CUDA C++ Programming
Guide. Their units are those of XLA's ``GpuDeviceInfoProto``: bytes, bytes per second, GHz.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MODELS", "Gpu"]


@dataclass(frozen=True)
class Gpu:
    """A model of GPU."""

    name: str  # as the driver has it
    capability: tuple[int, int]
    cores: int  # streaming multiprocessors
    clock: float
    memory: int
    bandwidth: int
    l2: int
    shared: int  # shared memory of a multiprocessor; a block may have 1 KiB less of it
    fpus: int = 128  # single-precision units of a multiprocessor

    def target_config(self) -> str:
        """Return XLA's ``GpuTargetConfigProto`` as text, the CUDA plugin's option of that name."""
        major, minor = self.capability
        return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: {self.shared}
  shared_memory_per_block_optin: {self.shared - 1024}
  threads_per_core_limit: 2048
  core_count: {self.cores}
  fpus_per_core: {self.fpus}
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  memory_bandwidth: {self.bandwidth}
  l2_cache_size: {self.l2}
  clock_rate_ghz: {self.clock}
  device_memory_size: {self.memory}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
device_description_str: "{self.name}"
"""


# By the names that `torch_go_xla.aot.topology` takes.
MODELS = {
    "a100": Gpu("NVIDIA A100-SXM4-80GB", (8, 0), 108, 1.41, 80 << 30, 2039_000_000_000, 40 << 20, 167936, 64),
    "h100": Gpu("NVIDIA H100 80GB HBM3", (9, 0), 132, 1.98, 80 << 30, 3352_000_000_000, 50 << 20, 233472),
    "h200": Gpu("NVIDIA H200", (9, 0), 132, 1.98, 141 << 30, 4800_000_000_000, 50 << 20, 233472),
}
