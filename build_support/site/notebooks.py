"""Notebooks: executed by the project's own Python, turned into pages by the site's."""

from __future__ import annotations

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from .. import BUILD, ROOT
from ..stamps import digest, fresh
from . import pages

EXECUTED = BUILD / "notebooks"
SECONDS = 300  # that a cell may take
# A page does not say how long the machine that built it took.
_ENVIRONMENT = {**os.environ, "TORCH_GO_XLA_PROGRESS": "0"}

_ESCAPE = re.compile(r"\x1b\[[\d;]*m")
# The forms of an output, the best for a page first.
_PICTURES = {"image/svg+xml": "svg", "image/png": "png"}


def sources() -> list[Path]:
    """Return the notebooks of the site, which are kept without outputs."""
    return [path for path in pages.sources().values() if path.suffix == ".ipynb"]


def executed(path: Path) -> Path:
    """Return where the executed form of a notebook is."""
    return EXECUTED / path.relative_to(ROOT)


def run(path: Path) -> Any:
    """Execute a notebook from top to bottom, by this Python; return it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell has raised.
    """
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from nbclient import NotebookClient

    class ThisPython(AsyncKernelManager):
        """Starts kernels with this Python, whatever is installed as python3."""

        @property
        def kernel_spec(self) -> Any:
            argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=argv, display_name="Python", language="python")

    notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=SECONDS, kernel_manager_class=ThisPython).execute(env=_ENVIRONMENT)
    return notebook


def execute() -> None:
    """Execute the notebooks that changed, or all if the package did, into build/notebooks."""
    package = [p for p in (ROOT / "python").rglob("*") if p.suffix in (".py", ".so")]
    for path in sources():
        place = executed(path)
        stamp = place.with_suffix(".stamp")
        state = digest([path, *package])
        if fresh(stamp, state, [place]):
            continue
        print(f"torch-go-xla: executing {path.relative_to(ROOT)}", flush=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(run(path)), encoding="utf-8")
        stamp.write_text(state)


def _fenced(language: str, text: str) -> str:
    fence = "`" * max(3, 1 + max((len(found) for found in re.findall(r"`+", text)), default=0))
    return f"{fence}{{code-block}} {language}\n{text.rstrip()}\n{fence}\n"


class _Page:
    """A notebook's page, as it is written."""

    def __init__(self, place: str) -> None:
        self.place = Path(place)
        self.parts: list[str] = []
        self.pictures: list[tuple[str, bytes]] = []

    def _picture(self, kind: str, data: str) -> None:
        name = f"{self.place.stem}-{len(self.pictures) + 1}.{kind}"
        self.pictures.append(
            (str(self.place.parent / name), data.encode() if kind == "svg" else base64.b64decode(data))
        )
        self.parts.append(f"![what the cell shows]({name})\n")

    def output(self, output: dict[str, Any]) -> None:
        """Add what a cell has put out; the messages of errors are texts."""
        data = output.get("data", {"text/plain": output.get("text", "")})
        for form, kind in _PICTURES.items():
            if form in data:
                self._picture(kind, "".join(data[form]))
                return
        if "text/html" in data:
            self.parts.append(f"````{{raw}} html\n<div class='output'>{''.join(data['text/html'])}</div>\n````\n")
        elif data.get("text/plain"):
            self.parts.append(
                "```{rst-class} output\n```\n" + _fenced("none", _ESCAPE.sub("", "".join(data["text/plain"])))
            )

    def cell(self, cell: dict[str, Any]) -> None:
        """Add a cell with its outputs."""
        source = "".join(cell["source"])
        self.parts.append(source + "\n" if cell["cell_type"] == "markdown" else _fenced("python", source))
        for output in cell.get("outputs", []):
            self.output(output)


def converted(place: str, path: Path) -> tuple[str, list[tuple[str, bytes]]]:
    """Return the page of a notebook, as Markdown, and its pictures with their places.

    Args:
        place: where the site has the page.
        path: the notebook in the sources.
    """
    page = _Page(place)
    for cell in json.loads(executed(path).read_text(encoding="utf-8"))["cells"]:
        page.cell(cell)
    return "\n".join(page.parts), page.pictures
