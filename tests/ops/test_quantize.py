"""Fake quantization and products with packed weights equal torch on the CPU."""

import pytest
import torch
from cpu_reference import Batch

ROWS = """
    fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask
    _fake_quantize_per_tensor_affine_cachemask_tensor_qparams _weight_int8pack_mm
""".split()

aten = torch.ops.aten
ONE_TENSOR = aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams


def test_fake_quantization():
    batch = Batch()
    ends = torch.tensor([-1e30, -13.1, -0.15, -0.05, 0.05, 0.25, 12.4, 1e30, float("nan"), float("inf")])
    scales = torch.tensor([0.1, 0.2, 0.03])
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        x = torch.randn(4, 3, dtype=dtype, requires_grad=True) * 9
        batch.add(f"{dtype} ends", aten.fake_quantize_per_tensor_affine_cachemask, ends.to(dtype), 0.1, 3, -128, 127)
        batch.add(f"{dtype}", torch.fake_quantize_per_tensor_affine, x, 0.1, 3, -128, 127, backward=True)
        for zeros in (torch.tensor([0, 3, -7], dtype=torch.int32), torch.tensor([0.0, 3.4, -0.5])):
            channels = torch.fake_quantize_per_channel_affine
            batch.add(f"{dtype} channels {zeros.dtype}", channels, x, scales, zeros, 1, -128, 127, backward=True)
        for enabled in (0, 1):
            given = torch.tensor([0.1]), torch.tensor([3], dtype=torch.int32), torch.tensor([enabled])
            batch.add(f"{dtype} enabled {enabled}", ONE_TENSOR, ends.to(dtype), *given, -128, 127)
    weights = torch.randint(-9, 9, (16, 32)).char()  # torch's kernel wants whole blocks
    batch.add("int8", aten._weight_int8pack_mm, torch.randn(4, 32).bfloat16(), weights, torch.rand(16).bfloat16())
    batch.check()


@pytest.mark.parametrize(
    "change",
    [
        {"axis": 5},
        {"quant_min": 9, "quant_max": 1},
        {"scale": torch.ones(3).double()},
        {"zero_point": torch.ones(2).int()},
    ],
)
def test_errors(change):
    words = []
    for device in ("cpu", "xla"):
        given = {"scale": torch.ones(3), "zero_point": torch.ones(3).int(), "axis": 1, "quant_min": 0, "quant_max": 9}
        moved = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in (given | change).items()}
        with pytest.raises((RuntimeError, IndexError)) as info:
            torch.fake_quantize_per_channel_affine(torch.ones(2, 3, device=device), **moved)
        words.append((type(info.value), str(info.value)))
    assert words[0] == words[1]
