"""Where a row lies in its database, packed into one number."""

from __future__ import annotations

import numpy as np

from parsers.model.arrays import I64

ROWID_BITS = 40


def source_rows(table: int, rowids: I64) -> I64:
    """Table number and rowid packed for ``EventTable.source_row``; -1 where the rowid does not fit."""
    fits = (rowids >= 0) & (rowids < 1 << ROWID_BITS)
    return np.where(fits, rowids | table << ROWID_BITS, -1)


def place_of(source_row: int) -> tuple[int, int]:
    """Table number and rowid of a packed row."""
    return source_row >> ROWID_BITS, source_row & ((1 << ROWID_BITS) - 1)
