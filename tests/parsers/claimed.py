"""Values that claim to be longer than they are, in place of some that take gigabytes."""

from __future__ import annotations

from typing import Any


class ClaimedBytes(bytes):
    """Bytes of any length."""

    _length: int

    def __new__(cls, content: bytes, length: int) -> ClaimedBytes:
        made = super().__new__(cls, content)
        made._length = length
        return made

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice) and at.stop is None:
            return ClaimedBytes(bytes.__getitem__(self, at), max(self._length - (at.start or 0), 0))
        return bytes.__getitem__(self, at)

    def __add__(self, after: Any) -> ClaimedBytes:
        return ClaimedBytes(bytes.__add__(self, after), self._length + len(after))

    def __radd__(self, before: bytes) -> ClaimedBytes:
        return ClaimedBytes(bytes.__add__(before, self), len(before) + self._length)


class ClaimedList(list[Any]):
    """A list of any length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def __len__(self) -> int:
        return self._length


class ClaimedDict(dict[Any, Any]):
    """A dict of any length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self._length = length

    def __len__(self) -> int:
        return self._length
