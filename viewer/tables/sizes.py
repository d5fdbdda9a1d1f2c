"""How the sizes of a table are written: all in one unit, so that the longer figure is the larger one."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import BYTES, three_digits

_SMALLEST = 0.0005  # of the unit: less than that would read as nothing
_MAX_DIGITS = 13  # behind the point: a byte in the largest unit
_FEW = 0.0995  # of the unit: less than that has a fixed number of decimals


class Sizes:
    """Bytes, or with ``ending`` "/s" bytes a second; different sizes never read the same.

    The unit is the largest that half of those which are not zero reach.
    """

    def __init__(self, values: Iterable[float], ending: str = "") -> None:
        known = sorted({abs(each) for each in values if each == each and each})
        usual = known[len(known) // 2] if known else 0.0
        self._unit, self._factor = max(
            ((unit, factor) for unit, factor in BYTES.items() if factor * 0.9995 <= max(usual, 1.0)),
            key=lambda each: each[1],
        )
        self._ending = ending
        read: dict[str, list[float]] = {}
        for value in known if not ending else ():
            read.setdefault(self._rounded(value), []).append(value)
        self._apart: dict[float, str] = {}
        for same in read.values():
            if len(same) > 1:
                self._apart |= zip(same, self._told_apart(same), strict=True)

    def written(self, value: float) -> str:
        """ "1,240 MB", "0.427 MB", "<0.001 MB"; with more digits where another one would read like it."""
        told = self._apart.get(abs(value)) or self._rounded(value)
        return f"{'-' if value < 0 and told[0] != '-' else ''}{told} {self._unit}{self._ending}"

    def _told_apart(self, same: list[float]) -> list[str]:
        """What reads the same otherwise, with as few more digits as tell all of it apart."""
        for decimals in range(1, _MAX_DIGITS):
            told = [f"{each / self._factor:,.{decimals}f}" for each in same]
            if len(set(told)) == len(told):
                break
        return told

    def _rounded(self, value: float) -> str:
        part = value / self._factor
        if self._factor == 1.0 and value == int(value):
            return f"{int(value):,}"
        if 0 < abs(part) < _SMALLEST:
            return "<0.001"
        return f"{part:.3f}" if 0 < abs(part) < _FEW else three_digits(part)
