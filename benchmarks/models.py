"""The models that are trained: an MLP, a GPT of four blocks, a ResNet-18 for small images."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import nn

Task = tuple[nn.Module, torch.Tensor, torch.Tensor, Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]]


def mlp(quick: bool) -> Task:
    """Return 784 -> 512 -> 512 -> 10 with a batch of 128, for SGD."""
    del quick
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return (
        model,
        torch.randn(128, 784),
        torch.randint(0, 10, (128,)),
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9),
    )


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, time, width = x.shape
        depth = width // self.heads
        q, k, v = self.qkv(self.norm1(x)).view(n, time, 3, self.heads, depth).permute(2, 0, 3, 1, 4).unbind(0)
        past = torch.tril(torch.ones(time, time, device=x.device, dtype=torch.bool))
        weights = (q @ k.transpose(-1, -2) * depth**-0.5).masked_fill(~past, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(n, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class _Gpt(nn.Module):
    def __init__(self, words: int, width: int, blocks: int, time: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(time, width)
        self.blocks = nn.Sequential(*(_Block(width, 4) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x))).flatten(0, 1)


def gpt(quick: bool) -> Task:
    """Return 4 blocks of width 256 with a batch of 8 times 128 words (2 of 32 when quick), for AdamW."""
    time, batch = (32, 2) if quick else (128, 8)
    ids, labels = torch.randint(0, 1024, (batch, time)), torch.randint(0, 1024, (batch * time,))
    return _Gpt(1024, 256, 4, time), ids, labels, lambda p: torch.optim.AdamW(p, lr=3e-4)


class _Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.BatchNorm2d(outer)
        self.conv2, self.norm2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False), nn.BatchNorm2d(outer)
        self.around = nn.Sequential()
        if stride != 1 or inner != outer:
            self.around = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.around(x))


def resnet(quick: bool) -> Task:
    """Return a ResNet-18 for 32 x 32 images with a batch of 32 (4 when quick), for SGD."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    inner = 64
    for outer, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [_Residual(inner, outer, stride), _Residual(outer, outer, 1)]
        inner = outer
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
    batch = 4 if quick else 32
    images, labels = torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,))
    return model, images, labels, lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9)


TASKS: dict[str, Callable[[bool], Task]] = {"mlp": mlp, "gpt": gpt, "resnet": resnet}
