"""Programs of tests are files, where a linter and a debugger find them."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = [ROOT / "tests", ROOT / "build_support" / "tests", ROOT / "pjrt" / "xlacpu" / "tests"]
LINES = 3
FILES = sorted(file for tests in TESTS for file in tests.rglob("*.py"))
# A program that is put together from parts which a seed draws.
DRAWN = {"tests/torture/exits.py"}


def is_program(text: str) -> bool:
    """Return whether a text of more lines than a test may hold runs as Python: it imports, asserts or calls."""
    if len(text.strip().splitlines()) <= LINES:
        return False
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return False
    return any(isinstance(x, (ast.Import, ast.ImportFrom, ast.Assert, ast.Call)) for s in body for x in ast.walk(s))


def programs(source: str) -> list[int]:
    """Return the lines at which a file holds programs in strings, formatted ones too."""
    tree = ast.parse(source)
    whole = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr)]
    found = [n.lineno for n in whole if is_program("".join(getattr(v, "value", "x") for v in _plain(n)))]
    parts = {part for n in whole for part in n.values}
    for n in ast.walk(tree):
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and n not in parts and is_program(n.value):
            found.append(n.lineno)
    return found


def _plain(text: ast.JoinedStr) -> list[ast.Constant]:
    return [v if isinstance(v, ast.Constant) else ast.Constant("x") for v in text.values]


def test_no_program_is_in_a_string() -> None:
    found = {str(f.relative_to(ROOT)): programs(f.read_text()) for f in FILES}
    assert {name for name, lines in found.items() if lines} == DRAWN, "put these into files of a folder programs"


def test_the_lint_finds_programs() -> None:
    four = "\n".join(["import torch", "x = torch.ones(3)", "y = x + 1", "print(y)"])
    assert programs(f"p = {four!r}") == [1]
    assert programs("p = f" + repr(four.replace("3", "{size}"))) == [1]
    assert programs("p = 'import torch; print(torch.ones(3))'") == programs('"""One.\n\nTwo.\n\nThree."""') == []
