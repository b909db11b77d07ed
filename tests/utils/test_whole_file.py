"""The file that a save writes: whole or not at all, on the disk, with nothing beside it."""

from __future__ import annotations

import _thread
import errno
import os
import stat
import struct
import subprocess
import sys
import threading
import time
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


def test_another_thread_gives_up_direct_writes_first(tmp_path: Path, monkeypatch) -> None:
    pwrite, refused = os.pwrite, []

    def through_the_cache(fd: int, data: memoryview, offset: int) -> int:
        if not refused:
            refused.append(fd)
            whole_file._set_direct(fd, False)  # what another thread does between the write and its error
            raise OSError(errno.EINVAL, "no direct writes here")
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", through_the_cache)
    xm.save({"x": torch.arange(1 << 21, device="xla")}, tmp_path / "a.pt")
    assert torch.equal(torch.load(tmp_path / "a.pt")["x"], torch.arange(1 << 21)) and refused


def test_a_full_disk_is_an_oserror_and_leaves_the_old_file(ok, tmp_path: Path) -> None:
    ok("whole_file/full_disk.py", tmp_path / "a.pt")


def test_what_a_killed_save_left_is_removed_and_nothing_else(ok, tmp_path: Path) -> None:
    """A file of a process that lives is not touched, nor one that only looks like it."""
    ok("whole_file/killed.py", tmp_path / "a.pt")
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


# ---- what the new file has of the old ----


