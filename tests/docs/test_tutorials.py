"""Each tutorial runs from top to bottom; the pages show what its cells put out."""

from __future__ import annotations

from pathlib import Path

import pytest

from build_support.site import notebooks


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks.sources(), ids=lambda path: path.stem)
def test_it_runs(path: Path) -> None:
    cells = notebooks.run(path)["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert outputs and not [o for o in outputs if o["output_type"] == "error" or o.get("name") == "stderr"]
