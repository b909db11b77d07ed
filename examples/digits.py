"""The main job: learn real images on the device ``xla``, save, and reload on the CPU.

scikit-learn's digits are 1,797 scans of handwritten digits, 8 x 8 pixels. An MLP and a small ConvNet are trained
on ``xla:0`` and, from the same weights and batches, on torch's CPU; the losses must agree. Run it with::

    python examples/digits.py [--epochs N] [--seed N]
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from tqdm import tqdm

import torch_go_xla
import torch_go_xla.core.xla_model as xm
import torch_go_xla.debug.metrics as met

BATCH = 64


@dataclass
class Digits:
    """Images of shape [n, 1, 8, 8] in [0, 1], labels of shape [n]."""

    train_x: torch.Tensor
    train_y: torch.Tensor
    test_x: torch.Tensor
    test_y: torch.Tensor

    def to(self, device: torch.device) -> Digits:
        """Return a copy on a device."""
        return Digits(*(t.to(device) for t in (self.train_x, self.train_y, self.test_x, self.test_y)))


def load(seed: int) -> Digits:
    """Read the data set and split it, 80 % to train."""
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    y = torch.tensor(labels)
    train, test = train_test_split(range(len(y)), test_size=0.2, random_state=seed, stratify=labels)
    train = train[: len(train) // BATCH * BATCH]  # whole batches: one shape, one program
    return Digits(x[train], y[train], x[test], y[test])


def mlp() -> nn.Module:
    """Return 64 -> 256 -> 128 -> 10."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def convnet() -> nn.Module:
    """Return two 3 x 3 convolutions with a pooling between, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 10),
    )  # fmt: skip


def train(model: nn.Module, data: Digits, epochs: int, seed: int, bar: Callable[[], None]) -> list[float]:
    """Train with SGD and momentum; returns the mean loss of each epoch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    order = torch.Generator().manual_seed(seed)
    losses = []
    device = data.train_x.device
    for _ in range(epochs):
        total = torch.zeros((), device=device)
        shuffled = torch.randperm(len(data.train_y), generator=order).reshape(-1, BATCH).to(device)
        for batch in shuffled:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(data.train_x[batch]), data.train_y[batch])
            loss.backward()
            optimizer.step()
            total += loss.detach()
            torch_go_xla.sync()
            bar()
        losses.append(total.item() / len(shuffled))
    return losses


@torch.no_grad()
def accuracy(model: nn.Module, data: Digits) -> float:
    """Return the share of test images that are named right."""
    return int((model(data.test_x).argmax(1) == data.test_y).sum().item()) / len(data.test_y)


def same_bits(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Tell whether two state dicts hold the same bits."""
    return a.keys() == b.keys() and all(torch.equal(a[k].view(torch.uint8), b[k].view(torch.uint8)) for k in a)


def job(name: str, make: Callable[[], nn.Module], data: Digits, epochs: int, seed: int) -> None:
    """Run the whole job for one model; AssertionError names the promise that does not hold."""
    met.clear_all()
    torch.manual_seed(seed)
    reference = make()
    device = torch_go_xla.device()
    model = make()
    model.load_state_dict(reference.state_dict())
    model.to(device)
    steps = epochs * (len(data.train_y) // BATCH)

    with tqdm(total=steps, desc=f"{name} on {device}", unit="step") as bar:
        start = time.perf_counter()
        losses = train(model, data.to(device), epochs, seed, bar.update)
        seconds = time.perf_counter() - start
    expected = train(reference, data, epochs, seed, lambda: None)
    worst = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    assert worst <= 1e-4, f"{name}: an epoch's loss differs from torch CPU's by {worst:.2e}, relative"
    compiles = met.counter_value("UncachedCompile") or 0

    right = accuracy(model, data.to(device))
    assert right >= 0.97, f"{name}: only {right:.1%} of the test images are named right"

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.pt"
        xm.save(model.state_dict(), path)
        loaded = torch.load(path, weights_only=True)
    assert same_bits(loaded, {k: v.cpu() for k, v in model.state_dict().items()}), f"{name}: the file differs"
    restored = make()
    restored.load_state_dict(loaded)
    assert accuracy(restored, data) == right, f"{name}: the reloaded model answers otherwise"

    fallbacks = met.executed_fallback_ops()
    assert compiles <= 3, f"{name}: {compiles} compilations for one training loop"
    assert not fallbacks, f"{name}: ran on the CPU: {fallbacks}"
    print(
        f"{name}: test accuracy {right:.2%}; loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
        f"at most {worst:.1e} from torch CPU's; {steps} steps in {seconds:.1f} s; "
        f"{compiles} compilations, {len(fallbacks)} CPU fallbacks; saved, reloaded, bits equal"
    )


def main() -> None:
    """Run the job for both models and check that nothing is left on the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    data = load(options.seed)
    print(f"torch {torch.__version__}, torch_go_xla {torch_go_xla.__version__}, {torch_go_xla.real_devices()}")
    job("MLP", mlp, data, options.epochs, options.seed)
    job("ConvNet", convnet, data, options.epochs, options.seed)
    gc.collect()
    left = torch_go_xla.live_bytes()
    assert left == 0, f"{left} bytes are alive on the device after the last object is gone"
    print(f"{left} bytes left on the device")
    print(met.short_metrics_report())


if __name__ == "__main__":
    main()
