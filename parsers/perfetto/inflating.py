"""Packets that are packed, each with many packets inside it."""

from __future__ import annotations

import zlib

from parsers.files.unpacking_limit import BYTES_AT_ONCE, UnpackingLimit
from parsers.model import Progress
from parsers.protobuf.columns import buffer_of, decode, parts_of

_PACKET, _COMPRESSED = 1, 50


def inflated(content: bytes, limit: UnpackingLimit, progress: Progress) -> tuple[bytes, int]:
    """The trace with what its compressed packets hold in their place, and how many of them are damaged."""
    outer = parts_of(memoryview(content), 0, progress)
    data = buffer_of(content)
    packed = decode(outer.of(_PACKET, data), progress, (_COMPRESSED,))
    owners, spans = packed.spans(_COMPRESSED)
    if not len(spans):
        return content, 0
    packets = outer.of(_PACKET, data)
    inside = {owner: index for index, owner in enumerate(owners.tolist())}
    parts: list[bytes] = []
    damaged = 0
    for number in range(len(packets)):
        progress.step(number / len(packets), "unpacking packets")
        if number in inside:
            packer, data_left = zlib.decompressobj(), spans.raw(inside[number])
            try:
                while part := packer.decompress(data_left, BYTES_AT_ONCE):
                    limit.add(len(part))
                    progress.step(number / len(packets), "unpacking packets")
                    parts.append(part)
                    data_left = packer.unconsumed_tail
                damaged += not packer.eof
            except zlib.error:
                damaged += 1
        else:
            begin, end = int(packets.begin[number]), int(packets.end[number])
            parts.append(b"\x0a" + _varint(end - begin) + content[begin:end])
    return b"".join(parts), damaged


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))
