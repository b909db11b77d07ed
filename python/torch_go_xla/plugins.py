"""PJRT plugins: which library serves which device.

``PJRT_DEVICE`` names a device. ``CPU``, ``CUDA`` and ``TPU`` are built in; others are registered by `register_plugin`,
by packages through the entry point group ``torch_go_xla.plugins`` or ``torch_xla.plugins``, or are the packages that
JAX finds its plugins in: ``jax_plugins/xla_rocm7`` serves ``PJRT_DEVICE=xla_rocm7``. ``PJRT_LIBRARY_PATH`` overrides
the library of any of them. Nothing is loaded while searching.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import mmap
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

__all__ = [
    "CpuPlugin",
    "CudaPlugin",
    "DevicePlugin",
    "OptionValue",
    "TpuPlugin",
    "device_settings",
    "find_plugin",
    "is_on",
    "known",
    "named",
    "register_plugin",
]

if TYPE_CHECKING:  # this module is also read where there is no torch, without its package
    from ._job import Job

OptionValue = str | bool | int | float | list[int]  # of an option of a plugin

_ENTRY_POINTS = ("torch_go_xla.plugins", "torch_xla.plugins")  # the second is that of packages made for torch_xla


def is_on(text: str) -> bool:
    """Tell whether the text of a variable means yes; the core refuses texts that mean neither yes nor no.

    Args:
        text: the text.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.is_on("True"), plugins.is_on("0")
        (True, False)
    """
    return text.lower() in ("1", "true", "yes", "on")


class DevicePlugin:
    """Describes the plugin of one kind of device. Subclass it and pass an instance to `register_plugin`.

    Example:
        >>> from torch_go_xla import plugins
        >>> class MyPlugin(plugins.DevicePlugin):
        ...     def library_path(self):
        ...         return "/opt/my/libpjrt_my.so"
        ...     def client_create_options(self):
        ...         return {"memory_fraction": 0.9}
        ...     def physical_chip_count(self):
        ...         return 4
        >>> plugins.register_plugin("MY", MyPlugin())
        >>> plugins.find_plugin("my").process_count()
        4
    """

    def library_path(self) -> str:
        """Return the absolute path of the plugin's shared library.

        Raises:
            NotImplementedError: the class does not say it.
            RuntimeError: the library is not installed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say where its library is")

    def preload(self) -> list[str]:
        """Return absolute paths of libraries that the plugin needs loaded before it; none by default.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().preload()
            []
        """
        return []

    def client_create_options(self) -> Mapping[str, OptionValue]:
        """Return the options for creating the plugin's client; none by default."""
        return {}

    def job_options(self, job: Job) -> Mapping[str, OptionValue]:
        """Return the options for a process of a job, besides those of `client_create_options`.

        The plugin also gets the callbacks of PJRT's key-value store.

        Args:
            job: has ``rank``, ``world_size``, ``local_rank`` and ``local_world_size``.

        Example:
            >>> from torch_go_xla import plugins
            >>> from types import SimpleNamespace
            >>> plugins.DevicePlugin().job_options(SimpleNamespace(rank=1, world_size=2))
            {'node_id': 1, 'num_nodes': 2}
        """
        return {"node_id": job.rank, "num_nodes": job.world_size}

    def process_count(self) -> int:
        """Return how many processes of a machine its devices keep busy, by default `physical_chip_count`."""
        return self.physical_chip_count()

    # What torch_xla's plugins say besides.

    def physical_chip_count(self) -> int:
        """Return the number of chips of the machine; 1 by default."""
        return 1

    def host_index(self) -> int:
        """Return the number of this machine among those of the job; 0 by default.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().host_index()
            0
        """
        return 0

    def configure_single_process(self) -> None:
        """Prepare the environment of the only process, before the library is loaded. By default nothing is done.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().configure_single_process()
        """

    def configure_multiprocess(self, local_rank: int, local_world_size: int) -> None:
        """Prepare the environment of a process of a job, before the library is loaded. By default nothing is done.

        Args:
            local_rank: the number of the process on its machine, from 0.
            local_world_size: the number of processes of the machine.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().configure_multiprocess(local_rank=0, local_world_size=2)
        """

    def requires_xla_coordinator(self) -> bool:
        """Tell whether the plugin's processes find each other by the job's key-value store, which they always may.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().requires_xla_coordinator()
            True
        """
        return True

    def environment(self) -> Mapping[str, str]:
        """Return variables that are set, unless they are, before the library is loaded; none by default.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().environment()
            {}
        """
        return {}

    def check_flags(self) -> None:
        """Check XLA_FLAGS, where the library would end the process for an unknown flag. By default nothing is checked.

        Raises:
            ValueError: the library does not know a flag.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().check_flags()
        """

    def compile_options(self) -> Mapping[str, str | bool | int | float]:
        """Return options of XLA, by name, that every program is compiled with; none by default.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().compile_options()
            {}
        """
        return {}

    def topology_options(self, name: str, devices: int | None) -> tuple[str, Mapping[str, OptionValue]]:
        """Return the plugin's name of a topology of `torch_go_xla.aot.topology`, and the options that go with it.

        Args:
            name: the name that the user gives.
            devices: how many devices are asked for, None if that is not said.

        Raises:
            ValueError: the plugin has no such topology, or its name says how many devices it has.

        Example:
            >>> from torch_go_xla import plugins
            >>> plugins.DevicePlugin().topology_options("v5e:2x4", None)
            ('v5e:2x4', {})
        """
        if devices is not None:
            raise ValueError(f"the name of the topology, {name!r}, says how many devices it has")
        return name, {}


