"""Streams of unpacked bytes that hand out everything before a damaged or missing part."""

from __future__ import annotations

import gzip
import io
from abc import abstractmethod
from pathlib import Path
from typing import IO, Any

import zstandard
from isal import isal_zlib

from parsers.files.signatures import GZIP, ZSTD

_PACKED_BYTES_AT_ONCE = 64 << 10
_MAX_BYTES_AT_ONCE = 8 << 20
_GZIP_WINDOW = 31
_DAMAGE: Any = isal_zlib.error
_ZSTD_BYTES_AT_ONCE = 1 << 10  # unpacks to 32 MB at most
_ZSTD_WINDOW = 1 << 31
_ZSTD_FRAMES = (ZSTD, *(bytes((first, 0x2A, 0x4D, 0x18)) for first in range(0x50, 0x60)))


class PackedStream(io.BufferedIOBase):
    """The content of a packed file of one or more members; bytes after the last member are ignored.

    Where the data ends early or is damaged, everything before it is read first; the next read raises ``EOFError``
    or what the library calls damage.
    """

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("rb", buffering=0)
        self._failure: Exception | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        """Up to ``size`` bytes (all for a negative one); empty at the end."""
        parts: list[bytes] = []
        missing = 1 << 62 if size is None or size < 0 else size
        while missing > 0 and (part := self._some(min(missing, _MAX_BYTES_AT_ONCE))):
            parts.append(part)
            missing -= len(part)
        if not parts and size != 0 and self._failure is not None:
            raise self._failure
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, size: int = -1, /) -> bytes:
        """What is there without waiting for more, up to ``size`` bytes."""
        part = self._some(min(size, _MAX_BYTES_AT_ONCE) if size >= 0 else _MAX_BYTES_AT_ONCE)
        if not part and size != 0 and self._failure is not None:
            raise self._failure
        return part

    def close(self) -> None:
        self._file.close()
        super().close()

    @abstractmethod
    def _some(self, most: int) -> bytes:
        """Some bytes, at most ``most``; empty at the end and after a failure, which is kept."""


class GzipStream(PackedStream):
    """A gzip file; damage is a ``gzip.BadGzipFile``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
        self._packed = b""

    def _some(self, most: int) -> bytes:
        while self._failure is None:
            if self._member.eof:
                self._packed = self._member.unused_data.lstrip(b"\0") or self._file.read(
                    _PACKED_BYTES_AT_ONCE
                )
                if len(self._packed) < 2:
                    self._packed += self._file.read(_PACKED_BYTES_AT_ONCE)
                if not self._packed.startswith(GZIP):
                    return b""
                self._member = isal_zlib.decompressobj(wbits=_GZIP_WINDOW)
            packed = self._member.unconsumed_tail or self._packed or self._file.read(_PACKED_BYTES_AT_ONCE)
            self._packed = b""
            if not packed:
                try:
                    rest = self._member.flush()
                except _DAMAGE:
                    rest = b""
                self._failure = EOFError("the gzip data ends early")
                return bytes(rest)
            try:
                if part := self._member.decompress(packed, most):
                    return bytes(part)
            except _DAMAGE as error:
                self._failure = gzip.BadGzipFile(f"the gzip data is damaged: {error}")
        return b""


class ZstdStream(PackedStream):
    """A zstd file; damage is a ``zstandard.ZstdError``. What was packed as one block of 128 KB goes with its end."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
        self._frame = self._unpacker.decompressobj()
        self._packed = memoryview(b"")  # read from the file, and not yet given to a frame
        self._unpacked = memoryview(b"")

    def _some(self, most: int) -> bytes:
        while not self._unpacked and self._failure is None:
            try:
                if not self._next():
                    return b""
            except zstandard.ZstdError as error:
                self._failure = error
        part, self._unpacked = bytes(self._unpacked[:most]), self._unpacked[most:]
        return part

    def _next(self) -> bool:
        """Unpack some more; whether there is more."""
        if self._frame.eof:
            if len(self._packed) < len(ZSTD):
                self._packed = memoryview(bytes(self._packed) + self._file.read(_PACKED_BYTES_AT_ONCE))
            if not self._packed[: len(ZSTD)].tobytes().startswith(_ZSTD_FRAMES):
                return False
            self._frame = self._unpacker.decompressobj()
        self._packed = self._packed or memoryview(self._file.read(_PACKED_BYTES_AT_ONCE))
        if not self._packed:
            self._failure = EOFError("the zstd data ends early")
            return False
        given = self._packed[:_ZSTD_BYTES_AT_ONCE]
        self._unpacked = memoryview(self._frame.decompress(given))
        taken = len(given) - len(self._frame.unused_data) if self._frame.eof else len(given)
        self._packed = self._packed[taken:]
        return True
