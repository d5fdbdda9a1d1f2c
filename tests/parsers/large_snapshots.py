"""Memory snapshots of any size, written as torch's pickler writes them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO

MB = 1 << 20
_FRAMES = 200
_DEPTH = 24
_STEP = 400  # allocations
_ACTIONS = ("alloc", "free_requested", "free_completed")
_BEGAN = 1_795_329_526_013_328  # us
_KEYS = ("action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames")


class _Pickler:
    """Protocol 4, memoising as pickle does."""

    def __init__(self, file: BinaryIO) -> None:
        self.write = file.write
        self.memo: dict[str, bytes] = {}
        self.count = 0

    def memoised(self, code: bytes) -> bytes:
        """A new object; returns how it is fetched later."""
        self.write(code + b"\x94")
        self.count += 1
        return fetched(self.count - 1)

    def text(self, text: str) -> bytes:
        """A text, and how it is fetched from now on."""
        if text in self.memo:
            self.write(self.memo[text])
        else:
            self.memo[text] = self.memoised(b"\x8c" + bytes((len(text),)) + text.encode())
        return self.memo[text]


def fetched(number: int) -> bytes:
    """BINGET or LONG_BINGET."""
    return b"h" + bytes((number,)) if number < 256 else b"j" + struct.pack("<I", number)


def stated(number: int) -> bytes:
    """BININT1, BININT2, BININT or LONG1."""
    if 0 <= number < 256:
        return b"K" + bytes((number,))
    if 0 <= number < 65536:
        return b"M" + struct.pack("<H", number)
    if number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    length = number.bit_length() // 8 + 1
    return b"\x8a" + bytes((length,)) + number.to_bytes(length, "little")


def write_snapshot(path: Path, allocations: int) -> None:
    """A snapshot whose history has so many allocations, each freed within its step of a training loop."""
    with path.open("wb") as file:
        _write(_Pickler(file), allocations)


def _write(out: _Pickler, allocations: int) -> None:
    out.write(b"\x80\x04")
    out.memoised(b"}")
    out.write(b"(")
    out.text("segments")
    out.memoised(b"]")
    out.text("device_traces")
    for each in (b"]", b"(", b"]"):
        out.write(each) if each == b"(" else out.memoised(each)
    out.write(b"(")
    frames = _first_event(out)
    keys = [out.memo[key] for key in _KEYS]
    actions = {action: keys[0] + out.memo[action] for action in _ACTIONS}
    free = keys[5] + b"\x8c\x03N/A\x94" + keys[6] + out.memo[""] + keys[7]
    written, alive = 1, []

    def event(action: str, address: int, size: int, time: int, listed: bytes, memoised: int) -> None:
        out.write(
            b"}\x94(" + actions[action] + keys[1] + stated(address) + keys[2] + stated(size) + keys[3] + b"K\x00"
            + keys[4] + stated(_BEGAN + time) + free + listed + b"u"
        )  # fmt: skip
        out.count += memoised

    for number in range(1, allocations):
        size = 512 * (1 + number * 7919 % 4096)
        address = (7 << 40) + number % 100_000 * (8 << 20)
        first = number * 31 % (_FRAMES - _DEPTH)
        listed = b"]\x94(" + b"".join(frames[first : first + _DEPTH]) + b"e"
        event("alloc", address, size, 10 * number, listed, 3)
        alive.append((address, size))
        if number % _STEP == 0 or number == allocations - 1:
            for address, size in alive:
                event("free_requested", address, size, 10 * number + 1, b"]\x94", 3)
                event("free_completed", address, size, 10 * number + 2, fetched(out.count - 1), 2)
            alive.clear()
        written += 1
        if written % 400 == 0:
            out.write(b"e(")
    out.write(b"eeu.")


def _first_event(out: _Pickler) -> list[bytes]:
    """An event whose stack names every frame once, and whose texts are all that others use; how frames are fetched."""
    frames = []
    out.memoised(b"}")
    out.write(b"(")
    for key, value in zip(_KEYS, ("alloc", 7 << 40, MB, 0, _BEGAN, "N/A", ""), strict=False):
        out.text(key)
        if isinstance(value, int):
            out.write(stated(value))
        else:
            out.text(value)
    out.text("frames")
    out.memoised(b"]")
    out.write(b"(")
    for index in range(_FRAMES):
        frames.append(out.memoised(b"}"))
        out.write(b"(")
        for key, value in (("name", f"function_{index}"), ("filename", f"/home/me/part_{index % 9}.py")):
            out.text(key)
            out.text(value)
        out.text("line")
        out.write(stated(index) + b"u")
    out.write(b"e")
    for action in _ACTIONS[1:]:  # torch makes each of its words once; here the first event names them all
        out.text(f"{action}_word")
        out.text(action)
    out.write(b"u")
    return frames
