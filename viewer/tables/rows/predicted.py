"""The tables of what a step would take with fixes, and of the chain that decides how long it takes now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rules.analysis.analysis import Analysis
from rules.fixes.plan import plan_of
from rules.replay.critical_path import PathKind, critical_path_of
from viewer.tables.columns import EVENT, TIMES, known, texts
from viewer.tables.table import Column, RowTable, row_table


@row_table
class PredictedSteps(RowTable):
    """Each fix by itself; the parts of one add up to its step before and after. A redesign has no single estimate."""

    name = "predicted_steps"
    about = "one part of a step, without the profiler, before and after one fix"
    columns = (
        Column("fix", "id of the fix"),
        Column("title", "what would be done"),
        Column("part", "what the GPU does or waits for meanwhile"),
        Column("before_ns", "how long that takes now"),
        Column("after_ns", "how long it would take, most likely"),
        Column("saved_ns", "the difference; below zero where it would take longer"),
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        from viewer.statistics.what_if import bar, predict  # which many questions do without

        plan = plan_of(analysis)
        rows: list[tuple[str, str, str, int, int, int]] = []
        for promise in plan.promises:
            if promise.proposal.redesign:
                continue
            prediction = predict(plan, (promise.id,))
            now, then = (
                {key: (label, ns) for key, label, ns in bar(plan, prediction, after=after)}
                for after in (False, True)
            )
            for key, (label, _) in (then | now).items():
                before, after = (each.get(key, ("", 0))[1] for each in (now, then))
                rows.append((promise.id, promise.proposal.title, label, before, after, before - after))
        columns = zip(*rows, strict=True) if rows else [()] * len(self.columns)
        return {
            column.name: np.array(values, np.int64 if column.unit else object)
            for column, values in zip(self.columns, columns, strict=True)
        }


@row_table
class CriticalPathPieces(RowTable):
    """In order of time and without a break; together as long as the steps that were replayed."""

    name = "critical_path"
    about = "one piece of the chain of work and waits that decides how long a step takes"
    columns = (
        EVENT,
        Column("kind", f"one of {', '.join(kind.name.lower() for kind in PathKind)}"),
        Column("segment", "what it is, as the tab Critical path calls it"),
        *TIMES,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        from viewer.statistics.what_if import path_groups

        path = critical_path_of(analysis)
        group, names = path_groups(analysis, path)
        return {
            "event": known(path.event),
            "kind": texts(path.kind.astype(np.int64), [kind.name.lower() for kind in PathKind]),
            "segment": texts(group, names),
            "start_ns": path.start,
            "end_ns": path.end,
        }
