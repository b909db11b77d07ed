"""Pooling, padding and resampling equal torch on the CPU."""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import Batch, check_errors, check_opinfo
from rounded import check_halves

TYPES = (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64)

POOLS = [f"nn.functional.{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg", "adaptive_max") for n in (1, 2, 3)]

OTHERS = """
    constant_pad_nd nn.functional.pad nn.functional.unfold nn.functional.pixel_shuffle
    nn.functional.pixel_unshuffle nn.functional.channel_shuffle nn.functional.max_unpool1d nn.functional.max_unpool2d
    nn.functional.max_unpool3d nn.functional.interpolate nn.functional.upsample_nearest
    nn.functional.upsample_bilinear _upsample_bilinear2d_aa
""".split()

RESAMPLERS = [
    *(f"{name}{n}d" for name in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)),
    *"upsample_linear1d upsample_bilinear2d upsample_trilinear3d upsample_bicubic2d".split(),
    *"_upsample_bilinear2d_aa _upsample_bicubic2d_aa".split(),
]

FORWARD = (
    """
    max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
    adaptive_max_pool2d adaptive_max_pool3d grid_sampler_2d grid_sampler_3d reflection_pad1d reflection_pad2d
    reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
""".split()
    + RESAMPLERS
)

ROWS = [
    *FORWARD,
    *(f"{name}_backward" for name in FORWARD),
    *"constant_pad_nd im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle max_unpool2d max_unpool3d".split(),
]

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("name", POOLS + OTHERS)
def test_opinfo(name):
    check_opinfo(name, TYPES, most=6)


@pytest.mark.parametrize("name", POOLS + OTHERS)
def test_halves(name):
    check_halves(name, most=2)


@pytest.mark.parametrize("name", POOLS + OTHERS)
def test_errors(name):
    check_errors(name)


def test_max_pool_windows():
    """Values, indices and gradients for every combination of stride, padding, dilation and ceil_mode."""
    torch.manual_seed(0)
    batch = Batch()
    for stride, padding, dilation, ceil in itertools.product((1, 2, 3), (0, 1), (1, 2), (False, True)):
        x = torch.randint(0, 4, (2, 3, 9, 8)).float().requires_grad_()  # full of ties
        options = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil}
        batch.add(
            f"{options}",
            lambda x, o=options: F.max_pool2d(x, (3, 2), return_indices=True, **o),
            x,
            backward=True,
        )
    batch.check()


def test_max_pool_not_finite():
    batch = Batch()
    x = torch.tensor([[NAN, 1, NAN, 2], [3, NAN, 4, 5], [-INF, -INF, INF, INF], [-INF, -INF, 0, INF]])[None]
    x.requires_grad_()
    for size, stride in ((2, 2), (2, 1), (3, 1)):
        batch.add(
            f"{size} {stride}",
            lambda x, k=size, s=stride: F.max_pool2d(x, k, s, return_indices=True),
            x,
            backward=True,
        )
    batch.add("adaptive", lambda x: F.adaptive_max_pool2d(x, 3, return_indices=True), x, backward=True)
    batch.add("volume", lambda x: F.max_pool3d(x[None], (1, 2, 2), return_indices=True), x, backward=True)
    batch.check()


def test_avg_pool_windows():
    """Values and gradients for every combination of the arguments."""
    torch.manual_seed(0)
    batch = Batch()
    for stride, padding, ceil, include, divisor in itertools.product((1, 2, 3), (0, 1), (0, 1), (0, 1), (None, 5)):
        options = {"stride": stride, "padding": padding, "ceil_mode": bool(ceil), "count_include_pad": bool(include)}
        options["divisor_override"] = divisor
        x = torch.randn(2, 3, 9, 8, requires_grad=True)
        batch.add(f"{options}", lambda x, o=options: F.avg_pool2d(x, (3, 2), **o), x, backward=True)
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    batch.add("one window", lambda x: F.avg_pool2d(x, 6), x, backward=True)
    batch.add("side by side", lambda x: F.avg_pool2d(x, (2, 3)), x, backward=True)
    batch.add("with a rest", lambda x: F.avg_pool2d(x, 4), x, backward=True)
    batch.check()


def test_adaptive_sizes():
    torch.manual_seed(0)
    batch = Batch()
    for out in ((1, 1), (3, 4), (5, 3), (7, 8), (10, 2), (None, 5)):
        x = torch.randn(2, 3, 6, 8, requires_grad=True)
        batch.add(f"avg {out}", lambda x, o=out: F.adaptive_avg_pool2d(x, o), x, backward=True)
        batch.add(f"max {out}", lambda x, o=out: F.adaptive_max_pool2d(x, o, return_indices=True), x, backward=True)
    batch.check()


