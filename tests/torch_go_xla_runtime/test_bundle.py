"""Bundles of strangers: whatever is in one, loading it computes what its program says, or is an error."""

from __future__ import annotations

import copy
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torch_go_xla  # noqa: F401 (makes the device)
import torch_go_xla_runtime
from torch_go_xla.stablehlo import StableHLOGraphModule, save_torch_model_as_stablehlo

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("bundles") / "good"
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8)).train()
    save_torch_model_as_stablehlo(model, (torch.from_numpy(X),), path)
    return path


@pytest.fixture
def bundle(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "bundle"))


def change(bundle: Path, **fields: Any) -> None:
    """Set fields of forward.json, ``a__0__b`` being that of the first of list a."""
    path = bundle / "functions" / "forward.json"
    meta = json.loads(path.read_text())
    for name, value in fields.items():
        *way, last = name.split("__")
        at = meta
        for step in way:
            at = at[int(step) if isinstance(at, list) else step]
        at[last] = value
    path.write_text(json.dumps(meta))


def refused(bundle: Path, match: str) -> None:
    for load in (torch_go_xla_runtime.load, StableHLOGraphModule.load):
        with pytest.raises((ValueError, OSError, RuntimeError), match=match):
            model = load(bundle)
            model(X if load is torch_go_xla_runtime.load else torch.from_numpy(X))


def test_a_good_one(bundle: Path) -> None:
    model, twin = torch_go_xla_runtime.load(bundle), StableHLOGraphModule.load(bundle)
    np.testing.assert_allclose(model(X), twin(torch.from_numpy(X)).cpu().numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"weights__0__type": 7}, "type 7 is not"),  # float64: reads twice the bytes of the file
        ({"weights__0__type": 4}, "type 4 is not"),
        ({"weights__0__dtype": "float64"}, "type 6 is not|bytes"),
        ({"weights__0__dtype": "object"}, "type 6 is not|not the name"),
        ({"weights__0__dtype": "dtype"}, "type 6 is not|not the name"),
        ({"weights__0__shape": [1 << 40, 1 << 40]}, "too large|description says"),
        ({"weights__0__shape": [4, 8]}, "of its signature f32"),
        ({"weights__0__shape": [-8, -4]}, "no shape"),
        ({"weights__0__shape": [8.0, 4]}, "no shape"),
        ({"weights__0__shape": [1] * 65}, "no shape"),
        ({"weights__0__shape": "ab"}, "no shape"),
        ({"inputs__0__type": 7, "inputs__0__dtype": "float64"}, "of its signature f64"),
        ({"inputs__0__shape": [1 << 20, 4]}, "of its signature"),
        ({"inputs": []}, "in_structure"),
        ({"outputs__0__type": 7, "outputs__0__dtype": "float64"}, "to replace|of its signature"),
        ({"outputs__0__shape": [1 << 20]}, "to replace|of its signature"),
        ({"outputs": []}, "out_structure"),
        ({"outputs__0__updates": "nothing"}, "is not a weight"),
        ({"outputs__0__updates": "0.weight"}, "to replace"),
        ({"outputs__0__writes": 1, "outputs__0__updates": None}, "writes to input 1, of 1"),
        ({"outputs__0__writes": -1, "outputs__0__updates": None}, "writes to input -1"),
        ({"in_structure": 3}, "in_structure numbers"),
        ({"in_structure": {"tuple": [0, 0]}}, "in_structure numbers"),
        ({"out_structure": {"list": 0}}, "not a structure"),
        ({"out_structure": True}, "not a structure"),
        ({"weights__0__name": "../secret"}, "not the name of a file"),
        ({"weights__0__name": "/etc/passwd"}, "not the name of a file"),
        ({"weights__0__name": ".."}, "not the name of a file"),
        ({"weights__0__name": "a\0b"}, "not the name of a file"),
        ({"weights__0__name": "0.bias"}, "same name"),
        ({"weights__0__name": 3}, "no name of type"),
        ({"weights": {}}, "no weights of type"),
    ],
    ids=str,
)
def test_descriptions(bundle: Path, fields: dict[str, Any], match: str) -> None:
    change(bundle, **fields)
    refused(bundle, match)


