"""The table of what encloses what on one lane."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rules.analysis.analysis import Analysis
from viewer.statistics.operators import parents_on_lane
from viewer.tables.columns import EVENT
from viewer.tables.table import Column, RowTable, row_table


@row_table
class Parents(RowTable):
    """Only events that lie inside another one of their lane have a row."""

    name: ClassVar[str] = "parents"
    about: ClassVar[str] = "one event that lies directly inside another one of its lane"
    columns: ClassVar[tuple[Column, ...]] = (EVENT, Column("parent", "the event around it"))

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace = analysis.trace
        found = [np.empty(0, np.int64)]
        for lane in range(len(trace.lanes)):
            where = trace.events.lane_slice(lane)
            parent = parents_on_lane(trace, lane, where.start)
            found.append(np.where(parent < 0, -1, parent + where.start))
        parents = np.concatenate(found)
        inner = np.flatnonzero(parents >= 0)
        return {"event": inner, "parent": parents[inner]}
