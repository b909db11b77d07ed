"""The table of what the package changes in torch: it is whole, it fits this torch, and it says what is lost."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_go_xla
from torch_go_xla._seams import TABLE, loop, records

PACKAGE = Path(torch_go_xla.__file__).parent
VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.relative_to(PACKAGE).parts[0] != "_go")

# What others call when they mean to write to a container.
MUTATORS = {"append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update"}

# The process's own state, and what a user asks for by a call of its own: `as_torch_xla.install`.
ALLOWED = {"os.environ", "sys.argv", "sys.path", "sys.meta_path"}

OFF = loop.VARIABLE


def fits(seam: Any) -> bool:
    return seam.since <= VERSION and (seam.until is None or VERSION <= seam.until)


# ---- the table ----


def test_every_seam_fits_this_torch() -> None:
    loop.apply("mesh")
    found = {r.seam.name: (r.state, r.why) for r in records()}
    assert found == {s.name: ("applied", "") if fits(s) else ("skipped", found[s.name][1]) for s in TABLE}
    for seam in TABLE:
        for target in seam.targets if not seam.by_hand and fits(seam) else ():
            owner, name = loop._owner(target.path)
            value = getattr(owner, name)
            where = getattr(value, "__module__", None) or type(value).__module__
            assert "torch_go_xla" in where or not callable(value) or hasattr(value, "__wrapped__"), target.path


def test_rows_are_whole() -> None:
    assert len({s.name for s in TABLE}) == len(TABLE)
    paths = [t.path for s in TABLE for t in s.targets]
    assert len(set(paths)) == len(paths), "one seam a target"
    for s in TABLE:
        assert s.targets and s.reason and s.loss and re.fullmatch(r"[a-z][a-z-]*", s.name), s.name
        module, _, function = s.replace.partition(":")
        assert callable(getattr(importlib.import_module(f"torch_go_xla._seams.{module}"), function)), s.name


def test_the_report_names_every_seam(ok: Callable[..., str]) -> None:
    text = torch_go_xla.debug.seams.report()
    assert all(f"{s.name} (" in text and t.path in text for s in TABLE for t in s.targets)
    said = ok(
        "import runpy; runpy.run_module('torch_go_xla.debug.seams', run_name='__main__')", **{OFF: "-accelerator"}
    )
    assert f"accelerator (skipped: {OFF} leaves it out)" in said and "dtensor (waiting" in said


# ---- no other file assigns into torch ----


class _Foreign(ast.NodeVisitor):
    """Finds what a module writes into objects that it imports from elsewhere."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.found: list[tuple[int, str]] = []

    def visit_Import(self, node: ast.Import) -> None:
        self.names.update((a.asname or a.name).partition(".")[0] for a in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level == 0 and not (node.module or "").startswith("torch_go_xla"):
            self.names.update(a.asname or a.name for a in node.names)

    def _is_foreign(self, node: ast.AST) -> bool:
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        if isinstance(node, ast.Call):  # vars(torch.Tensor), getattr(torch, name)
            is_look = isinstance(node.func, ast.Name) and node.func.id in ("vars", "getattr")
            return is_look and bool(node.args) and self._is_foreign(node.args[0])
        return isinstance(node, ast.Name) and node.id in self.names

    def _written(self, node: ast.AST, line: int) -> None:
        text = ast.unparse(node)
        if self._is_foreign(node) and not any(text == a or text.startswith((f"{a}.", f"{a}[")) for a in ALLOWED):
            self.found.append((line, text))

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._assigned(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        self._assigned(node.target, node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        self._assigned(node.target, None)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._assigned(target, None)

    def _assigned(self, target: ast.AST, value: ast.AST | None) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [None] * len(target.elts)
            for t, v in zip(target.elts, values, strict=False):
                self._assigned(t, v)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            self._written(target, target.lineno)
        elif isinstance(target, ast.Name) and isinstance(value, (ast.Name, ast.Attribute)) and self._is_foreign(value):
            self.names.add(target.id)  # library: Any = torch

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        f = node.func
        if isinstance(f, ast.Name) and f.id in ("setattr", "delattr"):
            self._written(ast.Attribute(node.args[0], ast.unparse(node.args[1])), node.lineno)
        elif isinstance(f, ast.Attribute) and f.attr in MUTATORS and isinstance(f.value, ast.Attribute | ast.Name):
            self._written(f.value, node.lineno)


def foreign_writes(text: str) -> list[str]:
    visitor = _Foreign()
    visitor.visit(ast.parse(text))
    return [f"{line}: {what}" for line, what in visitor.found]


def test_only_the_seams_write_into_objects_of_torch_and_of_python() -> None:
    found = {
        str(path.relative_to(PACKAGE)): writes
        for path in FILES
        if path.parent.name != "_seams" and (writes := foreign_writes(path.read_text()))
    }
    # The module of the kernels, under its own name.
    found.pop("_core.py", None)
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.Tensor.xla = 1",
        "import torch\ntensor: object = torch.Tensor\ntensor.xla, x = 1, 2",
        "from torch.optim import optimizer as o\no._types.append(3)",
        "from torch.optim.optimizer import _types\n_types.append(3)",
        "import threading\nsetattr(threading.Thread, 'start', 1)",
        "import sys\nsys.modules['torch_xla'] = 1",
        "import torch\nvars(torch.Tensor)['x'] = 1",
        "import torch\ndel torch.Tensor.xla",
    ],
)
def test_the_check_sees_writes(text: str) -> None:
    assert foreign_writes(text)


# ---- the private names that the package reads are there ----


def _chains(tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names of torch that a module imports or spells out."""
    aliases = {"torch": "torch"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").partition(".")[0] == "torch":
            for a in node.names:
                aliases[a.asname or a.name] = f"{node.module}.{a.name}"
                yield f"{node.module}.{a.name}"
    for node in ast.walk(tree):
        parts: list[str] = []
        at: ast.AST = node
        while isinstance(at, ast.Attribute):
            parts.append(at.attr)
            at = at.value
        if parts and isinstance(at, ast.Name) and at.id in aliases:
            yield ".".join([aliases[at.id], *reversed(parts)])


def _resolves(name: str) -> bool:
    try:
        loop.find(loop.Target(name))
    except loop.Misfit:
        return False
    return True


def test_the_private_names_of_torch_that_the_package_uses_are_there() -> None:
    names = {name for path in FILES for name in _chains(ast.parse(path.read_text()))}
    private = {n for n in names if any(re.match(r"_[^_]", part) for part in n.split(".")) and "torch_go_xla" not in n}
    private = {n for n in private if not n.startswith("torch.ops.")}  # those are made when they are asked for
    assert len(private) > 50
    assert [n for n in sorted(private) if not _resolves(n)] == []


# ---- switches, and a torch that differs ----


def test_what_the_switch_takes(python: Callable[..., Any]) -> None:
    assert "none of -tensor-xla" in python("import torch_go_xla", **{OFF: "-everything"}).err
    assert "none of -tensor-xla" in python("import torch_go_xla", **{OFF: "shortcuts"}).err
    refused = python("import torch_go_xla", **{OFF: "-accelerator,-deepcopy"})
    assert refused.code == 1 and "deepcopy cannot be left out: a deep copy" in refused.err


REPORT = "; import torch_go_xla; print(torch_go_xla.debug.seams.report())"


def test_a_torch_without_a_target(python: Callable[..., Any], ok: Callable[..., str]) -> None:
    said = ok("import torch; del torch.accelerator.synchronize" + REPORT)
    assert re.search(r"accelerator \(skipped: torch \S+ has no torch.accelerator.synchronize\)", said)
    done = python("import torch; del torch.Tensor._reduce_ex_internal" + REPORT)
    assert done.code == 1 and "seam pickle: torch" in done.err and "has no torch.Tensor._reduce_ex_internal" in done.err


def test_a_torch_with_another_function_there(ok: Callable[..., str]) -> None:
    said = ok("import torch; torch.set_float32_matmul_precision = lambda mode, backend: None" + REPORT)
    assert "torch.set_float32_matmul_precision of torch" in said and "takes (mode, backend), not (precision)" in said


# ---- what is lost without ----

X = "import copy, io, sys, torch, torch_go_xla; x = torch.ones(3, device='xla', requires_grad=True); "
MESH = "from torch.distributed.device_mesh import init_device_mesh as m; mesh = m('xla', (2,)); "
TENSOR = "import torch.distributed.tensor as d; "

# A program that ends well with the seam, and what it ends with without.
LOSSES = {
    "tensor-xla": (X + "assert x.is_xla and x.xla() is x", "AssertionError"),
    "module-xla": (X + "torch.nn.Linear(1, 1).xla()", "has no attribute 'xla'"),
    "pin-memory": (X + "torch.ones(3).pin_memory()", "Error"),
    "storage-size": (X + "torch.ones(3, device='xla').resize_(30)", "cannot be resized"),
    "dlpack": (X + "import numpy; numpy.from_dlpack(x.detach())", "No module named 'torch_xla'"),
    "generator": (X + "torch.Generator('xla')", "Error"),
    "matmul-precision": (
        X + "torch.set_float32_matmul_precision('high'); "
        "from torch_go_xla._core import core; assert core.precision() == 'high'",
        "AssertionError",
    ),
    "accelerator": (X + "torch.accelerator.synchronize()", "doesn't support synchronizing"),
    "accelerator-memory": (X + "torch.accelerator.memory_allocated()", "is not a DeviceAllocator"),
    "backward-thread": (
        "import torch, torch_go_xla; torch.ones(3, device='xla:1', requires_grad=True).sum().backward()",
        "device_ready_queues_",
    ),
    "dynamo-openxla": (X + "torch.compile(lambda x: x + 1, backend='openxla')(x)", "torch_xla"),
    "shortcuts": (
        X + "y = x.detach(); y + y; from torch_go_xla._backend.core import native; "
        "assert native().fast.shortcuts_taken()",
        "AssertionError",
    ),
    "device-mesh": ("import torch_go_xla; " + MESH + "assert mesh.get_rank() == 0 and mesh.size() == 2", "Error"),
    "dtensor": (
        "import torch, torch_go_xla; "
        + TENSOR
        + MESH
        + "d.distribute_tensor(torch.ones(4), mesh, [d.Shard(0)]).redistribute(mesh, [d.Replicate()])",
        "Error",
    ),
    "dtensor-distribute": (
        "import torch, torch_go_xla; " + TENSOR + MESH + "d.distribute_tensor(torch.ones(4), mesh)",
        "ImportError",
    ),
    "fully-shard": (
        "import torch, torch_go_xla; from torch.distributed.fsdp import fully_shard as f; "
        + MESH
        + "f(torch.nn.Linear(4, 4).to('xla'), mesh=mesh)",
        "Error",
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_what_is_lost_without(name: str, python: Callable[..., Any]) -> None:
    if name == "dynamo-openxla" and "openxla" not in metadata.entry_points(group="torch_dynamo_backends").names:
        pytest.skip("the package is on the path but not installed, and its entry point is what names the backend")
    program, loss = LOSSES[name]
    env = {"CPU_NUM_DEVICES": "2"}
    done = python(program, **env)
    assert done.code == 0, done.err
    done = python(program, **env, **{OFF: f"-{name}"})
    assert done.code == 1 and loss in done.err, done.err


def test_every_loss_is_shown() -> None:
    assert {s.name for s in TABLE if not s.essential and s.loss[:4] != "time"} <= LOSSES.keys()
