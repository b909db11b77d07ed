"""Checks the English of pages, docstrings, comments and errors: ``python -m build_support prose [FILE...]``.

A sentence has at most 25 words, in comments of the CPU plugin at most 40. A line of a page has at most 100 columns;
ruff has the columns of modules. `INSTEAD` lists words that readers stumble over. Messages of errors are checked for
these only: where torch has a message, it is torch's. Code, tables, headings, quotations and HTML are not prose. A
semicolon ends a sentence; a span of code is one word. If a program writes a page, fix the text in the program.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .toolchain import BuildError

__all__ = ["Finding", "check", "findings", "go_findings", "python_findings"]

ROOT = Path(__file__).parents[1]
PAGES = ("*.md", "docs/**/*.md", "pjrt/xlacpu/*.md")
SOURCES = (
    *("python/**/*.py", "build_support/**/*.py", "benchmarks/**/*.py", "pjrt/xlacpu/**/*.py"),
    *(f"{folder}/**/*.{kind}" for folder in ("bindings", "gocore", "pjrt") for kind in ("go", "c", "cc", "h")),
)
# Tests, what others have written, and what is generated from comments that are checked.
UNCHECKED = re.compile(
    r"(?:^|/)(?:tests?|programs|testdata|third_party|_go|csrc)/|_test\.go$|/_control\.py$|vocabulary\.h$"
)
WORDS = 25
WORDS_IN_PLUGIN = 40  # a change to a comment there compiles XLA's part of it again
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
# Rows of a table, as docstrings have them: a name, and behind two blanks what it is.
_ROW = re.compile(r"\S+(?: \S+)?  +\S|[=#]{3}")
_MESSAGE = re.compile(r'\b(?:errs\.(?:New|Wrap)|fmt\.Errorf)\([^"\n]*("(?:[^"\\]|\\.)*")')
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
        elif fenced or stripped.startswith(("|", "#", "<", ">")) or (line.startswith(("    ", "\t")) and not block):
            stripped = ""
        elif _ROW.match(stripped):
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


def findings(text: str, columns: bool = True, longest: int = WORDS) -> list[Finding]:
    """Return what is wrong in a page, in the order of its lines. Without `columns`, lines may be longer.

    Args:
        text: the page.
        columns: whether a line may have only so many.
        longest: how many words a sentence may have.

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
            if words > longest:
                found.append(Finding(start, f"a sentence of {words} words, of at most {longest}: {sentence[:60]}…"))
    return sorted(found)


def _at(first: int, text: str, longest: int = WORDS) -> list[Finding]:
    """Return what is wrong in a text that begins at a line of a source."""
    return [Finding(first + f.line - 1, f.what) for f in findings(text, columns=False, longest=longest)]


def _words(line: int, text: str) -> list[Finding]:
    """Return the words of a message that readers stumble over."""
    matches = ((match, instead) for pattern, instead in _INSTEAD.items() for match in pattern.finditer(text))
    return [Finding(line, f"{match.group()!r}: write {instead}") for match, instead in matches]


def _comments(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the comments among numbered lines, those of lines that follow each other as one, with the first number."""
    block: list[str] = []
    start = last = 0
    for number, text in lines:
        if block and number != last + 1:
            yield start, "\n".join(block)
            block = []
        start = start if block else number
        block.append(text)
        last = number
    if block:
        yield start, "\n".join(block)


def python_findings(source: str) -> list[Finding]:
    """Return what is wrong in the docstrings, comments and messages of errors of a module."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                found += _at(node.body[0].lineno, text)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = [c.value for c in ast.walk(node.exc) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
            found += _words(node.lineno, "".join(texts))
    lines = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = token.string.lstrip("#").strip()
        if token.type != tokenize.COMMENT or text.startswith(("noqa", "type:", "fmt:")):
            continue
        if token.line.strip().startswith("#"):
            lines.append((token.start[0], text))
        else:
            found += _at(token.start[0], text)
    for start, text in _comments(lines):
        found += _at(start, text)
    return sorted(found)


def go_findings(source: str, longest: int = WORDS) -> list[Finding]:
    """Return what is wrong in the comments and messages of errors of a Go, C or C++ file.

    Args:
        source: the file's text.
        longest: how many words a sentence may have.
    """
    found = []
    numbered = ((n, line.strip()) for n, line in enumerate(source.splitlines(), 1))
    lines = ((n, line[2:].removeprefix(" ")) for n, line in numbered if line.startswith("//"))
    for start, text in _comments((n, text) for n, text in lines if not text.startswith(("go:", "control:", "export"))):
        found += _at(start, text, longest)
    for block in re.finditer(r"/\*(.*?)\*/", source, re.DOTALL):
        text = re.sub(r"^\s*\* ?", "", block[1], flags=re.MULTILINE)
        found += _at(source.count("\n", 0, block.start()) + 1, text, longest)
    for message in _MESSAGE.finditer(source):
        found += _words(source.count("\n", 0, message.start()) + 1, message[1])
    return sorted(found)


def _files() -> Iterable[Path]:
    yield from sorted(path for pattern in PAGES for path in ROOT.glob(pattern))
    sources = {path for pattern in SOURCES for path in ROOT.glob(pattern)}
    yield from sorted(path for path in sources if not UNCHECKED.search(path.relative_to(ROOT).as_posix()))


def _finder(path: Path) -> Callable[[str], list[Finding]]:
    """Return what checks a file."""
    if path.suffix == ".py":
        return python_findings
    if path.suffix == ".md":
        return findings
    return functools.partial(go_findings, longest=WORDS_IN_PLUGIN if "xlacpu" in path.parts else WORDS)


def check(*names: str) -> None:
    """Print what is wrong in pages and modules, all by default. Raises BuildError if there is anything."""
    count = 0
    for path in [Path(name) for name in names] or _files():
        for finding in _finder(path)(path.read_text(encoding="utf-8")):
            print(f"{path}:{finding.line}: {finding.what}")
            count += 1
    if count:
        raise BuildError(f"{count} findings in the prose")