def test_a_private_file_is_private_while_it_is_written(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.pt"
    xm.save([1], path)
    path.chmod(0o600)
    modes: list[int] = []
    pwrite = os.pwrite

    def watched(fd: int, data: memoryview, offset: int) -> int:
        modes.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return pwrite(fd, data, offset)

    monkeypatch.setattr(os, "pwrite", watched)
    xm.save({"x": torch.arange(1 << 20, device="xla")}, path)
    assert modes and set(modes) == {0o600} and stat.S_IMODE(path.stat().st_mode) == 0o600


def _acl(*entries: tuple[int, int, int]) -> bytes:
    """An ACL as the kernel keeps it: entries of tag, rights, user."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_owner_and_extended_attributes_are_kept(tmp_path: Path) -> None:
    path, unknown = tmp_path / "a.pt", 0xFFFFFFFF
    xm.save([1], path)
    os.chown(path, 1234, 2345)
    try:
        os.setxattr(path, "user.origin", b"run 7")
        acl = _acl((1, 6, unknown), (2, 4, 3456), (4, 4, unknown), (16, 4, unknown), (32, 0, unknown))
        os.setxattr(path, "system.posix_acl_access", acl)
    except OSError as e:
        pytest.skip(f"the file system has no ACLs: {e}")
    mode = path.stat().st_mode
    xm.save([2], path)
    after = path.stat()
    assert torch.load(path) == [2] and (after.st_uid, after.st_gid, after.st_mode) == (1234, 2345, mode)
    assert os.getxattr(path, "user.origin") == b"run 7" and os.getxattr(path, "system.posix_acl_access") == acl
    # A folder's default ACL is for new files, not for those that have none.
    os.removexattr(path, "system.posix_acl_access")
    os.setxattr(
        tmp_path,
        "system.posix_acl_default",
        _acl((1, 7, unknown), (2, 7, 3456), (4, 7, unknown), (16, 7, unknown), (32, 7, unknown)),
    )
    xm.save([3], path)
    assert "system.posix_acl_access" not in os.listxattr(path) and path.stat().st_mode == mode


def test_another_name_of_the_file_keeps_the_old_data(tmp_path: Path) -> None:
    path, best = tmp_path / "a.pt", tmp_path / "best.pt"
    xm.save([1], path)
    best.hardlink_to(path)
    xm.save([2], path)
    assert torch.load(path) == [2] and torch.load(best) == [1]


def test_a_file_in_a_folder_that_is_not_writable(plain_user, tmp_path: Path) -> None:
    """It is written in place; what fails before the first bytes go to the disk leaves the old data."""
    xm.save([1], tmp_path / "a.pt")
    before = (tmp_path / "a.pt").stat()
    tmp_path.chmod(0o500)
    try:
        plain_user("whole_file/folder_not_writable.py", tmp_path)
        after = (tmp_path / "a.pt").stat()
        assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
        assert os.listdir(tmp_path) == ["a.pt"]
    finally:
        tmp_path.chmod(0o700)


def test_a_write_protected_file_is_not_replaced(plain_user, tmp_path: Path) -> None:
    plain_user("whole_file/write_protected.py", tmp_path)


def test_a_folder_that_cannot_be_read(plain_user, tmp_path: Path) -> None:
    """Its names are flushed all the same."""
    (tmp_path / "drop").mkdir(mode=0o300)
    plain_user("whole_file/folder_not_readable.py", tmp_path / "drop")
    (tmp_path / "drop").chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_file_of_another_user_stays_theirs(plain_user, tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    xm.save([1], path)
    os.chown(path, 1234, -1)
    path.chmod(0o666)
    before = path.stat()
    plain_user("whole_file/file_of_another.py", tmp_path)
    after = path.stat()
    assert (after.st_uid, after.st_ino) == (1234, before.st_ino) and torch.load(path) == [2]
    assert os.listdir(tmp_path) == ["a.pt"]


@pytest.mark.parametrize("size", [5, 3 << 20, 0])
def test_a_file_that_is_a_mount_point(size: int, tmp_path: Path, monkeypatch) -> None:
    """Such a file cannot be replaced: the rename gives EBUSY. It is overwritten, and nothing else is left."""
    path, new = tmp_path / "a.pt", os.urandom(size)
    path.write_bytes(b"old" * (1 << 20))
    inode, replace = path.stat().st_ino, os.replace

    def mounted(source, target):
        assert Path(source).read_bytes() == new and path.read_bytes().startswith(b"old")
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), source, None, target)

    monkeypatch.setattr(os, "replace", mounted)
    with whole_file.replacing(path) as sink:
        sink.write(memoryview(new))
    assert path.read_bytes() == new and path.stat().st_ino == inode
    assert os.listdir(tmp_path) == ["a.pt"]

    path.unlink()  # only a file can be a mount point
    monkeypatch.setattr(os, "replace", lambda source, target: replace(source, target + "/" + "x"))
    with pytest.raises(OSError), whole_file.replacing(path) as sink:
        sink.write(memoryview(new))
    assert os.listdir(tmp_path) == []


def test_a_save_to_a_mount_point(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    xm.save({"x": torch.ones(3, device="xla")}, path)
    script = f"""
import os, torch, torch_go_xla
import torch_go_xla.core.xla_model as xm
xm.save({{"x": torch.full((3,), 2.0, device="xla")}}, {str(path)!r})
"""
    mount = f"mount --bind {path} {path} && exec {sys.executable} -c '{script.replace(chr(39), chr(34))}'"
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("needs a mount namespace of its own")
    done = subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert torch.load(path)["x"].tolist() == [2, 2, 2]
    assert os.listdir(tmp_path) == ["a.pt"]


def test_no_thread_to_be_had(tmp_path: Path, monkeypatch) -> None:
    """As at the exit of later versions of Python: the caller writes."""

    def refuse(*args: object) -> int:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    xm.save({"x": torch.arange(4 << 20, device="xla")}, tmp_path / "a.pt")
    assert torch.equal(torch.load(tmp_path / "a.pt")["x"], torch.arange(4 << 20))


def test_an_interrupted_save_writes_to_no_other_file(tmp_path: Path, monkeypatch) -> None:
    """Threads that still write when a second interrupt ends the wait for them have the file to themselves."""
    go, pwrite, late = threading.Event(), os.pwrite, []

    def slowly(fd: int, data: memoryview, offset: int) -> int:
        go.wait(60)
        late.append(os.readlink(f"/proc/self/fd/{fd}"))
        return pwrite(fd, data, offset)

    def interrupted(self: whole_file._Stream) -> None:
        for _ in range(2):
            self._work.put(None)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "pwrite", slowly)
    monkeypatch.setattr(whole_file._Stream, "close", interrupted)
    with pytest.raises(KeyboardInterrupt), whole_file.replacing(tmp_path / "a.pt") as file:
        file.write(bytes(whole_file._CHUNK))
        raise KeyboardInterrupt
    with open(tmp_path / "other", "wb") as other:  # where the closed file's number would be
        other.write(b"precious")
        other.flush()
        go.set()
        while not late:
            time.sleep(0.01)
    assert (tmp_path / "other").read_bytes() == b"precious" and "a.pt" in late[0]
