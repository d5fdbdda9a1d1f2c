"""Striking a library off the list of what another one needs."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path
from types import ModuleType

import pytest

STRINGS = b"\0libneeded.so.1\0libunneeded.so.2\0libc.so.6\0"
NEEDED, STRTAB, NULL, SONAME = 1, 5, 0, 14


@pytest.fixture(scope="module")
def module(repository: Path) -> ModuleType:
    """The tool, which is no part of any package."""
    path = repository / "packaging" / "linux" / "unneeded_libraries.py"
    spec = importlib.util.spec_from_file_location("unneeded_libraries", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def library(*needed: bytes) -> bytearray:
    """A small ELF image: header, one loaded part that begins at address 0x1000, one list of what it needs."""
    entries = [(NEEDED, STRINGS.index(name)) for name in needed]
    strings_at = 64 + 2 * 56
    entries += [(SONAME, 0), (STRTAB, 0x1000 + strings_at), (NULL, 0)]
    dynamic_at = strings_at + len(STRINGS)
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in entries)
    size = dynamic_at + len(dynamic)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0
    )
    loaded = struct.pack("<IIQQQQQQ", 1, 4, 0, 0x1000, 0x1000, size, size, 4096)
    listed = struct.pack(
        "<IIQQQQQQ", 2, 4, dynamic_at, 0x1000 + dynamic_at, 0x1000 + dynamic_at, len(dynamic), len(dynamic), 8
    )
    return bytearray(header + loaded + listed + STRINGS + dynamic)


def needed_of(image: bytearray) -> list[bytes]:
    at = 64 + 2 * 56 + len(STRINGS)
    names = []
    while True:
        tag, value = struct.unpack_from("<qQ", image, at)
        if tag == NULL:
            return names
        if tag == NEEDED:
            names.append(STRINGS[value : STRINGS.index(0, value)])
        at += 16


def test_only_the_named_library_is_struck_off(module: ModuleType) -> None:
    image = library(b"libneeded.so.1", b"libunneeded.so.2", b"libc.so.6")
    length = len(image)
    assert module.without_needed(image, re.compile(rb"^libunneeded\.so"))
    assert needed_of(image) == [b"libneeded.so.1", b"libc.so.6"]
    assert len(image) == length


def test_what_needs_none_of_them_stays_as_it_is(module: ModuleType) -> None:
    image = library(b"libc.so.6")
    before = bytes(image)
    assert not module.without_needed(image, re.compile(rb"^libunneeded\.so"))
    assert bytes(image) == before


def test_what_is_no_library_stays_as_it_is(module: ModuleType) -> None:
    image = bytearray(b"INPUT(libarrow.so)")
    assert not module.without_needed(image, re.compile(rb"^libunneeded\.so"))


def test_the_libraries_are_deleted_and_the_others_rewritten(module: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "libunneeded.so.2").write_bytes(library())
    (tmp_path / "libuser.so").write_bytes(library(b"libunneeded.so.2", b"libc.so.6"))
    module.main([str(tmp_path), "libunneeded"])
    assert [path.name for path in tmp_path.iterdir()] == ["libuser.so"]
    assert needed_of(bytearray((tmp_path / "libuser.so").read_bytes())) == [b"libc.so.6"]
