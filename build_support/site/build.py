"""Writes what Sphinx reads into build/pages, runs it, and checks the links of what it has built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .. import BUILD
from ..toolchain import BuildError
from . import links, notebooks, pages, reference, screenshots

STAGED = BUILD / "pages"
SITE = BUILD / "site"


def _toctree(*entries: str, caption: str = "") -> str:
    options = f":caption: {caption}\n" if caption else ""
    return "\n```{toctree}\n:hidden:\n" + options + "\n".join(entries) + "\n```\n"


def _written() -> dict[str, str | bytes]:
    """Return all files that Sphinx reads, by their places."""
    sources = pages.sources()
    places = {path: place for place, path in sources.items()}
    texts: dict[str, str] = dict(reference.pages())
    pictures = screenshots.take()
    places.update({sources[screenshots.SHOTS[p].notebook].parent / Path(p).name: p for p in pictures})
    for path in pages.DOCS.rglob("*.svg"):
        places[path] = path.relative_to(pages.DOCS).as_posix()
        pictures[places[path]] = path.read_bytes()
    for place, path in sources.items():
        if path.suffix == ".ipynb":
            text, shown = notebooks.converted(place, path)
            pictures.update(shown)
            places.update({path.parent / Path(picture).name: picture for picture, _ in shown})
        else:
            text = path.read_text(encoding="utf-8")
        texts[place] = pages.rewritten(text, path, place, places)
    for title, entries in pages.navigation().items():
        heads = []
        for entry in entries:
            head, _, pattern = entry.partition(": ")
            heads.append(head)
            if pattern:
                folder = pattern.removesuffix("*")
                below = sorted(place for place in texts if place.startswith(folder) and place != head)
                texts[head] += _toctree(*(Path(place).name for place in below))
        texts["index.md"] += _toctree(*heads, caption=title)
    return {**texts, **pictures}


def build() -> None:
    """Build the site into build/site, from nothing.

    Raises:
        BuildError: Sphinx warns, or a link is broken.
    """
    files = _written()
    for old in STAGED.rglob("*"):
        if old.is_file() and old.relative_to(STAGED).as_posix() not in files:
            old.unlink()
    for place, content in files.items():
        path = STAGED / place
        data = content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", "-c", str(Path(__file__).parent)]
    if subprocess.run([*command, "-d", str(BUILD / "doctrees"), str(STAGED), str(SITE)], check=False).returncode:
        raise BuildError("Sphinx has warnings")
    broken = links.broken(SITE)
    if broken:
        raise BuildError("broken links:\n" + "\n".join(broken))
    print(f"torch-go-xla: {len(list(SITE.rglob('*.html')))} pages, {SITE}/index.html", flush=True)
