"""The chart of README.md shows its table."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from build_support import ROOT, chart

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_that_of_the_table():
    assert chart.PICTURE.read_text(encoding="utf-8") == chart.drawn(README), "run `python -m build_support chart`"


def test_every_time_has_a_bar_of_its_length():
    subjects, cases = chart.rows(README)
    times = [ms for case in cases.values() for ms in case if ms is not None]
    root = ET.fromstring(chart.drawn(README))
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text.endswith(" ms")] == [f"{ms:g} ms" for ms in times]
    assert set(subjects) <= set(texts) and set(cases) <= set(texts)
    bars = [
        float(rect.get("width")) for rect in root.iter("{http://www.w3.org/2000/svg}rect") if rect.get("height") == "13"
    ]
    base = subjects.index("torch eager")
    ratios = [ms / case[base] for case in cases.values() for ms in case if ms is not None]
    assert max(abs(bar / max(bars) - ratio / max(ratios)) for bar, ratio in zip(bars, ratios, strict=True)) < 0.01
