"""The notebook runs from top to bottom, and is kept without outputs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import nbformat
import processes
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "quickstart.ipynb"


class ThisPython(AsyncKernelManager):
    """Starts kernels with the Python that runs the tests, whatever is installed as python3."""

    @property
    def kernel_spec(self) -> KernelSpec:
        """The specification of the kernel."""
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(argv=argv, display_name="Python", language="python")


def run(notebook: nbformat.NotebookNode) -> list[dict]:
    """Run a notebook; return what its cells put out."""
    NotebookClient(notebook, timeout=300, kernel_manager_class=ThisPython).execute()
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.fixture(scope="module")
def outputs() -> list[dict]:
    return run(nbformat.read(NOTEBOOK, as_version=4))


@pytest.mark.longer
def test_it_runs_and_shows_what_it_says(outputs: list[dict]) -> None:
    text = "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in outputs)
    assert "%1 = " in text and "stablehlo." in text, "no graph"
    assert "UncachedCompile" in text, "no metrics"
    assert "(32, 2)" in text, "nothing saved"
    pictures = [o["data"]["image/svg+xml"] for o in outputs if "image/svg+xml" in o.get("data", {})]
    assert len(pictures) == 2
    assert all(picture.startswith("<svg") for picture in pictures)
    assert not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]


@pytest.mark.longer
def test_shardings_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM_DEVICES", "4")
    cell = nbformat.v4.new_code_cell((processes.PROGRAMS / "quickstart/shardings.py").read_text())
    shown = run(nbformat.v4.new_notebook(cells=[cell]))
    assert not [o for o in shown if o["output_type"] == "error" or o.get("name") == "stderr"]
    text = "".join(o.get("text", "") + o.get("data", {}).get("text/plain", "") for o in shown)
    text = re.sub(r"\x1b\[[\d;]*m", "", text)  # rich colors the numbers
    for device in range(4):
        assert text.count(f"CPU {device}") == 2, text
    assert "weight" in text and "32" in text and "devices=[2,2]" in text, text


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [c for c in cells if c["cell_type"] == "code"]
    assert len(code) >= 8
    assert not [c for c in code if c["outputs"] or c["execution_count"] is not None]
