"""Takes out of ICU's data what Qt never asks of it: Qt brings words, units and zones of all languages itself.

What sorts names by the rules of a language stays. ``unneeded_icu_data.py LIBRARY`` links it anew with the rest.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

UNUSED = re.compile(rb"/(brkitr|curr|lang|rbnf|region|translit|unit|zone)/|\.cnv$")
_ALIGNMENT = 16


def without_unused(data: bytes) -> bytes:
    """ICU's common data (header, then offsets of names and of contents, then both) without the items of UNUSED."""
    (at,) = struct.unpack_from("<H", data)
    (count,) = struct.unpack_from("<I", data, at)
    entries = list(struct.iter_unpack("<II", data[at + 4 : at + 4 + 8 * count]))
    ends = [*(begin for _, begin in entries[1:]), len(data) - at]
    items = [
        (data[at + name : data.index(0, at + name)], data[at + begin : at + end])
        for (name, begin), end in zip(entries, ends, strict=True)
    ]
    items = [(name, content) for name, content in items if not UNUSED.search(name)]

    offsets, names, contents = [], b"", b""
    names_at = 4 + 8 * len(items)
    contents_at = names_at + sum(len(name) + 1 for name, _ in items)
    contents_at += -contents_at % _ALIGNMENT
    for name, content in items:
        offsets += [names_at + len(names), contents_at + len(contents)]
        names += name + b"\0"
        contents += content + bytes(-len(content) % _ALIGNMENT)
    table = struct.pack(f"<I{len(offsets)}I", len(items), *offsets) + names
    return data[:at] + table.ljust(contents_at, b"\0") + contents


def main(library: Path) -> None:
    """The data are all that is read-only in the library, and begin with its one symbol."""
    soname = library.name
    symbol = f"icudt{soname.rpartition('.')[2]}_dat"
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        subprocess.run(
            ["objcopy", "--dump-section", f".rodata={data}", library, Path(folder, "copy")], check=True
        )
        data.write_bytes(without_unused(data.read_bytes()))
        subprocess.run(["ld", "-r", "-b", "binary", "-o", "object", "data"], check=True, cwd=folder)
        link = [
            "ld",
            "-shared",
            "-z",
            "noexecstack",
            f"--soname={soname}",
            f"--defsym={symbol}=_binary_data_start",
        ]
        subprocess.run([*link, "-o", library.absolute(), Path(folder, "object")], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
