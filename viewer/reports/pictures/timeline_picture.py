"""A stretch of the timeline as a picture: what each GPU did or waited for, and what the launching thread did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from parsers.model import EventKind, LaneKind, Trace
from parsers.model.arrays import distinct_values, median_of
from parsers.model.events import of_kinds
from parsers.model.names.devices import device_name
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, clip, covered_before, union
from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family
from rules.findings.base import Evidence
from viewer.appearance import palette
from viewer.reports.pictures.drawing import INK, Drawing

WIDTH, LEFT, RIGHT = 940, 150, 12
GPU_ROW, ROW, SPACE, RULER = 26, 15, 4, 22
MAX_GPUS = 4
MIN_BUSY = 0.02  # of the stretch: threads that did less are not shown
MIN_WIDTH = 1.5  # pixels: narrower events of a thread are not drawn one by one
_SHOWN = {
    LaneKind.STEPS: 1,
    LaneKind.REGION: 1,
    LaneKind.CPU_THREAD: 2,
    LaneKind.CUDA_API: 1,
}  # lanes of each kind
_COLORS = {
    LaneKind.STEPS: palette.GREY,
    LaneKind.REGION: palette.REGIONS["backward"],
    LaneKind.CPU_THREAD: palette.FAMILIES["elementwise"],
    LaneKind.CUDA_API: palette.CAUSES[Cause.LAUNCH],
}


def shown_stretch(analysis: Analysis, evidence: Sequence[Evidence] = ()) -> tuple[int, int, str]:
    """The steady step nearest to the median length of those in which ``evidence`` lies, of all where none has any.

    With words for it; without steps the analysed time.
    """
    steps = analysis.steady_steps
    if not steps or steps[0].found_by == "window":
        t0, t1 = analysis.window
        return t0, t1, f"the analysed {duration(t1 - t0)}"
    starts = [each.start for each in evidence]
    steps = tuple(step for step in steps if any(step.start <= at < step.end for at in starts)) or steps
    lengths = np.array([step.duration for step in steps])
    step = steps[int(np.abs(lengths - median_of(lengths)).argmin())]
    return step.start, step.end, f"one step, {step.name}, {duration(step.duration)}"


def timeline_picture(
    analysis: Analysis, stretch: tuple[int, int] | None = None, scale_ns: int = 0, ink: str = INK
) -> str:
    """SVG of ``stretch`` (ns; otherwise that of ``shown_stretch``); ``scale_ns`` is what the whole width means.

    Empty for a recording that has none of the lanes that are pictured.
    """
    t0, t1 = stretch or shown_stretch(analysis)[:2]
    if t1 <= t0:
        return ""
    trace = analysis.trace
    idle = {each: analysis.budget(each, *analysis.window).total_idle_ns for each in analysis.active_devices}
    devices = sorted(sorted(idle, key=lambda device: -idle[device])[:MAX_GPUS])
    lanes = _lanes(trace, t0, t1, trace.devices[devices[0]].rank if devices else None)
    if not devices and not lanes:
        return ""
    height = RULER + len(devices) * (GPU_ROW + SPACE) + len(lanes) * (ROW + SPACE) + SPACE
    drawing = Drawing(WIDTH, height, f"Timeline of {duration(t1 - t0)}", ink)
    scale = (WIDTH - LEFT - RIGHT) / max(scale_ns, t1 - t0)
    _ruler(drawing, t1 - t0, scale, height)
    top: float = RULER
    for lane in lanes:
        _lane(drawing, trace, lane, (t0, t1), scale, top)
        top += ROW + SPACE
    for device in devices:
        model = trace.devices[device].name
        drawing.text(4, top + 17, f"{device_name(trace, device)} {model}", room=LEFT - 8)
        _gpu(drawing, analysis, device, (t0, t1), scale, top)
        top += GPU_ROW + SPACE
    return drawing.svg()


def _ruler(drawing: Drawing, length: int, scale: float, height: float) -> None:
    target = (WIDTH - LEFT - RIGHT) / scale / 10
    unit = 10 ** np.floor(np.log10(max(target, 1)))
    every = next(unit * each for each in (1, 2, 5, 10) if unit * each >= target)
    for tick in np.arange(0, length * 1.0001, every):
        x = LEFT + tick * scale
        drawing.line(x, RULER - 5, x, height, color=palette.GREY, opacity=0.35)
        drawing.text(x, RULER - 9, duration(tick) if tick else "0", anchor="middle", color="#767d8c", size=10)


def _gpu(
    drawing: Drawing, analysis: Analysis, device: int, stretch: tuple[int, int], scale: float, top: float
) -> None:
    """One row: in each pixel what filled most of it, in the colour of its family or of the cause of the gap."""
    t0, t1 = stretch
    columns = max(int((t1 - t0) * scale), 1)
    edges = np.linspace(t0, t1, columns + 1).astype(np.int64)
    parts: dict[str, Intervals] = dict(_families(analysis, device, stretch))
    work = list(parts)
    spent = analysis.time(device)
    parts |= {cause.key: clip(spent.idle[cause], t0, t1) for cause in Cause}
    share = np.stack([np.diff(covered_before(each, edges)) for each in parts.values()])
    keys = list(parts)
    busy = share[: len(work)].sum(axis=0) if work else np.zeros(columns)
    chosen = np.where(
        busy * 2 >= share.sum(axis=0),
        share[: len(work)].argmax(axis=0) if work else 0,
        len(work) + share[len(work) :].argmax(axis=0),
    )
    chosen = np.where(share.sum(axis=0) > 0, chosen, -1)
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(chosen)) + 1, [columns]))
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        part = int(chosen[first])
        if part < 0:
            continue
        x, width = LEFT + first, last - first
        if part < len(work):
            drawing.box(x, top, width, GPU_ROW, palette.of_family(keys[part]), keys[part])
        else:
            cause = list(Cause)[part - len(work)]
            label = analysis.idle.label(cause)
            drawing.hatched(x, top, width, GPU_ROW, palette.CAUSES[cause], f"idle: {label}")
            drawing.text(x + 4, top + 16, label, room=width - 6, size=10)


def _families(analysis: Analysis, device: int, stretch: tuple[int, int]) -> Mapping[str, Intervals]:
    """Where kernels of each family, and copies, ran."""
    trace, events = analysis.trace, analysis.trace.events
    operations = trace.operations_of_device(device)
    t0, t1 = stretch
    operations = operations[(events.end[operations] > t0) & (events.start[operations] < t1)]
    family = analysis.family_of_string[events.name[operations]]
    copies = of_kinds(events.kind[operations], EventKind.MEMCPY, EventKind.MEMSET)
    found = {}
    for value in distinct_values(family[~copies]).tolist():
        mine = operations[(family == value) & ~copies]
        found[Family(value).label] = clip(union(*events.spans(mine)), t0, t1)
    if copies.any():
        mine = operations[copies]
        found["copies"] = clip(union(*events.spans(mine)), t0, t1)
    return found


def _lanes(trace: Trace, t0: int, t1: int, rank: int | None) -> list[int]:
    events = trace.events
    inside = (events.end > t0) & (events.start < t1) & (events.depth == 0)
    busy = np.bincount(
        events.lane[inside],
        np.minimum(events.end[inside], t1) - np.maximum(events.start[inside], t0),
        minlength=len(trace.lanes),
    )
    found = []
    for kind, count in _SHOWN.items():
        lanes = [
            index
            for index, lane in enumerate(trace.lanes)
            if lane.kind is kind
            and busy[index] >= MIN_BUSY * (t1 - t0)
            and (rank is None or lane.rank in (None, rank))
        ]
        found += sorted(sorted(lanes, key=lambda index: -busy[index])[:count])
    return found


def _lane(
    drawing: Drawing, trace: Trace, lane: int, stretch: tuple[int, int], scale: float, top: float
) -> None:
    """The outermost events of a lane; those too narrow to be seen are one grey ground."""
    events = trace.events
    t0, t1 = stretch
    kind = trace.lanes[lane].kind
    drawing.text(4, top + 11, trace.lanes[lane].name, room=LEFT - 8)
    mine = np.flatnonzero(
        (events.lane == lane) & (events.depth == 0) & (events.end > t0) & (events.start < t1)
    )
    start, end = np.maximum(events.start[mine], t0), np.minimum(events.end[mine], t1)
    color = _COLORS[kind]
    wide = (end - start) * scale >= MIN_WIDTH
    columns = max(int((t1 - t0) * scale), 1)
    edges = np.linspace(t0, t1, columns + 1).astype(np.int64)
    covered = np.diff(covered_before(union(start[~wide], end[~wide]), edges)) > 0
    cuts = np.concatenate(([0], np.flatnonzero(np.diff(covered)) + 1, [columns]))
    for first, last in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        if covered[first]:
            drawing.box(LEFT + first, top, last - first, ROW, color, opacity=0.5)
    for event, begin, finish in zip(
        mine[wide].tolist(), start[wide].tolist(), end[wide].tolist(), strict=True
    ):
        x, width = LEFT + (begin - t0) * scale, (finish - begin) * scale
        name = kernel_name(trace.name(event))
        drawing.box(x, top, max(width - 0.6, 0.6), ROW, color, f"{name}, {duration(finish - begin)}")
        drawing.text(x + 3, top + 11, name, room=width - 5, color="#10131a", size=10)
