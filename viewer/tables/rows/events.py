"""The table of events: everything that has a start and an end, as the model holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from parsers.model import EventKind
from rules.analysis.analysis import Analysis
from viewer.tables.columns import EVENT, TIMES, every_name
from viewer.tables.table import Column, RowTable, row_table

KINDS = tuple(kind.name.lower() for kind in EventKind)


@row_table
class Events(RowTable):
    """The columns are the model's own; only the number of each event is made."""

    name: ClassVar[str] = "events"
    about: ClassVar[str] = "one event of any kind, in the order of lanes"
    columns: ClassVar[tuple[Column, ...]] = (
        EVENT,
        Column("name", "name as recorded"),
        Column("kind", f"one of {', '.join(KINDS)}"),
        *TIMES,
        Column("lane", "number of its lane, as in the table lanes"),
        Column("depth", "how deep it is nested on its lane"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        events = analysis.trace.events
        small = len(events) < np.iinfo(np.int32).max
        return {
            "event": np.arange(len(events), dtype=np.int32 if small else np.int64),
            "name": every_name(analysis.trace, events.name),
            "kind": pd.Categorical.from_codes(events.kind, categories=pd.Index(KINDS, dtype=object)),
            "start_ns": events.start,
            "end_ns": events.end,
            "lane": events.lane,
            "depth": events.depth,
        }
