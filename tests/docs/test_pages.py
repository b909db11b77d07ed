"""The code of pages runs: a page from top to bottom, the new side of a diff, and wrong code raises what it says.

A block may say what it raises, ```` ```python raises=CompileError````. One that begins with ``# train.py`` is a program
for torchrun. One whose first line says that the tests do not run it is only compiled.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import torch_go_xla

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("saving", "performance", "custom-ops", "tiers")),
]
PAGES += [
    page for folder in ("start", "howto", "errors", "explain") for page in sorted((ROOT / "docs" / folder).glob("*.md"))
]
_BLOCK = re.compile(r"^```(python|diff)(?: raises=(\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)

DRIVER = ROOT / "tests" / "programs" / "pages" / "blocks.py"


class Block(NamedTuple):
    """A piece of a page's code, with what it raises, if it does."""

    name: str
    raises: str
    code: str


def blocks(page: Path) -> list[Block]:
    """Return the code of a page; of a diff, what it leads to."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        language, raises, code = match.groups()
        if language == "diff":
            code = "".join(line[1:] + "\n" for line in code.splitlines() if not line.startswith("-"))
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(f"{page.relative_to(ROOT)}:{line}", raises or "", code))
    return found


def runs(block: Block) -> bool:
    return not block.code.startswith(("# train.py", "# not run by the tests"))


@pytest.mark.parametrize("page", [p for p in PAGES if any(map(runs, blocks(p)))], ids=lambda p: p.stem)
def test_code_runs(page: Path, ok: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where pages write their files
    (tmp_path / "driver.py").write_text(DRIVER.read_text())
    (tmp_path / "blocks.json").write_text(json.dumps([block for block in blocks(page) if runs(block)]))
    ok(f"import runpy, sys; runpy.run_path({str(tmp_path / 'driver.py')!r})", tmp_path / "blocks.json")


def test_other_code_compiles() -> None:
    for page in PAGES:
        for block in blocks(page):
            compile(block.code, block.name, "exec")


@pytest.mark.slow
def test_a_program_for_torchrun(tmp_path: Path) -> None:
    (program,) = (b for b in blocks(ROOT / "docs/howto/torchrun.md") if b.code.startswith("# train.py"))
    (tmp_path / "train.py").write_text(program.code)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(tmp_path / "train.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "equal on 2\n", done.stderr


def test_every_class_of_errors_has_a_page() -> None:
    classes = {n for n in torch_go_xla.__all__ if isinstance(vars(torch_go_xla).get(n), type) and n.endswith("Error")}
    assert classes == {page.stem for page in (ROOT / "docs/errors").glob("*.md")} - {"index"}
    for page in (ROOT / "docs/errors").glob("*Error.md"):
        wrong, right = blocks(page)
        assert wrong.raises == page.stem or page.stem in wrong.code
        assert not right.raises


def test_every_metric_is_described() -> None:
    sources = [path.read_text() for path in (ROOT / "gocore").rglob("*.go") if not path.name.endswith("_test.go")]
    named = {name for text in sources for name in re.findall(r'metrics\.[CM]\("(\w+)', text)}
    python = [path.read_text() for path in (ROOT / "python/torch_go_xla").glob("*.py")]
    named |= {name for text in python for name in re.findall(r'_native\.count\("(\w+)"', text)}
    text = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    described = {n for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for n in re.findall(r"`(\w+)`", row)}
    assert named == described
