"""Models of the zoo that need torch alone."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


class Recurrent(nn.Module):
    """A classifier of texts: two recurrent layers over embeddings."""

    def __init__(self, cell: type[nn.RNNBase], words: int = 90, width: int = 16, classes: int = 10) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = cell(width, width, num_layers=2, batch_first=True)
        self.head = nn.Linear(width, classes)

    @classmethod
    def of(cls, cell: type[nn.RNNBase]) -> Callable[[], nn.Module]:
        """Return what makes a classifier of a kind of layers."""
        return functools.partial(cls, cell)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Map [n, time] to [n, classes]."""
        return self.head(self.layers(self.words(ids))[0].mean(1))


class _Double(nn.Sequential):
    """Twice convolution, batch norm, ReLU."""

    def __init__(self, inner: int, outer: int) -> None:
        layers: list[nn.Module] = []
        for width in (inner, outer):
            layers += [nn.Conv2d(width, outer, 3, padding=1, bias=False), nn.BatchNorm2d(outer), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    """A UNet of two levels: one way up by transposed convolution, one by interpolation."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.down1, self.down2 = _Double(1, width), _Double(width, 2 * width)
        self.bottom = _Double(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, 2)
        self.left2 = _Double(4 * width, 2 * width)
        self.left1 = _Double(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [n, 1, h, w] to the same; h and w are multiples of 4."""
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.up2(self.bottom(F.max_pool2d(b, 2)))
        c = self.left2(torch.cat([b, c], 1))
        c = F.interpolate(c, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.left1(torch.cat([a, c], 1)))
