"""``python -m benchmarks.first_runs``: what a program costs before its graphs are compiled, beside torch's eager CPU.

Each subject (eager torch, and the device with XLA_TIER=auto and compile) runs in a process of its own, in turns. It
prints seconds for the first epoch over 20 batch lengths of a small transformer, and for 20 epochs. Then come
the first training step of GPTs of 2 to 24 blocks, 64 tokens of a generation whose cache grows, and a steady step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

SUBJECTS = ("cpu", "auto", "compile")
LENGTHS = range(12, 52, 2)


_clock = time.perf_counter


def _synced(device: str) -> Callable[[], None]:
    if device == "cpu":
        return lambda: None
    import torch_go_xla

    return lambda: torch_go_xla.sync(wait=True)


def _trainer(model: nn.Module, device: str) -> Callable[[torch.Tensor, torch.Tensor], None]:
    sync = _synced(device)
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimizer.zero_grad()
        out = model(x.to(device))
        F.cross_entropy(out.reshape(-1, out.shape[-1]), y.to(device)).backward()
        optimizer.step()
        sync()

    return step


def _words(batch: int, length: int, words: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(0, words, (batch, length)), torch.randint(0, words, (batch * length,))


def lengths(device: str) -> dict[str, float]:
    """Return the seconds of one epoch over batches of 20 lengths, and of 20 epochs."""
    blocks = (nn.TransformerEncoderLayer(64, 4, 256, 0, batch_first=True) for _ in range(2))
    step = _trainer(nn.Sequential(nn.Embedding(100, 64), *blocks, nn.Linear(64, 100)), device)
    batches = [_words(8, n, 100) for n in LENGTHS]
    start = _clock()
    for k in range(20):
        for x, y in batches:
            step(x, y)
        if not k:
            first = _clock() - start
    return {"20 lengths, first epoch": first, "20 lengths, 20 epochs": _clock() - start}


def first(device: str, blocks: int) -> dict[str, float]:
    """Return the seconds of the first step of a GPT."""
    from .models import _Gpt

    step = _trainer(_Gpt(1024, 128, blocks, 64), device)
    x, y = _words(4, 64, 1024)
    start = _clock()
    step(x, y)
    return {f"first step, {blocks} blocks": _clock() - start}


def generate(device: str) -> dict[str, float]:
    """Return the seconds of 64 tokens, each of which makes the cache of keys and values longer."""
    sync = _synced(device)
    width, heads, blocks = 128, 4, 4
    words = nn.Embedding(1000, width).to(device)
    layers = nn.ModuleList(
        nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "norm": nn.LayerNorm(width)})
        for _ in range(blocks)
    ).to(device)
    sync()
    token, caches = torch.zeros(1, 1, dtype=torch.long, device=device), [None] * blocks
    start = _clock()
    with torch.no_grad():
        for _ in range(64):
            x = words(token)
            for k, layer in enumerate(layers):
                q, *new = layer["qkv"](layer["norm"](x)).view(1, 1, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
                cache = new if caches[k] is None else [torch.cat(pair, 2) for pair in zip(caches[k], new, strict=True)]
                caches[k] = cache
                x = x + layer["out"](F.scaled_dot_product_attention(q, *cache).transpose(1, 2).reshape(1, 1, width))
            token = (x @ words.weight.t()).argmax(-1)
            sync()
        token.item()
    return {"generate, 64 tokens": _clock() - start}


WORK: dict[str, Callable[[str], dict[str, float]]] = {
    "lengths": lengths,
    "generate": generate,
    **{f"first {n}": lambda device, n=n: first(device, n) for n in (2, 6, 12, 24)},
}


def main() -> None:
    """Run the subjects in turns, and print the least of each as a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_runs", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", choices=WORK, help="one kind of work only")
    parser.add_argument("--without", choices=SUBJECTS, help="leave one subject out")
    parser.add_argument("--subject", choices=SUBJECTS, help=argparse.SUPPRESS)
    parser.add_argument("--cpu-time", action="store_true", help="seconds of the processor, for a machine that is busy")
    options = parser.parse_args()
    if options.subject:
        global _clock
        _clock = time.process_time if options.cpu_time else time.perf_counter
        torch.manual_seed(0)
        device = "cpu" if options.subject == "cpu" else "xla"
        if device == "xla":
            import torch_go_xla  # noqa: F401

            torch.ones(1, device="xla").add(1).cpu()  # the device is open
        torch.ones(1).add(1)
        print(json.dumps(WORK[options.work](device)))
        return
    subjects = [s for s in SUBJECTS if s != options.without]
    for work in [options.work] if options.work else WORK:
        least: dict[str, dict[str, float]] = {}
        for _ in range(options.rounds):
            for subject in subjects:
                told = [sys.executable, "-m", "benchmarks.first_runs", "--work", work, "--subject", subject]
                told += ["--cpu-time"] * options.cpu_time
                env = os.environ | ({} if subject == "cpu" else {"XLA_TIER": subject})
                out = subprocess.run(told, env=env, capture_output=True, text=True, check=True).stdout
                for name, seconds in json.loads(out.splitlines()[-1]).items():
                    row = least.setdefault(name, {})
                    row[subject] = min(seconds, row.get(subject, seconds))
        for name, row in least.items():
            ratios = ", ".join(f"{s} {row[s]:.3f} s ({row[s] / row['cpu']:.2f} x)" for s in subjects)
            print(f"{name}: {ratios}", flush=True)


if __name__ == "__main__":
    main()
