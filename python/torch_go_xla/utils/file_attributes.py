"""What a new file inherits from the one that it replaces: owner, group, mode and extended attributes."""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass

__all__ = ["Attributes"]

# Extended attributes that describe who may use a file (system: its ACL) or belong to the user. Not copied are those
# of the kernel, which may hold a digest of the old contents.
_COPIED = ("user.", "system.", "security.selinux")


@dataclass(frozen=True)
class Attributes:
    """Owner, group, mode and extended attributes of a file or folder.

    Example:
        >>> import os, stat, tempfile
        >>> from torch_go_xla.utils.file_attributes import Attributes
        >>> with tempfile.TemporaryFile() as old, tempfile.TemporaryFile() as new:
        ...     os.fchmod(old.fileno(), 0o640)
        ...     Attributes.of(old.fileno()).give(new.fileno())
        ...     oct(stat.S_IMODE(os.fstat(new.fileno()).st_mode))
        '0o640'
    """

    owner: int
    group: int
    mode: int
    extended: dict[str, bytes]

    @classmethod
    def of(cls, fd: int) -> Attributes:
        """Return those of an open file or folder.

        Args:
            fd: the file's descriptor.
        """
        status = os.fstat(fd)
        return cls(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode), _extended(fd))

    def give(self, fd: int) -> None:
        """Give them to an open file or folder.

        The mode comes last, so that a file that was made private is never open to more users than the old one.

        Args:
            fd: the file's descriptor.

        Raises:
            PermissionError: this user cannot make the file another user's or another group's.
        """
        status = os.fstat(fd)
        if (status.st_uid, status.st_gid) != (self.owner, self.group):
            os.fchown(fd, self.owner, self.group)
        self._finish(fd, self.mode)

    def give_rights(self, fd: int) -> None:
        """Do what `give` does as far as this user may. Who cannot get the old group's rights gets those of others.

        Args:
            fd: the file's descriptor.

        Example:
            >>> import tempfile
            >>> from torch_go_xla.utils.file_attributes import Attributes
            >>> with tempfile.TemporaryFile() as old, tempfile.TemporaryFile() as new:
            ...     Attributes.of(old.fileno()).give_rights(new.fileno())
        """
        try:
            self.give(fd)
        except PermissionError:
            mode = self.mode
            try:
                os.fchown(fd, -1, self.group)
            except PermissionError:
                mode = mode & ~0o070 | (mode & 0o007) << 3
            self._finish(fd, mode)

    def _finish(self, fd: int, mode: int) -> None:
        present = _extended(fd)
        for name in present.keys() - self.extended.keys():  # a folder's default ACL, for one
            with _leniently(name):
                os.removexattr(fd, name)
        for name, value in self.extended.items():
            if present.get(name) != value:
                with _leniently(name):
                    os.setxattr(fd, name, value)
        if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
            os.fchmod(fd, mode)


def _leniently(name: str) -> contextlib.AbstractContextManager[None]:
    """Allow that an attribute of a security module cannot be changed."""
    return contextlib.suppress(OSError) if name.startswith("security.") else contextlib.nullcontext()


def _extended(fd: int) -> dict[str, bytes]:
    """Return the extended attributes that are copied; none where the file system has none."""
    found = {}
    with contextlib.suppress(OSError):
        for name in os.listxattr(fd):
            if name.startswith(_COPIED):
                with contextlib.suppress(OSError):  # it is gone, or not to be read by this user
                    found[name] = os.getxattr(fd, name)
    return found
