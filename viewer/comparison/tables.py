"""What the tables of a comparison hold, as frames: measures, kernels, operators, regions, collectives, memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parsers.model import Trace
from parsers.model.late import dataclass
from parsers.model.names.kernels import distinct_names, kernel_name
from parsers.model.units import average_count, duration, percent, three_digits
from rules.analysis.steps.steps import Step
from rules.comparison.bridge import REGIONS, Bridge
from rules.comparison.compare import Comparison, Measure
from rules.comparison.kernel_rows import KernelChange, Match
from rules.comparison.side import Side
from viewer.panels.tables.table_model import Column, Show
from viewer.reports.comparison_report import change, finding_sides, sides

SAME = 0.005  # a smaller relative change is none
NONE = float("nan")
NEUTRAL = frozenset({"kernels", "kernels a step", "GPU busy"})  # neither more nor less is better by itself

_CHANGE = Column("told", "Change", Show.FIGURE, tone="tone", order="change")
MEASURES = (
    Column("name", "What"),
    Column("before", "Before", Show.FIGURE),
    Column("after", "After", Show.FIGURE),
    Column("told", "Change", Show.FIGURE, tone="tone"),
)
KERNELS = (
    Column("family", "Kind", Show.FAMILY, minor=True),
    Column("short_before", "Before", whole="names_before", stretch=True),
    Column(
        "sign",
        "",
        minor=True,
        hint="= the same kernel, ≈ another one for the same operator or place, ⇒ some became fewer or more, "
        "+ on one side only",
    ),
    Column("short_after", "After", whole="names_after", stretch=True),
    Column("calls", "Calls", Show.FIGURE, "A step, before and after", minor=True),
    Column("ns_before", "Before", Show.TIME, "A step"),
    Column("ns_after", "After", Show.TIME, "A step"),
    _CHANGE,
)
FAMILIES = (
    Column("family", "Kind of kernel", Show.FAMILY, stretch=True),
    Column("calls", "Calls", Show.FIGURE, "A step, before and after"),
    Column("ns_before", "Before", Show.TIME, "A step"),
    Column("ns_after", "After", Show.TIME, "A step"),
    _CHANGE,
)
OPERATORS = (
    Column("name", "Operator"),
    Column("calls", "Calls", Show.FIGURE, "A step, before and after"),
    Column("cpu_before", "CPU before", Show.TIME, "Its own time on the CPU, a step"),
    Column("cpu_after", "CPU after", Show.TIME, "Its own time on the CPU, a step"),
    Column("gpu_before", "GPU before", Show.TIME, "Of what it launched itself, a step"),
    Column("gpu_after", "GPU after", Show.TIME, "Of what it launched itself, a step"),
    Column("told", "Change on the CPU", Show.FIGURE, tone="tone", order="change"),
)
PARTS = (
    Column("name", "Region"),
    Column("ns_before", "Before", Show.TIME, "A step, as the GPU ran it, or the CPU where there is none"),
    Column("ns_after", "After", Show.TIME, "A step, as the GPU ran it, or the CPU where there is none"),
    _CHANGE,
)
COLLECTIVES = (
    Column("collective", "Collective"),
    Column("bytes", "Size", Show.SIZE, "Bytes that one rank contributes"),
    Column("calls", "Count", Show.FIGURE),
    Column("transfer_before", "Transfer before", Show.TIME, "Median of the shortest participants"),
    Column("transfer_after", "After", Show.TIME, "Median of the shortest participants"),
    Column("bandwidth_before", "Bandwidth before", Show.RATE, "What each link carries"),
    Column("bandwidth_after", "After", Show.RATE, "What each link carries"),
    _CHANGE,
)
FACTS = (
    Column("name", "What"),
    Column("before", "Before", stretch=True),
    Column("after", "After", stretch=True),
)
COUNTERS = (
    Column("kernel", "Profiled kernel"),
    Column("label", "What"),
    Column("before", "Before", Show.FIGURE),
    Column("after", "After", Show.FIGURE),
    Column("told", "Change", Show.FIGURE, tone="tone", order="change"),
)


def told_change(ns: float, whole: float) -> tuple[str, int]:
    """ "▼ −5.63 ms" and its tone: -1 better, 1 worse, 0 as before; ``whole``: what a noticeable part is a part of."""
    if abs(ns) <= SAME * whole or duration(abs(ns)) == "0 ns":
        return ("same" if abs(ns) <= SAME * whole and whole else "0 ns"), 0
    return f"{'▼ −' if ns < 0 else '▲ +'}{duration(abs(ns))}", -1 if ns < 0 else 1


def measures(result: Comparison) -> pd.DataFrame:
    """Step time, kernels, parts of the budget, with what memory and collectives add."""
    rows = [_measure(each, result) for each in (result.step, *result.measures)]
    return _frame(rows, "name before after told tone")


def _measure(each: Measure, result: Comparison) -> tuple[Any, ...]:
    before, after = (text.split("  ")[0] for text in sides(each, result))
    told = change(each, result)
    scale = result.step.before if each.unit == "share" else 1.0
    moved = (
        (each.after * result.step.after - each.before * result.step.before)
        if each.unit == "share"
        else each.change
    )
    if abs(moved) <= SAME * (scale if each.unit == "share" else 1.0):
        return each.name, before, after, "same" if before == after else "little", 0
    arrow = "▼ " if moved < 0 else "▲ "
    sign = told.replace("-", "−")
    if each.name in NEUTRAL:
        return each.name, before, after, sign, 0
    return each.name, before, after, arrow + sign, -1 if moved < 0 else 1


def kernels(rows: Sequence[KernelChange]) -> pd.DataFrame:
    """One row for each row of matched kernels, in their order."""
    names = [(each.before, each.after) if each.before or each.after else ((each.name,),) * 2 for each in rows]
    before, after = (
        distinct_names([sides[which][0] if sides[which] else "" for sides in names]) for which in (0, 1)
    )
    total = max(sum(each.ns_before for each in rows), sum(each.ns_after for each in rows), 1.0)
    found = []
    for each, one, other, (all_before, all_after) in zip(rows, before, after, names, strict=True):
        told, tone = told_change(each.ns_change, max(each.ns_before, each.ns_after, total * 1e-5))
        found.append(
            (
                _shortened(one, all_before),
                "\n".join(all_before),
                each.match.value if each.match is not Match.GONE else "+",
                _shortened(other, all_after),
                "\n".join(all_after),
                _calls(each.calls_before, each.calls_after),
                each.ns_before or NONE,
                each.ns_after or NONE,
                told,
                tone,
                each.family,
                each.ns_change,
            )
        )
    return _frame(
        found,
        "short_before names_before sign short_after names_after calls ns_before ns_after told tone family "
        "change",
    )


def _shortened(name: str, names: Sequence[str]) -> str:
    """A name, and how many it stands for besides: so short that both are there in a narrow column."""
    if not names:
        return "none"
    return name + (f" +{len(names) - 1}" if len(names) > 1 else "")


def _calls(before: float, after: float) -> str:
    one, other = average_count(before), average_count(after)
    return one if one == other else f"{one} → {other}"


def families(rows: Sequence[KernelChange]) -> pd.DataFrame:
    """The rows summed up by family."""
    summed: dict[str, list[float]] = {}
    for each in rows:
        sums = summed.setdefault(each.family, [0.0] * 4)
        for index, value in enumerate((each.calls_before, each.calls_after, each.ns_before, each.ns_after)):
            sums[index] += value
    found = []
    for family, (calls_before, calls_after, before, after) in summed.items():
        told, tone = told_change(after - before, max(before, after))
        found.append(
            (
                family,
                _calls(calls_before, calls_after),
                before or NONE,
                after or NONE,
                told,
                tone,
                after - before,
            )
        )
    return _frame(found, "family calls ns_before ns_after told tone change", by="change")


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """What is worked out before the window is filled: ``measures``, and (title, columns, frame) of further tabs."""

    measures: pd.DataFrame
    further: tuple[tuple[str, Sequence[Column], pd.DataFrame], ...]


def tables_of(result: Comparison, rows: Sequence[KernelChange]) -> Tables:
    """Takes a moment where there are many operators or collectives."""
    frame = measures(result)
    further: list[tuple[str, Sequence[Column], pd.DataFrame]] = [
        ("Kinds of kernel", FAMILIES, families(rows))
    ]
    if result.sides is not None:
        further += [
            ("Operators", OPERATORS, operators(*result.sides)),
            ("Regions", PARTS, regions(result.bridges)),
            ("Collectives", COLLECTIVES, collectives(*result.sides)),
        ]
    further += [("Counters", COUNTERS, counters(result)), ("Machine and settings", FACTS, facts(result))]
    return Tables(frame, tuple(each for each in further if len(each[2])))


def operators(one: Side, other: Side) -> pd.DataFrame:
    """CPU operators by name, a step; empty where neither side has any."""
    from viewer.statistics.operators import operator_table, operator_times

    tables = []
    for side in (one, other):
        table = operator_table(side.trace, operator_times(side.trace), *side.analysis.window).set_index(
            "name"
        )
        tables.append(table[["calls", "cpu_self_ns", "gpu_self_ns"]] / side.repetitions)
    joined = tables[0].add_suffix("_one").join(tables[1].add_suffix("_other"), how="outer").fillna(0.0)
    found = []
    for name, row in zip(joined.index.tolist(), joined.to_numpy().tolist(), strict=True):
        calls_one, cpu_one, gpu_one, calls_other, cpu_other, gpu_other = row
        told, tone = told_change(cpu_other - cpu_one, max(cpu_one, cpu_other))
        values = (name, _calls(calls_one, calls_other), cpu_one, cpu_other, gpu_one, gpu_other, told, tone)
        found.append((*values, cpu_other - cpu_one))
    return _frame(found, "name calls cpu_before cpu_after gpu_before gpu_after told tone change", by="change")


def regions(bridges: Sequence[Bridge]) -> pd.DataFrame:
    """The bridge by regions as a table; empty without regions."""
    found = []
    for bridge in bridges:
        for part in bridge.parts if bridge.title == REGIONS else ():
            told, tone = told_change(part.change, max(part.before, part.after))
            found.append((part.label, part.before or NONE, part.after or NONE, told, tone, part.change))
    return _frame(found, "name ns_before ns_after told tone change")


def collectives(one: Side, other: Side) -> pd.DataFrame:
    """Kinds of collective by name and size, with the bandwidth of both sides."""
    from viewer.statistics.ranks import rank_tables

    keys = ["collective", "message_bytes"]
    tables = []
    for side in (one, other):
        table = rank_tables(side.analysis).collectives if side.gpus > 1 else pd.DataFrame()
        if not len(table):
            tables.append(
                pd.DataFrame(columns=[*keys, "calls", "transfer_ns", "bus_bytes_per_s"]).set_index(keys)
            )
            continue
        tables.append(
            table.groupby(keys).agg({"calls": "sum", "transfer_ns": "median", "bus_bytes_per_s": "median"})
        )
    joined = tables[0].add_suffix("_one").join(tables[1].add_suffix("_other"), how="outer")
    found = []
    for key, row in zip(joined.index.tolist(), joined.astype(float).to_numpy().tolist(), strict=True):
        count_one, ns_one, rate_one, count_other, ns_other, rate_other = row
        longer = float(np.nan_to_num(ns_other - ns_one))
        told, tone = told_change(longer, np.nan_to_num(max(ns_one, ns_other)))
        calls = _calls(np.nan_to_num(count_one), np.nan_to_num(count_other))
        found.append((*key, calls, ns_one, ns_other, rate_one, rate_other, told, tone, longer))
    return _frame(
        found,
        "collective bytes calls transfer_before transfer_after bandwidth_before bandwidth_after told tone "
        "change",
    )


def counters(result: Comparison) -> pd.DataFrame:
    """Hardware counters of kernels that both sides profiled, those that moved."""
    found = []
    for profile in result.profiles:
        for row in profile.rows:
            if row.is_noticeable and row.change is not None:
                better = row.lower_is_better
                tone = 0 if better is None else -1 if (row.change < 0) == better else 1
                arrow = "▼ −" if row.change < 0 else "▲ +"
                moved = three_digits(abs(row.change)) + " %" if row.unit == "%" else percent(abs(row.change))
                found.append(
                    (
                        kernel_name(profile.after.name),
                        row.label,
                        row.before_text,
                        row.after_text,
                        arrow + moved,
                        tone,
                        row.change,
                    )
                )
    return _frame(found, "kernel label before after told tone change")


def facts(result: Comparison) -> pd.DataFrame:
    """Machine and settings of both sides; what differs is marked in the first column."""
    if result.sides is None:
        return _frame([], "name before after")
    columns = [_facts(side) for side in result.sides]
    found = [
        (name if columns[0][name] == columns[1][name] else f"{name}  ≠", columns[0][name], columns[1][name])
        for name in columns[0]
    ]
    return _frame(found, "name before after")


def _facts(side: Side) -> dict[str, str]:
    trace, analysis = side.trace, side.analysis
    capture = trace.capture
    recorded = [
        word for word, used in (("stacks", capture.with_stack), ("memory", capture.profile_memory)) if used
    ]
    gpus = sorted({trace.devices[device].name or "unnamed" for device in analysis.active_devices})
    steady = sum(step.steady for step in analysis.steps)
    return {
        "Files": ", ".join(Path(each.path).name for each in trace.inputs[:3])
        + (f" and {len(trace.inputs) - 3} more" if len(trace.inputs) > 3 else ""),
        "GPUs": f"{side.gpus} x {', '.join(gpus)}" if gpus else "none",
        "Ranks": str(len(trace.ranks) or 1),
        "Recorded by": ", ".join(dict.fromkeys(each.producer for each in trace.inputs)),
        "Recorded besides": " and ".join(recorded) or "nothing",
        "Steps": f"{steady} steady of {len(analysis.steps)}, found by {side.found_by or 'nothing'}",
        "Analysed": duration(side.window_ns),
        "Events": f"{len(trace.events):,}",
    }


def about(trace: Trace) -> str:
    """A recording in a few words: its files, GPUs, ranks."""
    from viewer.statistics.run_summary import device_words

    names = [Path(each.path).name for each in trace.inputs]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return " · ".join(filter(None, (f"{names[0]}{more}" if names else "", device_words(trace))))


def step_names(side: Side, rank: int | None) -> list[tuple[str, Step]]:
    """The steady steps of a rank as one chooses them."""
    steps = [step for step in side.analysis.steps if step.steady and step.rank == rank]
    return [(f"{number} of {len(steps)}", step) for number, step in enumerate(steps, 1)]


def finding_costs(result: Comparison) -> list[str]:
    """What each finding that matters on either side costs at most, before and after."""
    found = []
    for each in result.findings:
        sides = (" or ".join(text.split("  ")) for text in finding_sides(each, result))
        before, after = ("nothing" if text == "-" else f"at most {text}" for text in sides)
        found.append(f"{before} before, {after} after")
    return found


def _frame(rows: list[Any], keys: str, by: str = "") -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=keys.split())
    if by and len(frame):
        frame = frame.sort_values(by, key=lambda column: -column.abs(), ignore_index=True)
    return frame
