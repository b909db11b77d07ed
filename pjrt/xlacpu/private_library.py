"""Makes a private copy of a shared library: under names of its own, without what only debuggers read.

    python private_library.py SOURCE TARGET OLD=NEW...

The dynamic linker loads one library for each SONAME. So a copy under a SONAME of its own does not meet the original,
whatever release of it is in the process. Each OLD=NEW replaces a library's name wherever SOURCE states one. That is its
own name, that of a library it needs, and those in the tables of symbol versions. A NEW must not be longer than its OLD.
A run path becomes $ORIGIN, the folder of the library.

Symbol tables for debuggers and linkers (.symtab, .strtab) are left out. Everything that is loaded stays where it is.
The result depends on SOURCE and the names only, not on the tools of a machine: library.cc compares its size and a
fingerprint. Tools that move string tables (patchelf) would make the copy 80 MB larger.

Only 64-bit little-endian ELF is understood.
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path

_ELF64_LITTLE_ENDIAN = b"\x7fELF\x02\x01"
_SHT_STRTAB, _SHT_DYNAMIC, _SHT_DYNSYM, _SHT_NOBITS = 3, 6, 11, 8
_SHF_ALLOC = 2
_DT_NEEDED, _DT_SONAME, _DT_RPATH, _DT_RUNPATH = 1, 14, 15, 29
_RUN_PATH = b"$ORIGIN/"

# Of the ELF header: where the section headers are, their size and number, and which one has their names.
_SECTIONS_AT = struct.Struct("<Q")  # at 40
_SECTIONS = struct.Struct("<HHH")  # at 58
_SECTION = struct.Struct("<IIQQQQIIQQ")
_DYNAMIC = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class _Library:
    """The bytes of a library and its section headers: (name, type, flags, address, offset, size, link, …)."""

    def __init__(self, data: bytearray) -> None:
        if data[:6] != _ELF64_LITTLE_ENDIAN:
            raise ValueError("not a 64-bit little-endian ELF file")
        self.data = data
        (at,) = _SECTIONS_AT.unpack_from(data, 40)
        size, count, self.names = _SECTIONS.unpack_from(data, 58)
        self.sections = [_SECTION.unpack_from(data, at + size * i) for i in range(count)]

    def only(self, kind: int) -> tuple[int, ...]:
        """Return the one section of a type."""
        found = [s for s in self.sections if s[1] == kind]
        if len(found) != 1:
            raise ValueError(f"{len(found)} sections of type {kind}, want one")
        return found[0]

    def _entries(self, dynamic: tuple[int, ...]) -> list[tuple[int, int]]:
        """Return tag and value of each entry of the dynamic section."""
        return list(_DYNAMIC.iter_unpack(self.data[dynamic[4] : dynamic[4] + dynamic[5]]))

    def rename(self, names: dict[bytes, bytes]) -> None:
        """Replace names in the string table of the dynamic section, each in its place."""
        symbols, dynamic = self.only(_SHT_DYNSYM), self.only(_SHT_DYNAMIC)
        begin = self.sections[dynamic[6]][4]
        table = bytes(self.data[symbols[4] : symbols[4] + symbols[5]])
        for tag, value in self._entries(dynamic):
            at = begin + value
            old = bytes(self.data[at : self.data.index(b"\0", at)]) if tag in (_DT_NEEDED, _DT_SONAME) else b""
            if old not in names:
                continue
            new = names[old]
            if len(new) > len(old):
                raise ValueError(f"{new!r} is longer than {old!r}")
            # A linker may store a string as the tail of another; a symbol's name must not change.
            if self.data[at - 1] or any(at <= begin + s[0] < at + len(old) for s in _SYMBOL.iter_unpack(table)):
                raise ValueError(f"a symbol's name and {old!r} share bytes")
            self.data[at : at + len(old)] = new.ljust(len(old), b"\0")
        self._shorten_run_path(dynamic, begin)

    def _shorten_run_path(self, dynamic: tuple[int, ...], strings: int) -> None:
        """Let the run path begin at its last entry, which must be the folder of the library."""
        for i, (tag, value) in enumerate(self._entries(dynamic)):
            if tag not in (_DT_RPATH, _DT_RUNPATH):
                continue
            path = bytes(self.data[strings + value : self.data.index(b"\0", strings + value)])
            if not path.endswith(_RUN_PATH):
                raise ValueError(f"the run path {path!r} does not end with {_RUN_PATH!r}")
            at = dynamic[4] + i * _DYNAMIC.size
            _DYNAMIC.pack_into(self.data, at, tag, value + len(path) - len(_RUN_PATH))

    def drop_unloaded(self) -> None:
        """Remove the sections that are not loaded, but for the names of sections."""
        kept = [i for i, s in enumerate(self.sections) if i == 0 or s[2] & _SHF_ALLOC]
        if kept != list(range(len(kept))):
            raise ValueError("a section that is not loaded lies before one that is")
        names = self.sections[self.names]
        loaded = [self.sections[i] for i in kept]
        end = max(s[4] + s[5] for s in loaded if s[1] != _SHT_NOBITS)
        text = bytes(self.data[names[4] : names[4] + names[5]])
        del self.data[end:]
        self.data += text.ljust(-(-(end + len(text)) // 8) * 8 - end, b"\0")
        _SECTIONS_AT.pack_into(self.data, 40, len(self.data))
        _SECTIONS.pack_into(self.data, 58, _SECTION.size, len(kept) + 1, len(kept))
        for section in [*loaded, (names[0], _SHT_STRTAB, 0, 0, end, len(text), 0, 0, 1, 0)]:
            self.data += _SECTION.pack(*section)


def private_copy(source: Path, target: Path, names: dict[str, str]) -> None:
    """Write the private copy of a library, in one step. ValueError if it has not the form that is expected."""
    library = _Library(bytearray(source.read_bytes()))
    library.rename({old.encode(): new.encode() for old, new in names.items()})
    library.drop_unloaded()
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(library.data)
    part.chmod(0o755)
    os.replace(part, target)


def main(arguments: list[str]) -> None:
    """Run the command."""
    if len(arguments) < 3 or not all("=" in text for text in arguments[2:]):
        sys.exit("usage: private_library.py SOURCE TARGET OLD=NEW...")
    source, target = Path(arguments[0]), Path(arguments[1])
    try:
        private_copy(source, target, dict(text.split("=", 1) for text in arguments[2:]))
    except ValueError as error:
        sys.exit(f"{source}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
