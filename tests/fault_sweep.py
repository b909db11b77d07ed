"""Fails every call that a training loop makes of its plugin, once each, and prints what came of it as JSON.

Run by test_pjrt_faults.py in a process of its own, with PJRT_LIBRARY_PATH naming the null plugin, whose control
functions it uses. `python fault_sweep.py opening` prints the calls that opening the device makes, in order;
`python fault_sweep.py CALL...` takes them and fails each of those, then each of the loop's.
"""

from __future__ import annotations

import collections
import gc
import json
import os
import sys
import time
from collections.abc import Callable

import null_device
import torch

import torch_go_xla
import torch_go_xla.debug.metrics as met

CODE = "DATA_LOSS"
null = null_device.Null(os.environ["PJRT_LIBRARY_PATH"])


def trace(run: Callable[[], object]) -> list[str]:
    """Return the plugin's functions that are called meanwhile, in order."""
    null.start_trace()
    run()
    return null.stop_trace()


class Scale(torch.nn.Module):
    """y = w * x, with n weights of one."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(n))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w * x


place = ""  # what the loop is about


def train(n: int) -> list[float]:
    """Train n weights, and two, for three steps by autograd and SGD; returns what both models give in each.

    Small arrays travel by other calls than large ones.
    """
    global place
    place = "upload"
    models = [Scale(size).to("xla") for size in (n, 2)]
    inputs = [torch.full_like(model.w, 2.0, device="cpu").to("xla") for model in models]
    gradients = [torch.ones_like(model.w, device="cpu").to("xla") for model in models]
    optimizer = torch.optim.SGD([model.w for model in models], lr=0.25)
    outputs = []
    for _ in range(3):
        place = "step"
        optimizer.zero_grad()
        results = [model(x) for model, x in zip(models, inputs, strict=True)]
        torch.autograd.backward(results, gradients)
        optimizer.step()
        place = "sync"
        torch_go_xla.sync()
        place = "read"
        outputs += [y.detach().cpu()[-1].item() for y in results]
    place = "wait"
    torch_go_xla.sync(wait=True)
    return outputs


TRAINED = [2.0, 2.0, 1.0, 1.0, 0.0, 0.0]
SMALL, LARGE = 2, 1 << 19


def drain(expected: dict[str, int] | None = None) -> dict[str, int]:
    """Release what is garbage, wait for the device, and return what lives.

    The plugin's worker releases things a moment after their events: what is expected gets some time.
    """
    gc.collect()
    torch_go_xla.sync(wait=True)
    for _ in range(200):
        if expected is None or null.live() == expected:
            break
        time.sleep(0.01)
    return null.live()


def fail(call: str, k: int, run: Callable[[], object]) -> dict[str, object]:
    """Run with the k-th call of a function failing."""
    name = call.removesuffix("@event")
    words = f"fault {name} {k}"
    null.arm(f"{call}:{k}:{CODE}:{words}")
    lost = met.counter_value("UnreportedPluginError") or 0
    result: dict[str, object] = {"call": call, "k": k, "error": None, "told": False}
    try:
        run()
    except Exception as e:
        result.update(error=[c.__name__ for c in type(e).__mro__], told=words in str(e), place=place, text=str(e))
        del e
    gc.collect()
    result["fired"] = not null.disarm()
    try:
        drain()  # reports what failed on the device, if nothing has waited for it yet
    except torch_go_xla.XlaError as e:
        result.setdefault("text", str(e))
        result["told"] = result["told"] or words in str(e)
    result["counted"] = (met.counter_value("UnreportedPluginError") or 0) - lost
    return result


def open_device() -> None:
    """Open the device, if it is not open."""
    global place
    place = "open"
    torch.empty(0, device="xla")


def sweep(opening: list[str]) -> dict[str, object]:
    """Run with each call failing, and without a fault after each."""
    results = []
    seen: collections.Counter[str] = collections.Counter()
    nothing = dict.fromkeys(null_device.LIVE, 0)
    for call in opening:
        seen[call] += 1
        result = fail(call, seen[call], open_device)
        result["left"] = {name: n for name, n in drain(nothing).items() if n}
        results.append(result)
    open_device()
    # The cache holds one program: two sizes in turn compile every time.
    train(SMALL)
    gc.collect()
    gc.freeze()  # torch's modules need not be looked at again
    before = drain()
    calls = collections.Counter(trace(lambda: (train(LARGE), drain())))
    for call in ("LoadedExecutable_Execute", "Buffer_ToHostBuffer", "Client_BufferFromHostBuffer"):
        calls[call + "@event"] = calls[call]
    for call, number in sorted(calls.items()):
        for k in range(1, number + 1):
            train(SMALL)
            result = fail(call, k, lambda: (train(LARGE), drain()))
            result["afterwards"] = train(SMALL)
            now = drain(before)
            result["leak"] = {name: now[name] - before[name] for name in now if now[name] != before[name]}
            results.append(result)
    gc.unfreeze()
    return {"results": results, "expected": TRAINED}


if sys.argv[1:] == ["opening"]:
    print(json.dumps(trace(open_device)))
else:
    print(json.dumps(sweep(sys.argv[1:])))
