"""How much a packed file may unpack to before it is refused."""

from __future__ import annotations

from parsers.base import Source
from parsers.model import TraceError

LARGEST_UNPACKED = 16 * 1024**3
ALWAYS_ALLOWED = 64 * 1024**2
HIGHEST_RATIO = 200


class UnpackingLimit:
    """Counts unpacked bytes; ``add`` raises ``TraceError`` when there are more than any recording would have."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._packed = max(source.path.stat().st_size, 1)
        self._largest = LARGEST_UNPACKED
        if source.compression:
            self._largest = min(LARGEST_UNPACKED, max(ALWAYS_ALLOWED, HIGHEST_RATIO * self._packed))
        self.unpacked = 0

    def add(self, count: int) -> None:
        self.unpacked += count
        if self.unpacked > self._largest:
            raise TraceError(
                self._source.path,
                f"It unpacks to more than {self._largest // 1024**2:,} MB, which no recording of its size does.",
                "Unpack it yourself if you trust it, and open the unpacked file.",
            )

    @property
    def share(self) -> float:
        """About how much of the file was read, 0 to 1."""
        usual = 10 if self._source.compression else 1
        return min(self.unpacked / (self._packed * usual), 1.0)
