"""What late ranks cost everybody: a step in which they are as fast as the slowest of the others, replayed."""

from __future__ import annotations

import numpy as np

from parsers.model import BOOL
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.reasons import MORE_WORK
from rules.analysis.ranks.recorded import ranks_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of

LONG_SILENCE = 0.1  # of a step: shorter ones are Python between two operators, on every rank


def gain_without_late_ranks(analysis: Analysis) -> float | None:
    """How many times as fast a step would be without the lateness of ``ranks.late``; None where unknown.

    The most that bringing them up to the others can give: late ranks take no CPU time and wait for nobody but the
    others, and their kernels take no longer than the slowest other rank's. Kernels of the others that take longer than
    the late ranks' do so beside a waiting collective, which takes multiprocessors, and shrink as well, unless larger
    grids say that they have more to compute; where nothing is recorded of their CPUs for long, these may wait for a
    late rank, too.
    """
    replay = replay_of(analysis)
    late = _late_spans(analysis, replay)
    if replay.reason or late.all() or not late.any():
        return None
    host, device, spans = replay.host, replay.device, len(replay.spans)
    of_node = host.span_of_thread[host.thread]
    working = device.meeting < 0
    at_once = late[of_node]
    silent = surroundings_of(analysis).silent_ns
    unknown = np.where(silent >= LONG_SILENCE * replay.usual_ns, silent, 0.0)
    on_gpu = np.bincount(device.span[working], replay.usual.duration[working], minlength=spans)
    target = np.where(late, on_gpu[~late].max(), on_gpu[late].max())
    target = np.where(_with_larger_grids(analysis, replay, late), on_gpu, target)
    shorter = np.minimum(1.0, target / np.maximum(on_gpu, 1.0))
    gpu = np.where(working, shorter[device.span], 1.0)

    def change(overlay: Overlay) -> None:
        overlay.gap -= np.minimum(unknown, overlay.gap)
        overlay.tail[:] = 0.0
        overlay.gap[at_once] = 0.0
        overlay.cost[at_once] = 0.0
        overlay.waits[at_once] = False
        overlay.duration *= gpu

    return replay.gain([change])


def _late_spans(analysis: Analysis, replay: Replay) -> BOOL:
    ranks = ranks_of(analysis)
    devices = {ranks.run.device(row) for row in ranks.late}
    spans = replay.spans if replay.program else ()
    return np.array([not devices.isdisjoint(span.devices) for span in spans], bool)


def _with_larger_grids(analysis: Analysis, replay: Replay, late: BOOL) -> BOOL:
    """Which spans compute larger grids than any late one: theirs is more work."""
    run = ranks_of(analysis).run
    blocks = run.reading("blocks")
    of_device = {run.device(row): float(total) for row, total in enumerate(np.nan_to_num(blocks).sum(axis=1))}
    each = np.array([sum(of_device.get(one, 0.0) for one in span.devices) for span in replay.spans])
    return np.asarray((each > MORE_WORK * each[late].max()) & (each[late].min() > 0))
