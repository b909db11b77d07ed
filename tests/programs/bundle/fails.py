"""A bundle whose program, in MLIR's usual form, asks for more memory as it runs than the process may have."""

import contextlib
import json
import resource
import sys
import tempfile
from pathlib import Path

import numpy as np
import process_memory
import torch

import torch_go_xla
import torch_go_xla_runtime
from torch_go_xla.stablehlo import StableHLOGraphModule, save_torch_model_as_stablehlo

ROWS = 1 << 28  # 4 GiB
RESULT = {"results": f"tensor<{ROWS}x4xf32>", "between": "tensor<4xf32>"}[sys.argv[1]]
PROGRAM = f"""module @jit_f attributes {{mhlo.num_partitions = 1 : i32}} {{
  func.func public @main(%arg0: tensor<4xf32> {{jax.arg_info = "x"}}) -> (tensor<4xf32>, {RESULT}) {{
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.add %arg0, %0 : tensor<4xf32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<4xf32>) -> tensor<{ROWS}x4xf32>
    %3 = "stablehlo.sort"(%2) <{{dimension = 0 : i64}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare  LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    }}) : (tensor<{ROWS}x4xf32>) -> tensor<{ROWS}x4xf32>
    %4 = stablehlo.slice %3 [0:1, 0:4] : (tensor<{ROWS}x4xf32>) -> tensor<1x4xf32>
    %5 = stablehlo.reshape %4 : (tensor<1x4xf32>) -> tensor<4xf32>
    return %1, {"%3" if "x4x" in RESULT else "%5"} : tensor<4xf32>, {RESULT}
  }}
}}
"""


class Pair(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x + 1, x * 2


folder = Path(tempfile.mkdtemp())
save_torch_model_as_stablehlo(Pair(), (torch.arange(4.0),), folder)
(folder / "functions" / "forward.mlir").write_text(PROGRAM)
meta = folder / "functions" / "forward.json"
said = json.loads(meta.read_text())
said["outputs"][1]["shape"] = [4] if sys.argv[1] == "between" else [ROWS, 4]
meta.write_text(json.dumps(said))

plain, module = torch_go_xla_runtime.load(folder), StableHLOGraphModule.load(folder)
resource.setrlimit(resource.RLIMIT_AS, (process_memory.mapped() + (3 << 30), -1))
x = torch.arange(4.0)
for _ in range(3):
    try:
        plain(x.numpy())
        sys.exit("there was no error")
    except RuntimeError as e:
        assert "out of memory" in str(e), e
    except MemoryError:  # numpy asked for the copy's memory before the device had failed
        assert sys.argv[1] == "results"
    try:
        module(x)[1].sum().item()
        sys.exit("there was no error")
    except torch_go_xla.OutOfMemoryError:
        pass
    assert (torch.ones(3, device="xla") + 1).tolist() == [2, 2, 2]
with contextlib.suppress(torch_go_xla.OutOfMemoryError):  # of what was on its way
    torch_go_xla.sync(wait=True)
good = Path(tempfile.mkdtemp())
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
save_torch_model_as_stablehlo(Pair(), (x,), good)
np.testing.assert_array_equal(torch_go_xla_runtime.load(good)(x.numpy())[0], [1, 2, 3, 4])
print("good")
