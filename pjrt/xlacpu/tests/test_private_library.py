"""Private copies of libraries, on small ones."""

import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from private_library import private_copy  # noqa: E402

NAMES = {"libouter.so.1": "libmine_o.so", "libinner.so.1": "libmine_i.so"}


def compile(folder, name, source, *flags):
    """Compile a library of one file."""
    (folder / "source.c").write_text(source)
    command = ["gcc", "-g", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, folder / "source.c", *flags]
    subprocess.run(command, check=True)
    return folder / name


@pytest.fixture
def original(tmp_path):
    """A folder with two libraries, one of which needs the other."""
    folder = tmp_path / "original"
    folder.mkdir()
    inner = compile(folder, "libinner.so.1", "int state = 1; int inner(void) { return state; }")
    source = "extern int inner(void), state; int outer(void) { return 10 * inner() + state++; }"
    compile(folder, "libouter.so.1", source, inner, "-Wl,-rpath,/elsewhere:$ORIGIN/")
    return folder


def test_copies_have_names_and_state_of_their_own(original, tmp_path):
    for old, new in NAMES.items():
        private_copy(original / old, tmp_path / new, NAMES)
    paths = [original / "libouter.so.1", tmp_path / "libmine_o.so"]
    done = subprocess.run(
        [sys.executable, HERE / "programs" / "copies.py", *paths], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[11, 11, 22, 22, 33]", "True"]
    (copy, shown) = (
        subprocess.run(["readelf", *options, tmp_path / "libmine_o.so"], capture_output=True, text=True, check=True)
        for options in (["-dW"], ["-SW"])
    )
    assert "[libmine_o.so]" in copy.stdout and "[libmine_i.so]" in copy.stdout and "[$ORIGIN/]" in copy.stdout
    assert ".symtab" not in shown.stdout and ".debug" not in shown.stdout and ".dynsym" in shown.stdout


def test_a_copy_can_be_linked_against(original, tmp_path):
    private_copy(original / "libinner.so.1", tmp_path / "libmine_i.so", NAMES)
    user = compile(
        tmp_path, "libuser.so", "int inner(void); int use(void) { return inner(); }", tmp_path / "libmine_i.so"
    )
    needed = subprocess.run(["readelf", "-dW", user], capture_output=True, text=True, check=True).stdout
    assert "[libmine_i.so]" in needed


def test_refuses_what_it_cannot_copy(original, tmp_path):
    target = tmp_path / "copy.so"
    text = tmp_path / "text"
    text.write_text("no library" * 10)
    longer = {"libinner.so.1": "lib_longer_than_before.so"}
    elsewhere = compile(tmp_path, "libe.so", "int e;", "-Wl,-rpath,/elsewhere")
    tail = compile(tmp_path, "libt.so", "int t;", "-Wl,--defsym=t_libt.so=t")
    for source, names, words in (
        (text, {}, "not a 64-bit"),
        (original / "libinner.so.1", longer, "longer"),
        (elsewhere, {"libe.so": "libf.so"}, "run path"),
        (tail, {"libt.so": "libu.so"}, "symbol's name"),
    ):
        with pytest.raises(ValueError, match=words):
            private_copy(source, target, names)
    assert not target.exists()
