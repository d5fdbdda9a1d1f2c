"""A serving engine as lanes of the timeline: its steps, what they compute over time, and each of its requests."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from parsers.model import BOOL, F64, I64, Trace
from parsers.model.arrays import distinct_values
from parsers.model.units import duration
from rules.analysis.idle.causes import Cause
from rules.analysis.inference.course import course_of
from rules.analysis.inference.engine_steps import EngineSteps
from rules.analysis.inference.phases import Phase, Phases, begun_ns, phases_of
from rules.analysis.inference.requests import Requests
from rules.analysis.names.serving_steps import StepKind
from viewer.timeline.geometry.derived import ABOVE_ALL, Derived, derived_row
from viewer.timeline.geometry.tracks import Track

if TYPE_CHECKING:
    from PySide6.QtGui import QColor

    from viewer.appearance.theme import Theme

KEY = "requests/"
MAX_REQUESTS = 100_000
MAX_ROWS = 64
MIN_HEIGHT, AROUND = 104, 8  # px: the names of the colours need that much
PITCH = {24: 9, 40: 7, MAX_ROWS: 5}  # px a row, by how many there are at most
HELD_UP_SHARE = 0.45  # of the colour of waiting
PALE = 0.3  # of the colour of steps that a chosen request has nothing to do with
NAMES = {Phase.WAITS: "waits", Phase.PREFILL: "prefill", Phase.DECODE: "decode", Phase.HELD_UP: "held up"}


CURVE = 34  # px: the height of a lane with a curve
DECODE_SHADES = (0.4, 0.55, 0.7, 0.85, 1.0)  # of the colour of decode steps, from the smallest batch on
MIN_STEPS = 2  # one step has no course
# by their number among the colours of a series
_SERIES = ("decode", "prefill", "tokens", "", "", "", "cache")


class Order(Enum):
    """What the rows of requests are sorted by."""

    ARRIVAL = "arrival"
    END = "end"
    TPOT = "time per token"


def request_lanes(
    requests: Requests | None,
    steps: EngineSteps,
    held_up: F64,
    order: Order = Order.ARRIVAL,
    chosen: int = -1,
) -> list[Derived]:
    """One lane with a row for each request, or as many as were there at once; none without a common clock.

    The ``chosen`` request has an outline.
    """
    if requests is None or requests.offset_ns is None or not len(steps):
        return []
    first = np.arange(min(len(requests), MAX_REQUESTS))
    phases = phases_of(requests, steps, first)
    if not len(phases.start):
        return []
    row_of, shown = _rows(phases, _sorted_by(requests, order))
    rows = int(row_of.max()) + 1
    by_row = np.lexsort((phases.start, row_of[phases.request]))
    by_row = by_row[row_of[phases.request[by_row]] >= 0]
    pieces = [by_row[row_of[phases.request[by_row]] == row] for row in range(rows)]

    def told(row: int, offset: int) -> tuple[str, str]:
        piece = int(pieces[row][offset])
        kind = Phase(int(phases.kind[piece]))
        length = duration(int(phases.end[piece] - phases.start[piece]))
        return _told(requests, int(phases.request[piece]), held_up), f"{NAMES[kind]} here for {length}"

    def item(row: int, offset: int) -> int:
        return int(phases.request[pieces[row][offset]])

    told_of = f"{shown:,} of {len(requests):,}" if shown < len(requests) else f"{shown:,}"
    sorting = (
        f"by {order.value}" if len(distinct_values(phases.request)) <= MAX_ROWS else "where there is room"
    )
    pitch = next(px for most, px in PITCH.items() if rows <= most)
    return [
        Derived(
            Track(KEY, "", "Requests", f"{told_of}, {sorting}", derived=True),
            ABOVE_ALL,
            tuple(derived_row(phases.start[each], phases.end[each], phases.kind[each]) for each in pieces),
            phase_colors,
            told,
            None,
            max(rows * pitch + AROUND, MIN_HEIGHT),
            recorded=True,
            legend=tuple(NAMES[phase] for phase in Phase),
            item=item,
            outline=_outline(phases, row_of, chosen),
        )
    ]


def _outline(phases: Phases, row_of: I64, chosen: int) -> tuple[int, int, int] | None:
    if not 0 <= chosen < len(row_of) or row_of[chosen] < 0:
        return None
    pieces = phases.request == chosen
    return int(row_of[chosen]), int(phases.start[pieces].min()), int(phases.end[pieces].max())


def engine_lanes(
    trace: Trace, steps: EngineSteps, requests: Requests | None, chosen: int = -1
) -> list[Derived]:
    """A lane of the engine's steps, and one for each quantity of which the course is known.

    While a request is ``chosen``, steps outside of its time are pale: what is left are its own and those that held it
    up.
    """
    if len(steps) < MIN_STEPS:
        return []
    course = course_of(trace, steps, requests)
    of_cache = "of its blocks" if course.cache is not None and course.cache.unit == "%" else "tokens held"
    curves = (
        ("batch", "Batch size", "requests", course.batch, "decode"),
        ("tokens", "Tokens/s", "written", course.tokens, "tokens"),
        ("cache", "KV cache", of_cache, course.cache, "cache"),
        ("waiting", "Waiting", "requests", course.waiting, "waits"),
    )
    return [
        _step_lane(trace, steps, _lit(steps, requests, chosen)),
        *(
            Derived(
                Track(f"{KEY}{key}", "", title, subtitle, derived=True),
                ABOVE_ALL,
                (),
                partial(_curve_color, which),
                lambda row, offset: ("", ""),
                height=CURVE,
                recorded=True,
                curve=replace(counter, name=title),
            )
            for key, title, subtitle, counter, which in curves
            if counter is not None
        ),
    ]


def _lit(steps: EngineSteps, requests: Requests | None, chosen: int) -> BOOL:
    """The steps from the first one of a request to its end; all while none is chosen."""
    if requests is None or requests.offset_ns is None or not 0 <= chosen < len(requests):
        return np.ones(len(steps), bool)
    begun, end = begun_ns(requests, steps)[chosen], requests.end[chosen] + requests.offset_ns
    lit: BOOL = (steps.end > begun) & ~(steps.start >= end)
    return lit


def _step_lane(trace: Trace, steps: EngineSteps, lit: BOOL) -> Derived:
    """Prefill, mixed, and shades of decode: the fainter the smaller its batch."""
    largest = max(int(steps.decoded.max()), 1)
    known = steps.decoded >= 0
    shade = np.where(known, steps.decoded * len(DECODE_SHADES) // (largest + 1), len(DECODE_SHADES) - 1)
    color = np.where(steps.kind == StepKind.DECODE, 2 + shade, np.where(steps.kind == StepKind.MIXED, 1, 0))
    color = color + np.where(lit, 0, 2 + len(DECODE_SHADES))
    names = trace.events.name[steps.event]

    def told(_: int, offset: int) -> tuple[str, str]:
        parts = [
            StepKind(int(steps.kind[offset])).name.lower(),
            duration(int(steps.end[offset] - steps.start[offset])),
        ]
        counts = (
            (steps.prompts, "prompts"),
            (steps.prompt_tokens, "tokens of prompts"),
            (steps.decoded, "decoded"),
        )
        parts += [f"{count[offset]:,} {what}" for count, what in counts if count[offset] > 0]
        return trace.strings[names[offset]], "; ".join(parts)

    return Derived(
        Track(
            f"{KEY}steps",
            "",
            "Engine steps",
            "fainter: fewer requests" if (steps.decoded > 0).any() else "prefill and decode",
            derived=True,
        ),
        ABOVE_ALL,
        (derived_row(steps.start, steps.end, color),),
        _step_colors,
        told,
        height=CURVE,
        recorded=True,
        parted=True,
        item=lambda _, offset: int(steps.event[offset]),
    )


def _sorted_by(requests: Requests, order: Order) -> F64:
    """What a row comes later for; the slowest first."""
    if order is Order.TPOT:
        return -requests.tpot_ns
    return requests.end if order is Order.END else requests.arrival


def _rows(phases: Phases, key: F64) -> tuple[I64, int]:
    """The row of each request, -1 where all are taken, and how many have one.

    Each has its own where there are few, by ``key``; otherwise a row is free again when its request has ended.
    """
    present, at = np.unique(phases.request, return_index=True)
    ends = phases.end[np.append(at[1:], len(phases.request)) - 1].tolist()
    row_of = np.full(int(present.max()) + 1, -1, np.int64)
    if len(present) <= MAX_ROWS:
        row_of[present[np.argsort(key[present], kind="stable")]] = np.arange(len(present))
        return row_of, len(present)
    free, taken = list(range(MAX_ROWS)), list[tuple[int, int]]()
    shown = 0
    for request, start, end in zip(present.tolist(), phases.start[at].tolist(), ends, strict=True):
        while taken and taken[0][0] <= start:
            heappush(free, heappop(taken)[1])
        if free:
            row_of[request] = heappop(free)
            heappush(taken, (end, int(row_of[request])))
            shown += 1
    return row_of, shown


def _told(requests: Requests, row: int, held_up: F64) -> str:
    """What a card says of a request: its tokens and latencies."""
    name = requests.name_of(row)
    parts = [name if name.lower().startswith("req") else f"request {name}"]
    tokens = [
        f"{count:,.0f} {what}"
        for count, what in ((requests.prompt[row], "tokens in"), (requests.out[row], "out"))
        if np.isfinite(count)
    ]
    parts += [", ".join(tokens)] if tokens else []
    parts += [
        f"{what} {duration(round(ns))}"
        for what, ns in (
            ("TTFT", requests.ttft_ns[row]),
            ("TPOT", requests.tpot_ns[row]),
            ("held up", held_up[row]),
        )
        if np.isfinite(ns)
    ]
    return "; ".join(parts)


def _hue(theme: Theme, what: str) -> QColor:
    """Colours that fill, not those of text: the latter are too dark in a light window."""
    return theme.cause(Cause.SYNCHRONIZATION) if what == "waits" else theme.named(_SERIES.index(what))


def _curve_color(what: str, theme: Theme) -> list[QColor]:
    return [_hue(theme, what)]


def _step_colors(theme: Theme) -> list[QColor]:
    from viewer.appearance.theme import mixed

    prefill, decode = _hue(theme, "prefill"), _hue(theme, "decode")
    shades = [mixed(decode, theme.window, part) for part in DECODE_SHADES]
    lit = [prefill, mixed(prefill, decode, 0.5), *shades]
    return [*lit, *(mixed(each, theme.window, PALE) for each in lit)]


def phase_colors(theme: Theme) -> list[QColor]:
    """A colour for each ``Phase``."""
    from viewer.appearance.theme import mixed

    waits = _hue(theme, "waits")
    held_up = mixed(waits, theme.window, HELD_UP_SHARE)
    return [waits, _hue(theme, "prefill"), _hue(theme, "decode"), held_up]