class CpuPlugin(DevicePlugin):
    """XLA:CPU, by the plugin of the package pjrt-xla-cpu, or the one that a build of the source tree has made.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.CpuPlugin().client_create_options()  # CPU_NUM_DEVICES is the number of devices
        {'cpu_device_count': 1, 'cpu_huge_pages': True}
    """

    def library_path(self) -> str:
        name = "libpjrt_xla_cpu.so"
        in_tree = Path(__file__).parent / "_lib" / name
        if in_tree.exists():
            return str(in_tree)
        path = _package_directory("pjrt_xla_cpu", "pjrt-xla-cpu", "CPU") / name
        if not path.exists():
            raise RuntimeError(f"the CPU plugin is not there: {path} is missing. Reinstall pjrt-xla-cpu.")
        return str(path)

    def client_create_options(self) -> Mapping[str, OptionValue]:
        huge = is_on(os.environ.get("TORCH_GO_XLA_HUGE_PAGES", "1"))
        return {"cpu_device_count": self.process_count(), "cpu_huge_pages": huge}

    def job_options(self, job: Job) -> Mapping[str, OptionValue]:
        return {**super().job_options(job), "cpu_collectives_address": job.address(), "cpu_watched_job": True}

    def process_count(self) -> int:
        text = os.environ.get("CPU_NUM_DEVICES", "1")
        try:
            count = int(text)
        except ValueError:
            count = 0
        if not 1 <= count <= 1024:
            raise ValueError(f"CPU_NUM_DEVICES={text!r}: want a whole number from 1 to 1024")
        return count

    def environment(self) -> Mapping[str, str]:
        return {"TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "2"}

    def topology_options(self, name: str, devices: int | None) -> tuple[str, Mapping[str, OptionValue]]:
        if name:
            raise ValueError(f"the CPU plugin has no topologies by name, such as {name!r}; devices says how many")
        return "", {"cpu_device_count": 1 if devices is None else devices}


# What the CUDA plugin and NVIDIA's libraries load at run time.
_CUDA_LIBRARIES = (
    *("libcudart.so.13", "libnvJitLink.so.13", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13"),
    *("libcusparse.so.12", "libcusolver.so.12", "libcufft.so.12", "libcupti.so.13", "libnccl.so.2", "libcudnn.so.9"),
)


def _nvidia(path: str) -> list[Path]:
    """Return the files of a path inside NVIDIA's packages."""
    root = _module_directory("nvidia")
    return sorted(root.glob(f"*/{path}")) if root is not None else []


class CudaPlugin(DevicePlugin):
    """NVIDIA GPUs, by the plugin that JAX's CUDA packages ship.

    Example:
        >>> import os
        >>> from torch_go_xla import plugins
        >>> os.environ["CUDA_VISIBLE_DEVICES"] = "0,1"
        >>> plugins.CudaPlugin().process_count()
        2
    """

    def library_path(self) -> str:
        for package in ("jax_plugins.xla_cuda13", "jax_plugins.xla_cuda12"):
            path = _module_directory(package)
            if path is not None and (path / "xla_cuda_plugin.so").exists():
                return str(path / "xla_cuda_plugin.so")
        raise RuntimeError("PJRT_DEVICE=CUDA needs the CUDA plugin: pip install 'torch-go-xla[cuda]'")

    def check_flags(self) -> None:
        _check_flags(self.library_path())

    def preload(self) -> list[str]:
        # The order is that of their dependencies. The plugin looks for them only by name.
        return [str(path) for name in _CUDA_LIBRARIES for path in _nvidia(f"lib/{name}")[:1]]

    def compile_options(self) -> Mapping[str, str | bool | int | float]:
        # What the compiler calls: ptxas, nvlink and libdevice.
        tools = _nvidia("bin/ptxas")
        return {"xla_gpu_cuda_data_dir": str(tools[0].parents[1])} if tools else {}

    def topology_options(self, name: str, devices: int | None) -> tuple[str, Mapping[str, OptionValue]]:
        from . import _gpus  # this module is also read without its package

        options: dict[str, OptionValue] = {"topology": f"1x1x{1 if devices is None else devices}"}
        if name:
            model = _gpus.MODELS.get(name.lower())
            if model is None:
                known = ", ".join(_gpus.MODELS)
                raise ValueError(f"GPU {name!r}: known are {known}; the option target_config describes others")
            options["target_config"] = model.target_config()
        return "", options

    def job_options(self, job: Job) -> Mapping[str, OptionValue]:
        return {**super().job_options(job), "visible_devices": [job.local_rank]}

    def process_count(self) -> int:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            return len([d for d in visible.split(",") if d.strip()])
        return len(list(Path("/proc/driver/nvidia/gpus").glob("*")))


class TpuPlugin(DevicePlugin):
    """Google TPUs, by libtpu.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.find_plugin("TPU")
        <torch_go_xla.plugins.TpuPlugin object at 0x...>
    """

    def library_path(self) -> str:
        return str(_package_directory("libtpu", "torch-go-xla[tpu]", "TPU") / "libtpu.so")

    def check_flags(self) -> None:
        _check_flags(self.library_path())

    def environment(self) -> Mapping[str, str]:
        # Without a chip libtpu would ask a metadata server for one, for minutes.
        return {} if _pci_vendor_present("0x1ae0") else {"TPU_SKIP_MDS_QUERY": "1"}


def _check_flags(library: str) -> None:
    """Raise ValueError for a flag in XLA_FLAGS whose name is nowhere in a library."""
    flags = [f.lstrip("-").partition("=")[0] for f in os.environ.get("XLA_FLAGS", "").split() if f.startswith("--")]
    if not flags:
        return
    with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for flag in flags:
            if content.find(flag.encode()) < 0:
                raise ValueError(f'XLA_FLAGS: unknown flag "{flag}"; {library} has none of this name')


def _pci_vendor_present(vendor: str) -> bool:
    """Tell whether a PCI device of a vendor is in the machine."""
    return any(f.read_text().strip() == vendor for f in Path("/sys/bus/pci/devices").glob("*/vendor"))


def _module_directory(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return Path(places[0]) if places else None


def _package_directory(name: str, requirement: str, device: str) -> Path:
    path = _module_directory(name)
    if path is None:
        raise RuntimeError(f"PJRT_DEVICE={device} needs the package {name}: pip install '{requirement}'")
    return path


_plugins: dict[str, DevicePlugin] = {"CPU": CpuPlugin(), "CUDA": CudaPlugin(), "TPU": TpuPlugin()}


def register_plugin(name: str, device_plugin: DevicePlugin) -> None:
    """Make ``PJRT_DEVICE=name`` use a plugin. Must come before the first tensor of the device.

    Args:
        name: the name, in upper or lower case.
        device_plugin: describes the plugin.

    Raises:
        TypeError: it is not a DevicePlugin.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.register_plugin("CPU2", plugins.CpuPlugin())
        >>> "CPU2" in plugins.known()
        True
    """
    if not isinstance(device_plugin, DevicePlugin):
        raise TypeError(f"expected a DevicePlugin, got {type(device_plugin).__name__}")
    _plugins[name.upper()] = device_plugin


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    groups = (importlib.metadata.entry_points(group=group) for group in reversed(_ENTRY_POINTS))
    return {e.name.upper(): e for group in groups for e in group}


class _LibraryPlugin(DevicePlugin):
    def __init__(self, path: str) -> None:
        self._path = path

    def library_path(self) -> str:
        return self._path


def _jax_plugins() -> dict[str, Path]:
    """Return the libraries of the packages under ``jax_plugins`` that have exactly one, by device name."""
    try:
        spec = importlib.util.find_spec("jax_plugins")
    except ValueError:  # a module without a spec
        spec = None
    found = {}
    for place in (spec.submodule_search_locations or []) if spec else []:
        for package in sorted(p for p in Path(place).iterdir() if p.is_dir()):
            libraries = [*package.glob("*plugin*.so"), *package.glob("*pjrt*.so")]
            if len(set(libraries)) == 1:
                found[package.name.upper()] = libraries[0].resolve()
    return found


def _serves(plugin: DevicePlugin, library: str) -> bool:
    """Tell whether a library is the plugin's own, which comes with preloads and options."""
    try:
        return os.path.samefile(plugin.library_path(), library)
    except (RuntimeError, OSError):
        return False


def known() -> list[str]:
    """Return the device names for which a plugin is built in, registered, or stated by an installed package.

    Example:
        >>> from torch_go_xla import plugins
        >>> {"CPU", "CUDA", "TPU"} <= set(plugins.known())
        True
    """
    return sorted({*_plugins, *_entry_points(), *_jax_plugins()})


def _registered(key: str) -> DevicePlugin | None:
    """Return the plugin of a name in capitals, None if there is none."""
    plugin = _plugins.get(key)
    if plugin is None:
        entry = _entry_points().get(key)
        if entry is not None:
            plugin = entry.load()()
            if not isinstance(plugin, DevicePlugin):
                raise TypeError(f"the entry point {entry.value} gives a {type(plugin).__name__}, not a DevicePlugin")
            _plugins[key] = plugin
    if plugin is None and (library := _jax_plugins().get(key)) is not None:
        plugin = _LibraryPlugin(str(library))
    return plugin


def named(name: str) -> DevicePlugin:
    """Return the plugin of a device name, whatever PJRT_LIBRARY_PATH says.

    Args:
        name: the device's name, in upper or lower case.

    Raises:
        ValueError: there is no such plugin. The message lists the known names.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.named("cpu")
        <torch_go_xla.plugins.CpuPlugin object at 0x...>
    """
    plugin = _registered(name.upper())
    if plugin is None:
        raise ValueError(f"platform {name!r}: no plugin of that name; known are {', '.join(known())}")
    return plugin


def find_plugin(name: str) -> DevicePlugin:
    """Return the plugin of a device name. ``PJRT_LIBRARY_PATH``, if it is set, is its library.

    Args:
        name: the device's name, in upper or lower case.

    Raises:
        ValueError: there is no such plugin. The message lists the known names.
        TypeError: the entry point of a package does not give a DevicePlugin.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.find_plugin("abacus")
        Traceback (most recent call last):
        ValueError: PJRT_DEVICE='abacus': no plugin of that name; known are CPU, ...
    """
    plugin = _registered(name.upper())
    override = os.environ.get("PJRT_LIBRARY_PATH")
    if override:
        return plugin if plugin is not None and _serves(plugin, override) else _LibraryPlugin(override)
    if plugin is None:
        names = ", ".join(known())
        raise ValueError(
            f"PJRT_DEVICE={name!r}: no plugin of that name; known are {names}. PJRT_LIBRARY_PATH names a library."
        )
    return plugin


def device_settings(known: Collection[str], job: Job | None = None) -> dict[str, Any]:
    """Return how the core opens the device of PJRT_DEVICE.

    The plugin's own variables are set in the environment first.

    Args:
        known: the names of the variables that the core reads.
        job: the job that this process belongs to, if there is one.

    Returns:
        ``library``, a path; ``preload``, a list of paths; ``options`` of the client; ``environment``, the variables of
        the core that are set.

    Raises:
        ValueError: there is no plugin for PJRT_DEVICE.
        RuntimeError: the plugin's library is not installed.

    Example:
        >>> from torch_go_xla import plugins
        >>> plugins.device_settings(known=["PJRT_DEVICE"])["options"]["cpu_device_count"]
        1
    """
    plugin = find_plugin(os.environ.get("PJRT_DEVICE", "CPU"))
    library = plugin.library_path()
    plugin.check_flags()
    if job is not None and job.world_size > 1:
        plugin.configure_multiprocess(job.local_rank, job.local_world_size)
    else:
        plugin.configure_single_process()
    for name, value in plugin.environment().items():
        os.environ.setdefault(name, value)
    options = dict(plugin.client_create_options())
    if job is not None and job.world_size > 1:
        options.update(plugin.job_options(job))
    return {
        "library": library,
        "preload": plugin.preload(),
        "options": options,
        "flags": dict(plugin.compile_options()),
        "environment": {k: v for k, v in os.environ.items() if k in known},
    }
