"""The table of arguments of events: what the model holds beside names and times, one value a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from parsers.model.attributes import TEXT_ATTRIBUTES
from rules.analysis.analysis import Analysis
from viewer.tables.columns import EVENT, known, texts
from viewer.tables.table import Column, RowTable, row_table


@row_table
class Arguments(RowTable):
    """Sizes, shapes, grids, groups and the like; everything else that a file says stays in it."""

    name: ClassVar[str] = "arguments"
    about: ClassVar[str] = "one argument of one event"
    columns: ClassVar[tuple[Column, ...]] = (
        EVENT,
        Column("key", "which argument"),
        Column("number", "its value, where it is a number"),
        Column("text", "its value, where it is a text"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        strings = analysis.trace.strings
        stored = sorted(analysis.trace.attributes.items(), key=lambda item: item[0].value)
        nothing = np.empty(0, np.int64)
        counts = np.array([len(column.event) for _, column in stored], np.int64)
        is_text = np.repeat(np.array([which in TEXT_ATTRIBUTES for which, _ in stored], bool), counts)
        value = np.concatenate([nothing, *(column.value for _, column in stored)])
        return {
            "event": np.concatenate([nothing, *(column.event for _, column in stored)]),
            "key": texts(np.repeat(np.arange(len(stored)), counts), [which.value for which, _ in stored]),
            "number": known(value, is_text),
            "text": texts(np.where(is_text, value, -1), strings),
        }
