"""Compile the programs of one platform and print what the compiler made of each, one JSON object a line.

usage: python -m tests.accelerators.compile PLATFORM one|spmd|goldens
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.append(os.environ["TGX_VENDOR_PACKAGES"])

import numpy as np
import torch
import torch.nn.functional as F

import torch_go_xla
from benchmarks import models
from torch_go_xla import aot, runtime
from torch_go_xla.distributed import spmd

DEVICES = {"cuda": ("h100", {"devices": 8}), "tpu": ("v5e:2x4", {})}
ROOT = Path(__file__).parents[2]


def train(model: Any, optimizer: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return loss.detach()


def bytes_of(tensors: Any) -> int:
    return sum(t.nbytes for t in tensors)


def images() -> models.Task:
    """Return a small convolutional network; a ResNet takes libtpu minutes."""
    layers = [
        torch.nn.Conv2d(3, 32, 3, 2, 1),
        torch.nn.BatchNorm2d(32),
        torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, 2, 1),
    ]
    model = torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))
    return (
        model,
        torch.randn(16, 3, 32, 32),
        torch.randint(0, 10, (16,)),
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    )


def step(task: Callable[[], models.Task]) -> tuple[aot.Lowered, dict[str, Any]]:
    """Lower a training step; it overwrites its parameters and the optimizer's state."""
    torch.manual_seed(0)
    model, x, y, optimizer = task()
    model, x, y = model.to("xla"), x.to("xla"), y.to("xla")
    made = optimizer(model.parameters())
    train(model, made, x, y)
    torch_go_xla.sync()
    values = (t for s in made.state.values() for t in s.values())
    state = [t for t in values if isinstance(t, torch.Tensor) and t.device.type == "xla"]
    return aot.lower(train, model, made, x, y), {"overwritten": bytes_of([*model.parameters(), *state])}


def decode() -> tuple[aot.Lowered, dict[str, Any]]:
    """Lower a step of decoding with a static cache, which it overwrites."""
    heads, length, depth = 4, 128, 64
    shape = (2, heads, length, depth)
    keys, values = torch.zeros(shape, device="xla"), torch.zeros(shape, device="xla")
    new, at = torch.randn(2, heads, 1, depth).to("xla"), torch.tensor([7]).to("xla")
    torch_go_xla.sync()

    def one(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        keys.index_copy_(2, at, q)
        values.index_copy_(2, at, q)
        seen = torch.arange(length, device="xla") <= at
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)

    return aot.lower(one, new, keys, values, at), {"overwritten": bytes_of([keys, values])}


def attention() -> tuple[aot.Lowered, dict[str, Any]]:
    """Lower the attention of long sequences, from tensors that have no memory."""
    q, k, v = (torch.empty(2, 8, 2048, 64, dtype=torch.bfloat16, device="xla") for _ in range(3))
    return aot.lower(functools.partial(F.scaled_dot_product_attention, is_causal=True), q, k, v), {}


def sharded(weights: bool) -> tuple[aot.Lowered, dict[str, Any]]:
    """Lower a training step over 8 devices: the batch is divided, with ``weights`` the parameters too."""
    torch.manual_seed(0)
    mesh = spmd.Mesh(np.arange(8), (8,), ("fsdp",))
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64)).to("xla")
    if weights:
        for p in model.parameters():
            spmd.mark_sharding(p, mesh, ("fsdp", *[None] * (p.dim() - 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(1024, 256).to("xla"), torch.randint(0, 64, (1024,)).to("xla")
    for t in (x, y):
        spmd.mark_sharding(t, mesh, ("fsdp", *[None] * (t.dim() - 1)))
    torch_go_xla.sync()
    share = bytes_of(model.parameters()) // (8 if weights else 1)
    return aot.lower(train, model, optimizer, x, y), {"overwritten": share}


def goldens() -> Iterator[tuple[str, str]]:
    """Yield the programs of the goldens of gocore/ops and gocore/stablehlo that are for one device."""
    for folder in ("ops", "stablehlo"):
        for file in sorted((ROOT / "gocore" / folder / "testdata").glob("*.txt")):
            for section in ("\n" + file.read_text()).split("\n-- ")[1:]:
                title, _, body = section.partition(" --\n")
                begin = body.find("module ")
                elsewhere = re.search(
                    r'"(torch_op|no\.such\.\w+)"|num_partitions', body
                )  # of the CPU, of no one, of SPMD
                if begin >= 0 and not elsewhere and not re.search(r"\(\d+ devices\)$", title):
                    yield f"{folder}/{file.stem}: {title}", body[begin:]


def facts(compiled: aot.Compiled) -> dict[str, Any]:
    found = compiled.analysis()
    collectives: dict[str, int] = {}
    for c in found["collectives"]:
        collectives[c["kind"]] = collectives.get(c["kind"], 0) + 1
    return {
        "memory": compiled.memory_analysis(),
        "custom_calls": found["custom_calls"],
        "collectives": collectives,
        "aliases": len(found["aliases"]),
        "fusions": found["ops"].get("fusion", 0),
        "host_transfers": found["host_transfers"],
    }


ONE: dict[str, Callable[[], tuple[aot.Lowered, dict[str, Any]]]] = {
    "training step of an MLP": functools.partial(step, functools.partial(models.mlp, True)),
    "training step of a GPT": functools.partial(step, functools.partial(models.gpt, True)),
    "training step of a convolutional network": functools.partial(step, images),
    "decoding step with a static cache": decode,
    "attention of (2, 8, 2048, 64) in bfloat16": attention,
}
SPMD: dict[str, Callable[[], tuple[aot.Lowered, dict[str, Any]]]] = {
    "training step on 8 devices, data parallel": functools.partial(sharded, False),
    "training step on 8 devices, parameters sharded": functools.partial(sharded, True),
}


def main(platform: str, group: str) -> None:
    name, options = DEVICES[platform]
    there = aot.topology(platform, name, **options)
    if group == "spmd":
        runtime.use_spmd()
    if group == "goldens":
        for title, text in goldens():
            row: dict[str, Any] = {"program": title}
            try:
                aot.Lowered({"text": text, "partitions": 0, "reason": ""}, {}).compile(there)
            except torch_go_xla.CompileError as e:
                row["error"] = str(e).splitlines()[0][:300]
            print(json.dumps(row), flush=True)
        return
    for title, make in (SPMD if group == "spmd" else ONE).items():
        lowered, expected = make()
        print(
            json.dumps({"program": title, "kind": there.device_kind, **expected, **facts(lowered.compile(there))}),
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
