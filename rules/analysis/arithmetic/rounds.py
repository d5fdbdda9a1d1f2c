"""The same numbers in a row again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from parsers.model import I64


class Rounds(NamedTuple):
    """From place ``first`` on, the next ``body`` numbers, again and again for ``length`` numbers in all."""

    first: int
    body: int
    length: int

    @property
    def times(self) -> int:
        return self.length // self.body


def rounds_in(token: I64, apart: I64, least: int, longest_body: int) -> Iterator[Rounds]:
    """Where at least ``least`` rounds of the same tokens follow one another, the longest stretch first.

    A round lies within one value of ``apart``. It may contain rounds of its own; both are told.
    """
    candidates: list[tuple[int, int, int]] = []  # negative length, body, first
    for body in range(1, min(longest_body, len(token) - 1) + 1):
        same = (token[body:] == token[:-body]) & (apart[body:] == apart[:-body])
        edges = np.flatnonzero(np.diff(np.concatenate(([False], same, [False])).astype(np.int8)))
        starts, ends = edges[::2], edges[1::2]
        long = ends - starts >= body * (least - 1)
        candidates += [
            (start - end - body, body, start)
            for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True)
        ]
    around = np.full(len(token), len(token))  # numbers in a round of the innermost rounds found so far
    for length, body, first in sorted(candidates):
        outer = around[first : first - length]
        if -length <= outer[0] and (outer == outer[0]).all():
            around[first : first - length] = body
            yield Rounds(first, body, -length)
