"""Which files of the repository are pages of the site, and where; links between them."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from .. import ROOT
from ..toolchain import BuildError

DOCS = ROOT / "docs"

# Pages that do not lie in docs/, by where the site has them.
ELSEWHERE = {
    "index.md": "README.md",
    "architecture.md": "ARCHITECTURE.md",
    "hacking.md": "HACKING.md",
    "changelog.md": "CHANGELOG.md",
    "security.md": "SECURITY.md",
    "contributing.md": "CONTRIBUTING.md",
    "pjrt-xla-cpu.md": "pjrt/xlacpu/README.md",
    "tutorials/quickstart.md": "examples/quickstart.ipynb",
}

_FENCE = re.compile(r"^\s*(```|~~~)")
_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


class BrokenLink(BuildError):
    """A page links to a file that is not there."""


def sources() -> dict[str, Path]:
    """Return the files that pages are made of, notebooks among them, by the pages' places in the site."""
    found = {place: ROOT / name for place, name in ELSEWHERE.items()}
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")]):
        found[path.relative_to(DOCS).with_suffix(".md").as_posix()] = path
    return found


def navigation() -> dict[str, list[str]]:
    """Return the pages of each section, in order, as docs/navigation.toml states them; those of folders as well."""
    stated = tomllib.loads((DOCS / "navigation.toml").read_text(encoding="utf-8"))
    return {title: list(entries) for title, entries in stated["sections"].items()}


def _prose(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a page, each with whether it is prose, not code."""
    fenced = False
    for line in text.splitlines(keepends=True):
        fence = bool(_FENCE.match(line))
        fenced ^= fence
        yield line, not fenced and not fence


def rewritten(text: str, source: Path, place: str, places: dict[Path, str]) -> str:
    """Return a page's text with its links as the site needs them.

    Args:
        text: the Markdown of the page.
        source: the file that it is from; its links are relative to it.
        place: where the site has it, such as ``adr/0001.md``.
        places: where the site has files, by their paths.

    Returns:
        The text. Links to pages lead to their places. Of a link to a file that the site does not have, the text stays.

    Raises:
        BrokenLink: there is no such file.
    """

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        name, hash_, anchor = target.partition("#")
        if not name or "://" in name or name.startswith("mailto:"):
            return match.group()
        path = Path(os.path.normpath(source.parent / name))
        if path in places:
            way = os.path.relpath(places[path], Path(place).parent)
            return f"{image}[{label}]({way}{hash_}{anchor})"
        if not path.exists():
            raise BrokenLink(f"{source.relative_to(ROOT)}: no {target}")
        if path / "index.md" in places:
            way = os.path.relpath(places[path / "index.md"], Path(place).parent)
            return f"{image}[{label}]({way})"
        return label if label.startswith("`") else f"`{path.relative_to(ROOT)}`"

    def line(text: str) -> str:
        spans = [match.span() for match in _SPAN.finditer(text)]

        def outside(match: re.Match[str]) -> str:
            inside = any(start < match.start() and match.end() <= end for start, end in spans)
            return match.group() if inside else link(match)

        return _LINK.sub(outside, text)

    # A link's label may be broken over two lines.
    out: list[str] = []
    prose: list[str] = []
    for text_line, is_prose in _prose(text):
        if is_prose:
            prose.append(text_line)
            continue
        out += [line("".join(prose)), text_line]
        prose = []
    return "".join([*out, line("".join(prose))])
