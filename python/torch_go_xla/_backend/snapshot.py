"""Values read together: all of one moment, none stale, none donated."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator

import torch
from torch._C._functorch import peek_interpreter_stack
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._python_dispatch import _disable_current_modes

from .core import native
from .sparse_parts import parts, rebuilt
from .transfer import in_huge_pages

Fetch = Callable[[torch.UntypedStorage], torch.UntypedStorage]


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Run a block outside of the transforms around it (functionalize, dispatch modes): what it makes is real."""
    functionalize = torch._C.DispatchKeySet(torch._C.DispatchKey.Functionalize)
    with contextlib.ExitStack() as stack:
        while peek_interpreter_stack() is not None:
            stack.enter_context(temporarily_pop_interpreter_stack())
        stack.enter_context(_disable_current_modes())
        stack.enter_context(torch._C._ExcludeDispatchKeyGuard(functionalize))
        yield


def unwrapped(tensor: torch.Tensor) -> torch.Tensor:
    """Return the plain tensor that holds the value: a DTensor's logical one, a functional wrapper's after its sync."""
    tensor = getattr(tensor, "_local_tensor", tensor)
    if isinstance(tensor, FunctionalTensor):
        tensor = tensor.elem
    while torch._is_functional_tensor(tensor):
        torch._sync(tensor)  # type: ignore[attr-defined, no-untyped-call]
        tensor = torch._from_functional_tensor(tensor)
    return tensor.detach() if tensor.requires_grad else tensor


@contextlib.contextmanager
def snapshot(storages: Iterable[torch.UntypedStorage], in_place: bool = False) -> Iterator[Fetch]:
    """Give a function that copies one of these xla storages to the CPU, as they are at this moment.

    With ``in_place`` its result may be the device's own memory, where the host can read that: to be read only, and
    within the block.

    Whatever reads several values goes through here, as the order matters:

    1. unwrap: the caller has applied `unwrapped` and recorded what it wants to read besides (a clone of a view);
    2. sync: one program a device computes everything that is recorded, so that aliases agree;
    3. hold: in the same step, before another thread can record, every value gets an owner more, so that no later
       program writes into its buffer;
    4. wait for the devices;
    5. transfer, one storage at a time.

    A transfer before the sync could read a stale alias; one without the hold, a buffer donated since.
    """
    core = native()
    unique = {s.data_ptr(): s for s in storages}
    places = {handle: i for i, handle in enumerate(unique)}
    held = core.snapshot(list(places))
    try:
        for device in sorted({s.device.index for s in unique.values()}):
            core.wait(device)

        def fetch(storage: torch.UntypedStorage) -> torch.UntypedStorage:
            place, size = places[storage.data_ptr()], storage.nbytes()
            if in_place and size and (address := core.snapshot_address(held, place)):
                return torch.frombuffer(
                    (ctypes.c_char * size).from_address(address), dtype=torch.uint8
                ).untyped_storage()
            host = in_huge_pages(torch.empty(size, dtype=torch.uint8))
            core.fetch_snapshot(held, place, host.data_ptr(), size)
            return host.untyped_storage()

        yield fetch
    finally:
        core.drop_snapshot(held)


@plainly()
def cpu_tensors(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return CPU copies of xla tensors, all of one moment; each has its memory to itself."""
    given = [unwrapped(t) for t in tensors]
    held = [[_dense(part) for part in parts(t)] for t in given]
    with snapshot([part.untyped_storage() for some in held for part in some]) as fetch:

        def on_host(t: torch.Tensor) -> torch.Tensor:
            return torch.empty(0, dtype=t.dtype).set_(fetch(t.untyped_storage()), 0, t.shape, t.stride())

        return [rebuilt(t, [on_host(part) for part in some]) for t, some in zip(given, held, strict=True)]


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's value without lazy bits, contiguous, in a storage of its own."""
    tensor = tensor.resolve_conj().resolve_neg()
    return tensor if native().fast.is_full(tensor) else tensor.clone(memory_format=torch.contiguous_format)