def test_a_deep_description(bundle: Path) -> None:
    structure: Any = 0
    for _ in range(200):
        structure = {"list": [structure]}
    change(bundle, out_structure=structure)
    refused(bundle, "deeper than 100")
    (bundle / "functions" / "forward.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)
    refused(bundle, "deeper than 100")


CALL = """
    %9999 = "stablehlo.custom_call"(%0) {
      call_target_name = "torch_linalg_eig", api_version = 4 : i32} : (tensor<8x4xf32>) -> tensor<f32>
"""


@pytest.mark.parametrize(
    ("edit", "match"),
    [
        (lambda s: s.replace("  func.func", CALL + "  func.func", 1), "custom_call"),
        (lambda s: s.replace('    "func.return"', CALL + '    "func.return"', 1), "custom_call"),
        (lambda s: s.replace("8x4xf32", "8x4xf64"), "of its signature"),
        (lambda s: s.replace("8x4xf32", "?x4xf32"), "fixed sizes"),
        (lambda s: s.replace("public @main", "public @other"), "no func.func @main"),
        (
            lambda s: s.replace("%0: tensor<8x4xf32>", "%0: tensor<8x4xf32> {tf.aliasing_output = 0 : i32}"),
            "aliasing_output",
        ),
        (lambda s: s[: len(s) // 2], "brackets|text form"),
        (lambda s: "ML\x01R" + s, "text form"),
        (lambda s: "", "no func.func @main"),
        (lambda s: s.replace("stablehlo.", "nothing."), "."),
    ],
    ids=[
        "call outside of the function",
        "call",
        "types",
        "sizes",
        "main",
        "donation",
        "half",
        "bytecode",
        "empty",
        "unknown ops",
    ],
)
def test_programs(bundle: Path, edit: Any, match: str) -> None:
    path = bundle / "functions" / "forward.mlir"
    path.write_text(edit(path.read_text()))
    refused(bundle, match)


def link_out(path: Path, aside: Path) -> None:
    shutil.move(path, aside)
    path.symlink_to(aside)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda path, aside: (path.unlink(), os.mkfifo(path)), "not a regular file"),
        (lambda path, aside: (path.unlink(), path.mkdir()), "not a regular file"),
        (lambda path, aside: (path.unlink(), path.symlink_to("/dev/zero")), "symbolic links"),
        (link_out, "symbolic links"),
    ],
    ids=["pipe", "directory", "device", "link"],
)
@pytest.mark.parametrize("name", ["data/0.weight", "functions/forward.json", "functions/forward.mlir"])
def test_files(bundle: Path, name: str, make: Any, match: str) -> None:
    make(bundle / name, bundle.parent / "aside")
    refused(bundle, match)


def test_a_folder_elsewhere(bundle: Path) -> None:
    link_out(bundle / "data", bundle.parent / "aside")
    refused(bundle, "Not a directory|symbolic links")


@pytest.mark.parametrize("size", [0, 1, 127, 129, 1 << 33])
def test_sizes_of_files(bundle: Path, size: int) -> None:
    os.truncate(bundle / "data" / "0.weight", size)
    refused(bundle, f"has {size} bytes, its description says 128")


def test_names_that_cannot_be_saved(bundle: Path, tmp_path: Path) -> None:
    module = StableHLOGraphModule.load(bundle)
    module.weights["../x"] = copy.copy(module.weights["0.bias"])
    with pytest.raises(ValueError, match="not the name of a file"):
        module.save(tmp_path / "other")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["results", "between"])
def test_a_program_that_fails_as_it_runs(ok, what: str) -> None:
    """The call raises, and the device goes on."""
    assert ok("bundle/fails.py", what).split() == ["good"]
