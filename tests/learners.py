"""Models that tests train, each with a batch and labels, and the optimizers that they are trained by."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import torch_go_xla


class Residual(nn.Module):
    """Two convolutions with batch norms, and a way around them."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outer)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outer)
        self.around = nn.Sequential()
        if stride != 1 or inner != outer:
            self.around = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [n, inner, h, w] to [n, outer, h/stride, w/stride]."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


class Attention(nn.Module):
    """A block of a GPT: causal attention, then two linear layers, each after a layer norm."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """Map three times [n, heads, time, depth] to one."""
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        time = q.shape[-2]
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        past = torch.tril(torch.ones(time, time, device=q.device, dtype=torch.bool))
        return scores.masked_fill(~past, float("-inf")).softmax(-1) @ v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [n, time, width] to the same."""
        n, time, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, time, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(n, time, width))
        return x + self.down(F.dropout(F.gelu(self.up(self.norm2(x)), approximate="tanh"), 0.1, training=False))


class Language(nn.Module):
    """Embeddings of words and places, blocks, and the words again."""

    def __init__(self, words: int, width: int, time: int, fused: bool) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(time, width)
        self.blocks = nn.Sequential(*(Attention(width, 2, fused) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map [n, time] to [n * time, words]."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def mlp() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model, a batch for it, and labels."""
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 5))
    return model, torch.randn(8, 20), torch.randint(0, 5, (8,))


def resnet() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model, a batch for it, and labels."""
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        Residual(8, 8, 1), Residual(8, 16, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip
    return model, torch.randn(6, 3, 8, 8), torch.randint(0, 5, (6,))


def gpt() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return a model, a batch for it, and labels."""
    return Language(30, 16, 6, fused=False), torch.randint(0, 30, (2, 6)), torch.randint(0, 30, (12,))


def gpt_fused() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """Return the same with torch's own attention."""
    return Language(30, 16, 6, fused=True), torch.randint(0, 30, (2, 6)), torch.randint(0, 30, (12,))


MODELS = [mlp, resnet, gpt, gpt_fused]

Optimizer = Callable[..., torch.optim.Optimizer]
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-3, **k),
    "adam": lambda p, **k: torch.optim.Adam(p, lr=1e-3, eps=1e-4, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=1e-3, eps=1e-4, **k),
}


@dataclass
class Learner:
    """A model with its data and optimizer on one device."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    x: torch.Tensor
    y: torch.Tensor

    def step(self) -> torch.Tensor:
        """Take one step; returns the loss of before."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        torch_go_xla.sync()
        return loss.detach()


def learners(
    make: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]], optimizer: Optimizer, **options: bool
) -> list[Learner]:
    """Return two of the same, on the CPU and on xla."""
    torch.manual_seed(0)
    model, x, y = make()
    models = [model, copy.deepcopy(model).to("xla")]
    return [
        Learner(m, optimizer(m.parameters(), **options), x.to(d), y.to(d))
        for m, d in zip(models, ("cpu", "xla"), strict=True)
    ]