def test_infinities_stay_in_their_window():
    """A source outside of a window is not multiplied by zero."""
    batch = Batch()
    x = torch.ones(1, 1, 7, 7)
    x[..., 0, 0], x[..., 6, 6] = INF, NAN
    batch.add("adaptive", lambda x: F.adaptive_avg_pool2d(x, 4), x)
    batch.add("bilinear", lambda x: F.interpolate(x, size=(11, 5), mode="bilinear"), x)
    batch.add("bicubic", lambda x: F.interpolate(x, size=(11, 5), mode="bicubic"), x)
    batch.add("antialiased", lambda x: F.interpolate(x, size=(3, 3), mode="bilinear", antialias=True), x)
    batch.check()


def test_pads():
    batch = Batch()
    x = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5).requires_grad_()
    for mode, pad in itertools.product(("reflect", "replicate"), ((1, 2, 3, 0), (-1, 2, 0, -2), (4, -3, -1, 3))):
        batch.add(f"{mode} {pad}", lambda x, p=pad, m=mode: F.pad(x, p, m), x, backward=True)
    batch.add("replicate beyond", lambda x: F.pad(x, (7, -6, 5, 9), "replicate"), x, backward=True)
    for pad in ((1, 2), (-1, 2, 0, -3), (0, 1, 2, 0, -1, 1), (-5, 0)):
        batch.add(f"constant {pad}", lambda x, p=pad: F.pad(x, p, value=0.3), x, backward=True)
    batch.check()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_interpolation(mode):
    """Sizes and scale factors, up and down, with and without aligned corners and antialiasing."""
    torch.manual_seed(0)
    batch = Batch()
    linear = mode.startswith("bi")
    sizes = [{"size": (9, 10)}, {"size": (3, 15)}, {"scale_factor": 2}, {"scale_factor": (0.7, 1.6)}, {"size": (5, 6)}]
    for size, align, smooth in itertools.product(sizes, (False, True), (False, True)):
        options = dict(size, mode=mode)
        if linear:
            options |= {"align_corners": align, "antialias": smooth}
        elif align or smooth:
            continue
        x = torch.randn(2, 3, 5, 6, requires_grad=True)
        batch.add(f"{options}", lambda x, o=options: F.interpolate(x, **o), x, backward=True)
        x = torch.randint(0, 256, (2, 3, 5, 6), dtype=torch.uint8)
        batch.add(f"{options} bytes", lambda x, o=options: F.interpolate(x, **o), x)
    batch.check()


def test_large_interpolation_gradient():
    """Many outputs of one input are summed by one reduction."""
    batch = Batch()
    x = torch.randn(1, 2, 3, 4, requires_grad=True)
    batch.add("up by 16", lambda x: F.interpolate(x, scale_factor=16, mode="bilinear"), x, backward=True)
    batch.add("nearest by 2.5", lambda x: F.interpolate(x, scale_factor=2.5), x, backward=True)
    batch.check()


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode, padding):
    torch.manual_seed(0)
    batch = Batch({torch.float32: (1e-4, 1e-4)})  # gradients are sums of differences
    for align in (False, True):
        x = torch.randn(2, 3, 4, 5, requires_grad=True)
        grid = (1.5 * torch.randn(2, 6, 3, 2)).requires_grad_()
        options = {"mode": mode, "padding_mode": padding, "align_corners": align}
        batch.add(f"{align}", lambda x, g, o=options: F.grid_sample(x, g, **o), x, grid, backward=True)
    batch.check()


def test_grid_sample_volume():
    torch.manual_seed(0)
    batch = Batch({torch.float32: (1e-4, 1e-4)})
    x, grid = torch.randn(2, 2, 3, 4, 5, requires_grad=True), torch.randn(2, 2, 3, 2, 3, requires_grad=True)
    for mode, wanted in (("bilinear", True), ("nearest", True), ("bilinear", False)):
        x = x.detach().requires_grad_(wanted)
        batch.add(
            f"{mode} {wanted}",
            lambda x, g, m=mode: F.grid_sample(x, g, mode=m, align_corners=False),
            x,
            grid,
            backward=True,
        )
    batch.check()


def test_global_pool_is_a_reduction():
    """The pooling that ends most convolutional networks has no window."""
    x = torch.randn(2, 3, 6, 6, device="xla")
    torch.testing.assert_close(F.adaptive_avg_pool2d(x, 1).cpu(), x.cpu().mean((2, 3), keepdim=True))


def test_fold():
    """Sliding blocks to columns and back, with overlap and gaps."""
    batch = Batch()
    for stride, padding, dilation in itertools.product((1, 2, (2, 1)), (0, 1), (1, 2)):
        options = {"stride": stride, "padding": padding, "dilation": dilation}
        x = torch.randn(2, 3, 7, 6, requires_grad=True)
        batch.add(f"unfold {options}", lambda x, o=options: F.unfold(x, (3, 2), **o), x, backward=True)
        columns = F.unfold(x.detach(), (3, 2), **options).requires_grad_()
        batch.add(f"fold {options}", lambda x, o=options: F.fold(x, (7, 6), (3, 2), **o), columns, backward=True)
    batch.check()
