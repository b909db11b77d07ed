"""``python -m benchmarks.soak [--steps N]``: trains an MLP for long, on batches of eight sizes, and watches the memory.

Ends with 1 if the resident memory grows by 5 MB or more after the first tenth of the steps. So it does if
tensors on the device or compiled programs grow at all, or if anything is left on the device in the end.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

import torch_go_xla
import torch_go_xla.debug.metrics as met
import torch_go_xla.runtime as xr

_ALLOWED = 5.0  # MB


def resident() -> float:
    """Return the resident memory of the process, in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def state() -> tuple[float, int, int]:
    """Return resident MB, bytes on the device, and compiled programs, when everything is done."""
    torch_go_xla.sync(wait=True)
    gc.collect()
    return resident(), torch_go_xla.live_bytes(), xr.get_num_cached_compilation_graph()


def train(steps: int) -> list[str]:
    """Train and print; returns what is wrong."""
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)).to("xla")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batches = [(torch.randn(n, 64).to("xla"), torch.randint(0, 10, (n,)).to("xla")) for n in range(8, 72, 8)]
    order = random.Random(0)
    warm = max(steps // 10, 1)
    early: tuple[float, int, int] | None = None
    now = state()
    for step in range(1, steps + 1):
        x, y = order.choice(batches)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        torch_go_xla.sync()
        if step % warm == 0:
            shown = loss.item()
            del loss
            optimizer.zero_grad()
            now = state()
            print(
                f"step {step}: {now[0]:.1f} MB resident, {now[1]} bytes live, {now[2]} programs, loss {shown:.5f}",
                flush=True,
            )
            early = early or now
    assert early is not None
    growth = now[0] - early[0]
    print(f"growth after step {warm}: {growth:+.2f} MB, {met.counter_value('UncachedCompile')} compilations")
    wrong = [] if growth < _ALLOWED else [f"the process grew by {growth:.1f} MB"]
    if now[1:] != early[1:]:
        wrong.append(f"bytes and programs were {early[1:]}, are {now[1:]}")
    return wrong


def main() -> None:
    """Run and judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    wrong = train(parser.parse_args().steps)
    left = state()[1]
    if left:
        wrong.append(f"{left} bytes are left on the device")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
