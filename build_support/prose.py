"""Checks the English of Markdown pages and of public modules' docstrings: ``python -m build_support prose [FILE...]``.

A sentence has at most 25 words, and a line of a page at most 100 columns; ruff has the columns of modules. `INSTEAD`
lists words that readers stumble over. Code, tables, headings, quotations and HTML are not prose. A semicolon ends a
sentence; a span of code is one word. If a program writes a page, fix the text in the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .toolchain import BuildError

__all__ = ["Finding", "check", "docstring_findings", "findings"]

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "pjrt/xlacpu/*.md")
PACKAGES = ROOT / "python"
WORDS = 25
COLUMNS = 100

# Patterns of words not to use, each with what to write.
INSTEAD = {
    r"anew": "again",
    r"(?:let|lets|letting) go of": "release",
    r"(?:mend|mends|mended|mending)": "fix",
    r"by the clock": "wall time",
    r"shall be": "is, or: the target is",
    r"nobody": "no one, or name who does not",
    r"(?<!there )(?:is|are) no (?!longer|more|less|one|better|worse|different)[a-z]+": "is not a",
    r"(?<!let )(?<!leave )(?<!leaves )(?<!stand )(?<!stands )alone": "only, or: by itself",
    r"whoever|whatsoever|thereof|therein|hereby|lest": "plain words",
}
_INSTEAD = {re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE): instead for pattern, instead in INSTEAD.items()}

_ITEM = re.compile(r"(?:[-*+]|\d+\.)\s+")
_SENTENCE_END = re.compile(r"""(?<=[.!?;])["')*_]*\s+|(?<=:)\s+(?=["'(*_]*[A-Z0-9]|code)""")
_WORD = re.compile(r"[\w'’.,×/=-]*\w[\w'’.,×/=-]*")


class Finding(NamedTuple):
    """What is wrong at a line of a page."""

    line: int
    what: str


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of each paragraph and list item, with the number of the first. Code and tables are left out."""
    fenced = False
    block: list[str] = []
    start = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped = line.strip()
        if stripped.startswith(("```", "~~~")):
            fenced = not fenced
            stripped = ""
        elif fenced or stripped.startswith(("|", "#", "<", ">")) or (line.startswith("    ") and not block):
            stripped = ""
        if block and (not stripped or _ITEM.match(stripped)):
            yield start, block
            block = []
        if stripped:
            start = start if block else number
            block.append(line)


def _plain(lines: list[str]) -> str:
    """Return the words that a reader sees: a span of code is one word, a link is its text."""
    text = " ".join(line.strip() for line in lines)
    text = re.sub(r"``.*?``|`[^`]*`", "code", _ITEM.sub("", text, count=1) if _ITEM.match(text) else text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"https?://\S+", "link", text)


def findings(text: str, columns: bool = True) -> list[Finding]:
    """Return what is wrong in a page, in the order of its lines. Without `columns`, lines may be longer.

    Example:
        >>> findings("It is done anew.")
        [Finding(line=1, what="'anew': write again")]
    """
    found = []
    for start, lines in _blocks(text):
        for number, line in enumerate(lines, start):
            if columns and len(line) > COLUMNS and " " in line.strip()[:COLUMNS]:
                found.append(Finding(number, f"a line of {len(line)} columns, of at most {COLUMNS}"))
        prose = _plain(lines)
        for pattern, instead in _INSTEAD.items():
            found += [Finding(start, f"{match.group()!r}: write {instead}") for match in pattern.finditer(prose)]
        for sentence in _SENTENCE_END.split(prose):
            words = len(_WORD.findall(sentence))
            if words > WORDS:
                found.append(Finding(start, f"a sentence of {words} words, of at most {WORDS}: {sentence[:60]}…"))
    return sorted(found)


def docstring_findings(source: str) -> list[Finding]:
    """Return what is wrong in the docstrings of a module, which may have lines of more than 100 columns."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                first = node.body[0].lineno
                found += [Finding(first + f.line - 1, f.what) for f in findings(text, columns=False)]
    return sorted(found)


def _public(module: Path) -> bool:
    return not any(name.startswith("_") and name != "__init__.py" for name in module.relative_to(PACKAGES).parts)


def _files() -> Iterable[Path]:
    yield from sorted(path for pattern in PAGES for path in ROOT.glob(pattern))
    yield from sorted(path for path in PACKAGES.rglob("*.py") if _public(path))


def check(*names: str) -> None:
    """Print what is wrong in pages and modules, all by default. Raises BuildError if there is anything."""
    count = 0
    for path in [Path(name) for name in names] or _files():
        find = docstring_findings if path.suffix == ".py" else findings
        for finding in find(path.read_text(encoding="utf-8")):
            print(f"{path}:{finding.line}: {finding.what}")
            count += 1
    if count:
        raise BuildError(f"{count} findings in the prose")
