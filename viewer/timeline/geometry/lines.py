"""A picture whose pixel lines repeat: each line that differs is worked out once, and put where it is shown."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import I64, U32


class Lines:
    """The lines of one picture (0xffRRGGBB). What is 0 in one of them shows the ground, which is the first."""

    def __init__(self) -> None:
        self._kept: U32 = np.empty((0, 0), np.uint32)
        self._shown: I64 = np.empty(0, np.int64)  # which line each of the picture's shows
        self._used = 0

    def begin(self, height: int, width: int, most: int) -> U32:
        """The ground of another picture, to be filled; ``most`` lines follow."""
        if self._kept.shape[1] != width or len(self._kept) <= most:
            self._kept = np.empty((most + 1, width), np.uint32)
        self._shown = np.zeros(height, np.int64)
        self._used = 1
        ground: U32 = self._kept[0]
        return ground

    def add(self, *places: slice) -> U32:
        """A line that is shown at these places, to be filled."""
        for place in places:
            self._shown[place] = self._used
        line: U32 = self._kept[self._used]
        self._used += 1
        return line

    def put(self, pixels: U32) -> None:
        """Write the whole picture."""
        lines = self._kept[: self._used]
        np.where(lines, lines, lines[0]).take(self._shown, axis=0, out=pixels, mode="clip")
