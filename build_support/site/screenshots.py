"""Pictures of what a browser shows, taken by a headless Chromium as the site is built.

The pages are those of executed notebooks, so the pictures are always of the present state.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .. import BUILD
from ..toolchain import BuildError
from . import notebooks, pages

TAKEN = BUILD / "screenshots"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


class Shot(NamedTuple):
    """A picture: the notebook that it is of, what is shown of it, the address's fragment, and the size in px."""

    notebook: str  # its place in the site
    shown: Callable[[Path], str]
    fragment: str
    size: tuple[int, int]


def _graph(executed: Path) -> str:
    """Return the page of the folded graph that a notebook shows."""
    for cell in json.loads(executed.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            found = re.search(r'srcdoc="([^"]*)"', "".join(output.get("data", {}).get("text/html", "")))
            if found:
                return html.unescape(found[1])
    raise BuildError(f"{executed.name} shows no folded graph")


def _in_jupyter(executed: Path) -> str:
    """Return a notebook as JupyterLab renders it, from the folded graph on."""
    import nbformat
    from nbconvert import HTMLExporter

    notebook = nbformat.reads(executed.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    first = next(i for i, cell in enumerate(notebook.cells) if "srcdoc" in json.dumps(cell.get("outputs", [])))
    notebook.cells = [*notebook.cells[first - 1 : first + 1], *notebook.cells[first + 2 :]]
    text, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook)
    return re.sub(r'<script[^>]*src="https?:[^"]*"[^>]*></script>', "", text)


SHOTS = {
    "tutorials/graphs-search.png": Shot("tutorials/graphs.md", _graph, "layers/1 addmm", (1200, 720)),
    "tutorials/graphs-notebook.png": Shot("tutorials/graphs.md", _in_jupyter, "", (1100, 1500)),
}


def _chromium() -> str:
    for name in (os.environ.get("CHROMIUM", ""), *_CHROMIUM):
        if name and (found := shutil.which(name)):
            return found
    raise BuildError("no Chromium, which takes the pictures of the site: install chromium, or set CHROMIUM to its path")


def take() -> dict[str, bytes]:
    """Return the pictures, PNG, by their places in the site; BuildError if there is no Chromium, or it takes none."""
    sources = pages.sources()
    taken = {}
    for place, shot in SHOTS.items():
        page = TAKEN / Path(place).with_suffix(".html").name
        picture = page.with_suffix(".png")
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(shot.shown(notebooks.executed(sources[shot.notebook])), encoding="utf-8")
        picture.unlink(missing_ok=True)
        command = [_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={TAKEN / 'profile'}", "--virtual-time-budget=5000"]
        command += ["--window-size={},{}".format(*shot.size), f"--screenshot={picture}"]
        done = subprocess.run(
            [*command, f"{page.as_uri()}#{shot.fragment}"], capture_output=True, text=True, check=False, timeout=120
        )
        if not picture.is_file():
            raise BuildError(f"Chromium took no picture of {place}:\n{done.stderr}")
        taken[place] = picture.read_bytes()
    return taken
