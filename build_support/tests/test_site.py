"""The site: its navigation names every page, links are rewritten and checked, notebooks become pages."""

import json

import pytest

from build_support import ROOT
from build_support.site import links, notebooks, pages


def test_the_navigation_names_every_page():
    entries = [entry for section in pages.navigation().values() for entry in section]
    heads = [entry.partition(": ")[0] for entry in entries]
    folders = tuple(pattern.removesuffix("*") for _, _, pattern in (e.partition(": ") for e in entries) if pattern)
    found = set(pages.sources())
    missing = {place for place in found - {"index.md", *heads} if not place.startswith(folders)}
    assert not missing, f"docs/navigation.toml lacks {sorted(missing)}"
    generated = {"reference/index.md"}
    assert set(heads) <= found | generated and len(heads) == len(set(heads))


def test_pages_elsewhere_are_there():
    assert not [name for name in pages.ELSEWHERE.values() if not (ROOT / name).is_file()]


PLACES = {ROOT / name: place for name, place in [("README.md", "index.md"), ("docs/saving.md", "saving.md")]}
PLACES[ROOT / "docs/adr/index.md"] = "adr/index.md"


@pytest.mark.parametrize(
    ("source", "place", "text", "want"),
    [
        ("README.md", "index.md", "[x](docs/saving.md#how)", "[x](saving.md#how)"),
        ("docs/adr/0001.md", "adr/0001.md", "[x](../../README.md)", "[x](../index.md)"),
        ("README.md", "index.md", "[the\ndecisions](docs/adr)", "[the\ndecisions](adr/index.md)"),
        ("README.md", "index.md", "[`go.mod`](go.mod) [x](Makefile)", "`go.mod` `Makefile`"),
        ("README.md", "index.md", "[x](https://a.b/c) [y](#z)", "[x](https://a.b/c) [y](#z)"),
        ("README.md", "index.md", "`[x](no)` ``[y](no)``", "`[x](no)` ``[y](no)``"),
        ("README.md", "index.md", "```\n[x](no)\n```\n[x](Makefile)", "```\n[x](no)\n```\n`Makefile`"),
    ],
)
def test_links_are_rewritten(source, place, text, want):
    assert pages.rewritten(text, ROOT / source, place, PLACES) == want


def test_a_link_to_nothing_is_an_error():
    with pytest.raises(pages.BrokenLink, match=r"docs/saving.md: no \.\./nothing.md"):
        pages.rewritten("[x](../nothing.md)", ROOT / "docs/saving.md", "saving.md", PLACES)


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        "<a href='b.html#there'>x</a> <a href='#here'>y</a><p id='here'> <a href='https://c.d'>"
    )
    (tmp_path / "b.html").write_text(
        "<p id='there'><a href='c.html'>x</a> <a href='a.html#no'>y</a> <img src='a.html'>"
    )
    assert links.broken(tmp_path) == ["b.html: c.html", "b.html: a.html#no"]


def test_a_notebook_becomes_a_page(tmp_path, monkeypatch):
    def code(source, *outputs):
        return {"cell_type": "code", "source": source, "outputs": list(outputs)}

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        code("1 + 1", {"data": {"text/plain": "\x1b[1m2\x1b[0m"}}, {"text": "a ``` b"}),
        code("picture()", {"data": {"text/plain": "Picture", "image/svg+xml": ["<svg>", "</svg>"]}}),
        code("table()", {"data": {"text/html": "<table></table>", "text/plain": "Table"}}),
    ]
    monkeypatch.setattr(notebooks, "EXECUTED", tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/x.ipynb").write_text(json.dumps({"cells": cells}))
    text, pictures = notebooks.converted("tutorials/x.md", ROOT / "docs/x.ipynb")
    assert text.startswith("# Title\ntext\n")
    assert "```{code-block} python\n1 + 1\n```" in text and "```{code-block} none\n2\n```" in text
    assert "````{code-block} none\na ``` b\n````" in text
    assert "![what the cell shows](x-1.svg)" in text and "Picture" not in text
    assert "<table></table>" in text and "Table\n" not in text
    assert pictures == [("tutorials/x-1.svg", b"<svg></svg>")]


def test_notebooks_are_kept_without_outputs():
    for path in notebooks.sources():
        code = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
        assert code and not [c for c in code if c["outputs"] or c["execution_count"] is not None], path
