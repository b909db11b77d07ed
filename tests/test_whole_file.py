"""The file that a save writes: whole or not at all, on the disk, with nothing beside it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest
import torch

import torch_go_xla.core.xla_model as xm
from torch_go_xla.utils import whole_file


def test_an_error_leaves_the_old_file_and_nothing_else(unsavable, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    xm.save([1], path)
    for data, error in unsavable:
        with pytest.raises(error):
            xm.save(data, path)
        assert torch.load(path) == [1] and os.listdir(tmp_path) == ["a.pt"]


def test_permissions_links_and_special_files(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    mask = os.umask(0o027)
    try:
        xm.save([1], path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        xm.save([2], path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(mask)
    (tmp_path / "link").symlink_to(path)
    xm.save([3], tmp_path / "link")
    assert torch.load(path) == [3] and (tmp_path / "link").is_symlink()
    xm.save([torch.ones(1, device="xla")], "/dev/null")
    with pytest.raises(OSError, match="nowhere"):
        xm.save([1], tmp_path / "nowhere" / "a.pt")


def test_the_file_and_the_folder_are_flushed_around_the_rename(tmp_path: Path, monkeypatch) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.readlink(f"/proc/self/fd/{fd}")), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("rename"), replace(a, b))[1])
    xm.save([1], tmp_path / "a.pt")
    file, rename, folder = done
    assert file.startswith(str(tmp_path / ".a.pt.")) and rename == "rename" and folder == str(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 4096, whole_file._CHUNK - 1, 7 * whole_file._CHUNK + 4097])
def test_what_is_written_is_in_the_file(size: int, tmp_path: Path) -> None:
    """In pieces of all sizes, with and without a page cache on the way."""
    text = bytes(torch.randint(0, 256, (size,), dtype=torch.uint8).numpy())
    counted: list[int] = []
    with whole_file.replacing(tmp_path / "a", counted.append) as file:
        at = 0
        for piece in (1, 100, 4096, 3 << 20, size):
            at += file.write(memoryview(text[at : at + piece]))
    assert (tmp_path / "a").read_bytes() == text and sum(counted) == size


def test_a_file_system_that_wants_the_page_cache(tmp_path: Path, monkeypatch) -> None:
    pwrite, refused = os.pwrite, []

    def through_the_cache(fd: int, data: memoryview, offset: int) -> int:
        if whole_file._set_direct(fd, False):
            whole_file._set_direct(fd, True)
            refused.append(fd)
            raise OSError(errno.EINVAL, "no direct writes here")
        return pwrite(fd, data[: len(data) // 2 + 1], offset)  # and it writes less than it was given

    monkeypatch.setattr(os, "pwrite", through_the_cache)
    xm.save({"x": torch.arange(1 << 21, device="xla")}, tmp_path / "a.pt")
    assert torch.equal(torch.load(tmp_path / "a.pt")["x"], torch.arange(1 << 21)) and refused


def test_a_full_disk_is_an_oserror_and_leaves_the_old_file(ok, tmp_path: Path) -> None:
    ok(f"""
import os, resource, signal, torch, torch_go_xla
import torch_go_xla.core.xla_model as xm
path = {str(tmp_path / "a.pt")!r}
x = torch.arange(4 << 20, device="xla")
xm.save([1], path)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (9 << 20, 9 << 20))
try:
    xm.save([x], path)
except OSError as e:
    assert "File too large" in str(e), e
else:
    raise AssertionError("saved")
assert torch.load(path) == [1] and os.listdir(os.path.dirname(path)) == ["a.pt"]
assert (x[:3] + 1).tolist() == [1, 2, 3]
""")


def test_what_a_killed_save_left_is_removed_and_nothing_else(ok, tmp_path: Path) -> None:
    """A file of a process that lives is not touched, nor one that only looks like it."""
    ok(f"""
import os, signal, torch, torch_go_xla
from torch_go_xla.utils import whole_file
if os.fork() == 0:
    with whole_file.replacing({str(tmp_path / "a.pt")!r}) as file:
        file.write(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
os.wait()
""")
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".part"
    others = [tmp_path / n for n in (".a.pt.mine.part", ".a.pt.x.y.part", ".b.pt.0.part", "a.pt.0.part")]
    for other in others[1:]:
        other.touch()
    with whole_file.replacing(tmp_path / "a.pt") as alive, open(others[0], "w") as mine:
        assert whole_file.lock(mine.fileno())
        alive.write(b"first")
        assert not left.exists()
        xm.save([1], tmp_path / "a.pt")
        assert len(list(tmp_path.glob(".a.pt.*.part"))) == 3 and torch.load(tmp_path / "a.pt") == [1]
    assert (tmp_path / "a.pt").read_bytes() == b"first" and all(o.exists() for o in others)
    xm.save([2], tmp_path / "a.pt")
    assert {p.name for p in tmp_path.iterdir()} == {"a.pt", *(o.name for o in others[1:])}
