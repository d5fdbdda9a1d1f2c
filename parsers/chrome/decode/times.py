"""Turns decimal microseconds, as text, into int64 nanoseconds without going through a double."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
from msgspec import Raw

from parsers.model.arrays import BOOL, I64, distinct_values

INVALID = np.iinfo(np.int64).min  # what stands for a time that is missing or no number
FARTHEST_NS = 1 << 62
_PLAIN = b'0123456789.\n"-'
_DOT, _NEWLINE = (np.uint8((ord(each) - 48) % 256) for each in ".\n")
_POWERS = np.array([1, 10, 100, 1000], np.int64)
# of microseconds: with one more they still fit into an int64 as ns
_WHOLE_DIGITS = len(str(np.iinfo(np.int64).max // 1000)) - 2
_DIGITS_OF_NS = len(str(FARTHEST_NS))
_TENS = (
    10.0 ** np.arange(_WHOLE_DIGITS)[::-1]
)  # doubles, which hold so many digits and are added up in less time


def nanoseconds(texts: Sequence[Raw]) -> I64:
    """The times of ``texts``, JSON numbers or strings in us, rounded to ns; ``INVALID`` where there is none."""
    if not texts:
        return np.empty(0, np.int64)
    joined = b"\n".join(texts)
    if (alike := _of_one_form(joined, len(texts))) is not None:
        return alike
    if joined.translate(None, _PLAIN):
        return _one_by_one(texts)
    bare = joined.translate(None, b'"')
    characters = np.frombuffer(bare, np.uint8)
    ends = np.append(np.flatnonzero(characters == 10), len(bare))
    if len(ends) != len(texts):
        return _one_by_one(texts)
    lengths = np.diff(ends, prepend=-1) - 1
    dots = np.flatnonzero(characters == 46)
    places = np.zeros(len(ends), np.int64)
    if len(dots) == len(ends) and np.all(dots < ends) and np.all(dots[1:] > ends[:-1]):
        places = ends - dots - 1
    elif len(dots):
        token = np.searchsorted(ends, dots)
        if len(distinct_values(token)) != len(dots):
            return _one_by_one(texts)
        places[token] = ends[token] - dots - 1
    if lengths.min() < 1 or np.any(lengths - places > _WHOLE_DIGITS + 1) or places.max() > 3 or b"-" in bare:
        return _one_by_one(texts)
    value = np.fromstring(bare.translate(None, b"."), np.int64, sep="\n")
    if len(value) != len(texts):
        return _one_by_one(texts)
    return value * _POWERS[3 - places]


def whole_nanoseconds(texts: Sequence[Raw]) -> I64 | None:
    """The times of ``texts`` where all are whole and too far away to be us: some converters write ns since 1970."""
    whole = [bytes(text).strip(b'" ') for text in texts]
    if not whole or not all(text.isdigit() and len(text) <= _DIGITS_OF_NS for text in whole):
        return None
    value = [int(text) for text in whole]
    return (
        np.array(value, np.int64) if min(value) > FARTHEST_NS // 1000 and max(value) <= FARTHEST_NS else None
    )


def _of_one_form(lines: bytes, count: int) -> I64 | None:
    """The times of lines of equally many digits before and after one dot; None where any is otherwise."""
    width = (len(lines) + 1) // count
    dot = lines.find(b".", 0, width)
    places = width - 2 - dot
    if dot < 1 or dot > _WHOLE_DIGITS or not 0 < places <= 3 or width * count != len(lines) + 1:
        return None
    digits = np.frombuffer(lines + b"\n", np.uint8).reshape(count, width) - np.uint8(48)
    if np.any(digits[:, dot] != _DOT) or np.any(digits[:, -1] != _NEWLINE):
        return None
    if np.count_nonzero(digits > 9) != 2 * count:
        return None
    numbers = digits.astype(np.float64)
    before, after = numbers[:, :dot] @ _TENS[-dot:], numbers[:, dot + 1 : -1] @ _TENS[-places:]
    value: I64 = before.astype(np.int64) * 1000 + after.astype(np.int64) * _POWERS[3 - places]
    return value


def durations(values: list[Any]) -> tuple[I64, BOOL]:
    """Durations in us (numbers, strings or None) as ns, and which of them are usable numbers."""
    try:
        us = np.fromiter(values, np.float64, len(values))
    except (ValueError, TypeError, OverflowError):
        us = np.array([_number(value) for value in values], np.float64)
    with np.errstate(invalid="ignore"):
        good = np.abs(us) < FARTHEST_NS / 1000
    return np.rint(np.where(good, us, 0) * 1000).astype(np.int64), good


def _number(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return float("nan")


def _one_by_one(texts: Sequence[Raw]) -> I64:
    return np.fromiter((_exactly(bytes(text)) for text in texts), np.int64, len(texts))


def _exactly(text: bytes) -> int:
    try:
        us = Decimal(text.strip(b'"').strip().decode("ascii"))
        if not us.is_finite() or abs(us) > FARTHEST_NS // 1000:
            return INVALID
        return int((us * 1000).to_integral_value())
    except (InvalidOperation, UnicodeDecodeError, ValueError):
        return INVALID
