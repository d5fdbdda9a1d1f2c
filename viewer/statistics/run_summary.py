"""The words and the small picture of one analysed recording that the list of recent files keeps."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from parsers.model import Trace
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import Intervals, covered_before
from rules.analysis.idle.causes import Cause
from viewer.user_data.recent import COLUMNS, MAX_ROWS, WHOLE, Summary


def summarise(analysis: Analysis) -> Summary:
    """The summary of a recording that is opened now; the picture shows the analysed window."""
    t0, t1 = analysis.window
    devices = sorted(
        analysis.active_devices, key=lambda device: -analysis.budget(device, t0, t1).total_idle_ns
    )
    rows = tuple(_row(analysis, device, t0, t1) for device in devices[:MAX_ROWS]) if t1 > t0 else ()
    return Summary(time.time(), analysis.trace.duration, device_words(analysis.trace), rows)


def device_words(trace: Trace) -> str:
    """What was recorded on: "NVIDIA H200", "4 ranks, NVIDIA H200", or what there is instead of a GPU."""
    names = list(dict.fromkeys(device.name for device in trace.devices if device.name))
    ranks = {device.rank for device in trace.devices if device.rank is not None}
    words = []
    if len(ranks) > 1:
        words.append(f"{len(ranks)} ranks")
    elif len(trace.devices) > 1:
        words.append(f"{len(trace.devices)} GPUs")
    words += names[:1] if len(names) < 2 else [f"{names[0]} and others"]
    if trace.kernels and not len(trace.events):
        words.append(f"{len(trace.kernels)} profiled kernels")
    return ", ".join(words)


def _row(analysis: Analysis, device: int, t0: int, t1: int) -> Mapping[str, tuple[int, ...]]:
    edges = np.linspace(t0, t1, COLUMNS + 1).astype(np.int64)
    spans = np.maximum(np.diff(edges), 1)
    spent = analysis.time(device)
    parts: dict[str, Intervals] = {
        "compute": spent.compute,
        "communication": spent.communication,
        "copy": spent.copies,
        "other": spent.other,
    }
    parts |= {cause.key: spent.idle[cause] for cause in Cause}
    row = {}
    for key, intervals in parts.items():
        share = np.rint(np.diff(covered_before(intervals, edges)) * WHOLE / spans).astype(int)
        if share.any():
            row[key] = tuple(share.tolist())
    return row
