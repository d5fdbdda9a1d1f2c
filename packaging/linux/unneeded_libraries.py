"""Takes libraries out of a frozen folder that others name as needed although they use nothing of them.

The Arrow wheels are linked so that every part names every other part. ``unneeded_libraries.py FOLDER NAME...`` strikes
the named libraries off the lists (DT_NEEDED) of all others in FOLDER, then deletes them. ``nm -D`` tells what is used.
"""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

DT_NULL, DT_NEEDED, DT_STRTAB = 0, 1, 5
PT_LOAD, PT_DYNAMIC = 1, 2
_ENTRY = struct.Struct("<qQ")


def without_needed(image: bytearray, unneeded: re.Pattern[bytes]) -> bool:
    """Strike matching libraries off the list of a 64-bit little-endian ELF image; whether there were any."""
    if image[:6] != b"\x7fELF\x02\x01":
        return False
    table, size, count = *struct.unpack_from("<Q", image, 32), *struct.unpack_from("<HH", image, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", image, table + size * number) for number in range(count)]
    dynamic = next((header for header in headers if header[0] == PT_DYNAMIC), None)
    if dynamic is None:
        return False
    offset, length = dynamic[2], dynamic[5]
    entries = [_ENTRY.unpack_from(image, at) for at in range(offset, offset + length, _ENTRY.size)]
    address = next(value for tag, value in entries if tag == DT_STRTAB)
    strings = next(
        header[2] + address - header[3]
        for header in headers
        if header[0] == PT_LOAD and header[3] <= address < header[3] + header[5]
    )

    def name(at: int) -> bytes:
        return bytes(image[strings + at : image.index(0, strings + at)])

    kept = [(tag, value) for tag, value in entries if not (tag == DT_NEEDED and unneeded.search(name(value)))]
    if len(kept) == len(entries):
        return False
    kept += [(DT_NULL, 0)] * (len(entries) - len(kept))
    for number, entry in enumerate(kept):
        _ENTRY.pack_into(image, offset + number * _ENTRY.size, *entry)
    return True


def main(arguments: list[str]) -> None:
    """Strike off, then delete."""
    folder, names = Path(arguments[0]), arguments[1:]
    unneeded = re.compile("|".join(f"^{re.escape(name)}\\.so" for name in names).encode())
    for path in sorted(folder.rglob("*.so*")):
        if unneeded.search(path.name.encode()):
            path.unlink()
        elif not path.is_symlink():
            image = bytearray(path.read_bytes())
            if without_needed(image, unneeded):
                path.write_bytes(image)


if __name__ == "__main__":
    main(sys.argv[1:])
