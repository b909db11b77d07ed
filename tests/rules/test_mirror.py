"""`tests` mirrors the packages: from a module one finds its tests at a glance, and from a test what it is about.

The tests of ``torch_go_xla/utils/whole_file.py`` are ``tests/utils/test_whole_file.py``, or any whose name begins so.
Tests of a Go package that have to go through Python are in the folder of its name: ``tests/ops``, ``tests/engine``. A
test named as its folder is about the package as a whole. ``tests/integration`` holds tests of everything together.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PYTHON = ROOT / "python" / "torch_go_xla"
HOMES = [PYTHON, ROOT / "gocore", ROOT, ROOT / "python"]
# Folders that mirror no package: what they test is all of them.
ALL = {"accelerators", "conformance", "integration", "metamorphic", "rules", "torture", "upstream", "zoo"}
# From this number of lines on, without docstrings, a module needs tests of its own or a line below.
SIZE = 90
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
GENERATED = {"_control.py", "_vocabulary.py"}

# Tests that have another name than a module, and what they are about.
ABOUT = {
    "alias/test_aliases": "store.go and view.go, through torch's views",
    "docs/test_examples": "the examples in docstrings",
    "docs/test_pages": "the code of all pages",
    "docs/test_tutorials": "the notebooks of docs/tutorials and examples",
    "ops/test_quantize": "_backend/composed/quantize.py, by the means of the tests of ops",
    "utils/test_save": "tensor_file.py, through xm.save",
    "utils/test_save_anywhere": "tensor_file.py in signal handlers and at exit",
    "utils/test_save_crash": "tensor_file.py, killed",
    "utils/test_save_elsewhere": "tensor_file.py and torch.distributed.checkpoint",
}
# Modules that are tested elsewhere, or folders of them, and where.
ELSEWHERE = {
    "python/torch_go_xla/__init__.py": "integration/test_surface",
    "python/torch_go_xla/_XLAC.py": "core/test_xla_model",
    "python/torch_go_xla/_core.py": "integration/test_surface",
    "python/torch_go_xla/_info.py": "test_doctor",
    "python/torch_go_xla/_backend/memory_usage.py": "debug/test_memory_figures",
    "python/torch_go_xla/_backend/composed/ctc.py": "ops/test_loss",
    "python/torch_go_xla/_backend/composed/histogram.py": "ops/test_sort",
    "python/torch_go_xla/_backend/composed/segments.py": "conformance/test_conformance",
    "python/torch_go_xla/_backend/core.py": "_backend/test_kernels",
    "python/torch_go_xla/_backend/storage_kernels.py": "_backend/test_storage",
    "python/torch_go_xla/_backend/mixed.py": "_backend/test_kernels",
    "python/torch_go_xla/_backend/op_sharding.py": "distributed/spmd/test_spmd_api",
    "python/torch_go_xla/_backend/partitioning.py": "engine/test_spmd",
    "python/torch_go_xla/_backend/plan.py": "_backend/test_schema",
    "python/torch_go_xla/_backend/recorded.py": "test_compile",
    "python/torch_go_xla/_backend/register.py": "_backend/test_kernels",
    "python/torch_go_xla/_backend/transfer.py": "_backend/test_device",
    "python/torch_go_xla/_backend/xla_module.py": "_backend/test_device",
    "python/torch_go_xla/core/_collectives.py": "test_job",
    "python/torch_go_xla/core/functions.py": "test_job",
    "python/torch_go_xla/debug/metrics.py": "core/test_xla_model",
    "python/torch_go_xla/distributed/fsdp/wrap.py": "distributed/fsdp/test_fully_sharded",
    "python/torch_go_xla/distributed/parallel_loader.py": "distributed/spmd/test_spmd_training",
    "python/torch_go_xla/distributed/tensor": "distributed/tensor/test_dtensor",
    "python/torch_go_xla/distributed/xla_backend.py": "test_job",
    "python/torch_go_xla/experimental/spmd_fully_sharded_data_parallel.py": "distributed/spmd/test_spmd_training",
    "python/torch_go_xla/runtime.py": "core/test_xla_model",
    "python/torch_go_xla/utils/tensor_file.py": "utils/test_save",
    "python/torch_go_xla/utils/utils.py": "test_step_closures",
    "python/torch_go_xla_runtime": "torch_go_xla_runtime/test_bundle",
    "gocore/errs": "integration/test_bad_input",
    "pjrt/nullplugin": "pjrt/test_pjrt_faults",
}


def files() -> list[Path]:
    return sorted(p for p in TESTS.rglob("test_*.py") if "programs" not in p.parts)


def about(name: str, folder: Path) -> bool:
    """Return whether a test of this name is about the package in the folder, or a module or a file of it."""
    found = [folder.name, *(p.stem for p in folder.iterdir() if p.suffix in {".py", ".go", ".c", ".ipynb"})]
    return any(name == known or name.startswith(f"{known}_") for known in (f.strip("_") for f in found) if known)


@pytest.mark.parametrize("test", [str(p.relative_to(TESTS).with_suffix("")) for p in files()])
def test_a_test_says_what_it_is_about(test: str) -> None:
    folder, _, name = test.rpartition("/")
    if folder in ALL or test in ABOUT:
        return
    homes = [home / folder for home in HOMES if (home / folder).is_dir()]
    assert any(about(name.removeprefix("test_"), home) for home in homes), f"{test} is named as no module"


def has_tests(module: str) -> bool:
    """Return whether tests have the name of a Python module, or of its package."""
    package = (ROOT / module).relative_to(PYTHON).parent
    names = {Path(module).stem.strip("_"), package.name.strip("_")} - {""}
    found = [p.stem.removeprefix("test_") for p in (TESTS / package).glob("test_*.py")]
    return any(test == name or test.startswith(f"{name}_") for name in names for test in found)


def length(path: Path) -> int:
    """Return the number of lines of a module, without its docstrings."""
    text = path.read_text()
    described = [n for n in ast.walk(ast.parse(text)) if isinstance(n, DOCUMENTED) and ast.get_docstring(n)]
    return len(text.splitlines()) - sum(n.body[0].end_lineno - n.body[0].lineno + 1 for n in described)


def modules() -> list[str]:
    """Return the Python modules of some size, and the Go packages."""
    written = [p for p in PYTHON.rglob("*.py") if p.name not in GENERATED and "_go" not in p.parts]
    large = [p for p in written if length(p) >= SIZE]
    packages = {p.parent for top in ("gocore", "pjrt") for p in (ROOT / top).rglob("*.go")}
    return sorted(str(p.relative_to(ROOT)) for p in [*large, *packages] if "internal" not in p.parts)


def untested() -> list[str]:
    """Return the modules without tests of their name, and the packages without tests beside them."""
    python = [m for m in modules() if m.endswith(".py") and not has_tests(m)]
    go = [m for m in modules() if not m.endswith(".py") and not [*(ROOT / m).glob("*_test.go")]]
    return python + [m for m in go if not (TESTS / Path(m).name).is_dir()]


def test_every_module_is_tested_or_says_where() -> None:
    known = [m for m in untested() if m in ELSEWHERE or str(Path(m).parent) in ELSEWHERE]
    assert [m for m in untested() if m not in known] == [], "add a test of the name, or a line to ELSEWHERE"


def test_the_tables_are_true() -> None:
    places = set(ELSEWHERE.values()) | set(ABOUT)
    assert [p for p in places if not (TESTS / p).with_suffix(".py").exists()] == []
    needed = {m for u in untested() for m in (u, str(Path(u).parent))}
    outside = {"python/torch_go_xla_runtime"}
    assert set(ELSEWHERE) - needed - outside == set(), "these have tests of their own"
