"""Counting the rows of a mask, for which the CPU waits: which calls belong to it."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL, Attribute, CopyKind
from parsers.model.names.calls import Call
from parsers.model.names.per_name import named
from rules.fixes.changes import copies, of_nodes
from rules.replay.replay import Replay
from rules.replay.surroundings import surroundings_of

SMALL_BYTES = 65_536  # a larger copy is no value that a program looks at
LOOKS_FOR_ROWS = ("aten::nonzero", "aten::masked_select")
COUNTING = (*LOOKS_FOR_ROWS, "aten::_unique2", "aten::unique_consecutive", "aten::unique_dim")


def counts_rows(replay: Replay) -> BOOL:
    """Which calls belong to counting the rows of a mask."""
    by_name = surroundings_of(replay.analysis).inside(lambda name: name in COUNTING)
    device = replay.device
    size = replay.analysis.trace.attribute(Attribute.BYTES, device.event)
    reads = of_nodes(replay, copies(replay, CopyKind.D2H) & (size <= SMALL_BYTES))
    synchronises = (replay.waits.target >= 0) & (replay.host.call == Call.SYNCHRONIZE)
    return np.asarray(by_name | counting_runs(replay, reads, synchronises))


def counting_runs(replay: Replay, reads: BOOL, synchronises: BOOL) -> BOOL:
    """Calls that count the rows of a mask, where no operator says so: by CUB's kernels around a small copy."""
    trace, device = replay.analysis.trace, replay.device
    by_cub = of_nodes(replay, named(trace, device.event, lambda name: "cub::" in name))
    selects = of_nodes(
        replay, named(trace, device.event, lambda name: "DeviceSelect" in name or "select::Dev" in name)
    )
    member = by_cub | reads | synchronises
    run = np.cumsum(np.append(True, member[1:] != member[:-1])[: len(member)])
    whole = np.bincount(run, selects & by_cub) * np.bincount(run, reads) > 0 if len(run) else member
    return np.asarray(member & whole[run]) if len(run) else member
