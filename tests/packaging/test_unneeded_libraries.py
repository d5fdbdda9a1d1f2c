"""What the frozen program has no use for: libraries on the lists of others, ICU's words of all languages."""

from __future__ import annotations

import importlib.util
import re
import struct
from pathlib import Path
from types import ModuleType

import pytest

STRINGS = b"\0libneeded.so.1\0libunneeded.so.2\0libc.so.6\0"
NEEDED, STRTAB, NULL, SONAME = 1, 5, 0, 14


def tool(repository: Path, name: str) -> ModuleType:
    """One of the tools, which are no part of any package."""
    spec = importlib.util.spec_from_file_location(name, repository / "packaging" / "linux" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="session")
def module(repository: Path) -> ModuleType:
    return tool(repository, "unneeded_libraries")


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


HEADER = struct.pack("<H", 16).ljust(16, b"\0")


def icu_items(data: bytes) -> dict[bytes, bytes]:
    """Name -> content, as ICU finds them; contents end where the next one begins."""
    table = data[16:]
    (count,) = struct.unpack_from("<I", table)
    entries = [struct.unpack_from("<II", table, 4 + 8 * number) for number in range(count)]
    assert all(begin % 16 == 0 for _, begin in entries)
    ends = [*(begin for _, begin in entries[1:]), len(table)]
    return {
        table[name : table.index(0, name)]: table[begin:end].rstrip(b"\0")
        for (name, begin), end in zip(entries, ends, strict=True)
    }


def test_words_and_units_are_taken_out_and_the_order_of_letters_stays(repository: Path) -> None:
    names = b"icu/coll/de.res\0icu/gb.cnv\0icu/unit/de.res\0icu/zone.res\0"
    begins = [4 + 8 * 4 + names.index(name) for name in (b"icu/coll", b"icu/gb", b"icu/unit", b"icu/zone")]
    table = struct.pack(
        "<I8I", 4, *(value for pair in zip(begins, (96, 112, 128, 144), strict=True) for value in pair)
    )
    contents = b"".join(text.ljust(16, b"\0") for text in (b"order", b"converter", b"units", b"zones"))
    data = HEADER + (table + names).ljust(96, b"\0") + contents
    left = tool(repository, "unneeded_icu_data").without_unused(data)
    assert icu_items(left) == {b"icu/coll/de.res": b"order", b"icu/zone.res": b"zones"}
    assert left.startswith(HEADER)
