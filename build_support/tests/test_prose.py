"""Each rule of the prose linter has a text that fails and one that passes."""

from pathlib import Path

import pytest

from build_support import prose
from build_support.toolchain import BuildError

SHORT = " ".join(["Word"] + ["word"] * 24)  # As long as a sentence may be.
LONG = f"{SHORT} word"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("It is read anew.", "It is read again, a new one."),
        ("It lets go of the buffer.", "It releases the buffer. Let it go."),
        ("This mends it.", "This fixes it. A recommended amendment."),
        ("It takes 2 s by the clock.", "It takes 2 s of wall time."),
        ("What shall be reached.", "The target."),
        ("Nobody owns it.", "No one owns it."),
        ("It is no tensor.", "It is no longer a tensor. There is no tensor. It is not a tensor."),
        ("The CPU alone has it.", "Only the CPU has it. Leave alone the GPU, let alone the TPU."),
        ("Whoever reads it.", "A program that reads it."),
    ],
)
def test_words(wrong, right):
    assert len(prose.findings(wrong)) == 1
    assert prose.findings(right) == []


def test_every_word_rule_has_a_case():
    cases = test_words.pytestmark[0].args[1]
    found = {pattern for pattern in prose._INSTEAD for wrong, _ in cases if pattern.search(wrong)}
    assert found == set(prose._INSTEAD)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (f"{LONG}.", f"{SHORT}."),
        (f"{SHORT}\nword.", f"{SHORT}\n\nword."),
        (f"* {LONG}", f"* {SHORT}\n* {SHORT}"),
        (f"{SHORT}, more.", f"{SHORT}; more. {SHORT}. `code` is more."),
        (f"`a`, {SHORT}", f"`a span of code` {SHORT[5:]}"),
        (f"``a``, {SHORT}", f"``a `span` of code`` {SHORT[5:]}"),
        (f"[a link](page.md), {SHORT}", f"[link](page.md), {SHORT[5:]}"),
    ],
)
def test_sentences(wrong, right):
    assert sum("sentence" in finding.what for finding in prose.findings(wrong)) == 1
    assert not any("sentence" in finding.what for finding in prose.findings(right))


def test_columns():
    assert [finding.line for finding in prose.findings("a\n" + "b" * 50 + " " + "c" * 50)] == [2]
    assert prose.findings("a\n" + "b" * 50 + " " + "c" * 49) == []
    assert prose.findings("c" * 101) == []  # Such a line cannot be broken.


@pytest.mark.parametrize("shape", ["```\n{}\n```", "| {} |", "# {}", "> {}", "<!-- {} -->", "text\n\n    {}"])
def test_what_is_not_prose_is_left_out(shape):
    assert prose.findings(shape.format(f"nobody alone anew {LONG} {LONG}")) == []


def test_docstrings():
    source = f'"""A module.\\n\\nAnd more."""\n\n\ndef f():\n    """Do.\n\n    {SHORT} {"x" * 100}.\n    """\n'
    assert [f.line for f in prose.python_findings(source)] == [7]
    assert prose.python_findings(source.replace("Word ", "")) == []


def test_comments_and_messages_of_python():
    source = (Path(__file__).parent / "programs" / "stumbles.py").read_text(encoding="utf-8")
    assert [f.line for f in prose.python_findings(source)] == [3, 4, 8]
    assert prose.python_findings("x = 1  # a\ny = 2  # b\n" * 20) == [], "comments of two lines are not one"


def test_comments_and_messages_of_go():
    source = "package x\n\n// Done\n// anew.\n//go:noinline anew\n\n/* Done anew. */\n"
    source += 'var err = errs.New(errs.Value, "%d is read anew", n)\n'
    assert [f.line for f in prose.go_findings(source)] == [3, 7, 8]


def test_sentences_of_go():
    assert prose.go_findings(f"// {SHORT}\n") == []
    assert len(prose.go_findings(f"// {LONG}\n")) == len(prose.go_findings(f"/* {LONG} */\n")) == 1


def test_comments_of_the_plugin_may_have_longer_sentences(tmp_path):
    source = tmp_path / "xlacpu" / "a.cc"
    source.parent.mkdir()
    source.write_text(f"// {LONG}\n")
    prose.check(str(source))
    source = source.rename(tmp_path / "a.cc")
    with pytest.raises(BuildError, match="1 findings"):
        prose.check(str(source))


def test_rows_of_a_table_are_left_out():
    assert prose.findings("Words:\n\n==== ====\nname  what it is\nother name  what that is\n" * 8) == []


def test_check_names_file_and_line(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("# Title\n\nIt is read anew.\n")
    with pytest.raises(BuildError, match="1 findings"):
        prose.check(str(page))
    assert capsys.readouterr().out == f"{page}:3: 'anew': write again\n"
    page.write_text("# Title\n\nIt is read again.\n")
    prose.check(str(page))
