"""Results that end a request are read while the GPU works on the next one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import BOOL, Attribute, CopyKind, derived
from parsers.model.names.per_name import named
from rules.analysis.analysis import Analysis
from rules.analysis.recording.training import is_training
from rules.findings.category import Category
from rules.fixes.base import Proposal, fix, remedy
from rules.fixes.changes import copies, of_nodes, without_waiting
from rules.fixes.counted_rows import SMALL_BYTES
from rules.losses.owners import place_of
from rules.replay.overlay import Overlay
from rules.replay.replay import Replay, replay_of
from rules.replay.surroundings import surroundings_of
from rules.wording.words import for_pytorch

ONE_VALUE = 8  # bytes: what is read back to decide something is no larger
MIN_STEPS = 3
MAX_BETWEEN = 4  # calls between two copies of the same result: it is prepared for the copy
MAX_BETWEEN_NS = 20_000.0  # on the GPU
MIN_GAIN = 1.03
_DECIDES = ("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal")

_CODE = """host = torch.empty(results.shape, dtype=results.dtype, pin_memory=True)
host.copy_(results, non_blocking=True)
done = torch.cuda.Event()
done.record()
launch(next_request)          # before this one's results are needed
done.synchronize()            # waits for this request only
answer(host)"""


@fix
class ReadResultsLater:
    """The one place of each request, without training, at which the CPU waits for what was computed."""

    id = "read-results-later"
    explanation = """
When it applies
    Nothing is trained, three or more steps each wait at one place only, and read several values there: the result
    leaves the GPU. That cannot be taken away. Operators must be recorded: reading a single value is no result.

What is changed in the replay
    Nothing waits there, as if the next request was launched before. At least, nothing changes.

What makes it more or less
    Whether the next request is there before this one is answered.
"""

    def proposals(self, analysis: Analysis, replay: Replay) -> Iterable[Proposal]:
        nodes = result_reads(analysis)
        waits = nodes & (replay.waits.target >= 0)
        if not waits.any() or replay.gain([without_waiting(waits)]) < MIN_GAIN:
            return
        place = place_of(analysis, nodes.astype(np.float64))
        yield Proposal(
            title=f"Read the results of a request{f' in {place}' if place else ''} while the next one runs",
            categories=(Category.SYNCHRONIZATION,),
            culprit="results",
            remedy=remedy(
                "The results have to leave the GPU: this wait can be hidden behind the next request, not removed.",
                for_pytorch(
                    "Copy them into pinned memory with non_blocking=True, launch the next request, and wait for the "
                    "copy alone (torch.cuda.Event) before they are used."
                ),
                "Where requests come one by one, make the GPU's work of a request shorter instead.",
                code=for_pytorch(_CODE),
            ),
            expected=without_waiting(waits),
            low=_unchanged,
            depends_on="if the next request is there before this one is answered",
            redesign=True,
        )


@derived
def result_reads(analysis: Analysis) -> BOOL:
    """The calls that read what a request computed, where each step of a program that trains nothing does so once.

    None where steps wait at several places: the values that are read there decide what comes next.
    """
    replay = replay_of(analysis)
    host, device = replay.host, replay.device
    none = np.zeros(len(host), bool)
    if replay.steps < MIN_STEPS or len(replay.spans) > 1 or is_training(analysis):
        return none
    size = analysis.trace.attribute(Attribute.BYTES, device.event)
    reads = of_nodes(replay, copies(replay, CopyKind.D2H) & (size > ONE_VALUE) & (size <= SMALL_BYTES))
    waits = replay.waits.target >= 0
    around = surroundings_of(analysis)
    operator = around.read_back
    known = np.flatnonzero(waits & (operator >= 0))
    decides = none.copy()
    decides[known] = named(analysis.trace, operator[known], _DECIDES.__contains__)
    at = np.flatnonzero(waits | reads)
    # where no operators were recorded, nobody knows whether the program only hands on what it reads
    if not reads.any() or (decides & waits).any() or (reads & (around.operator < 0)).any():
        return none
    work = np.cumsum(np.bincount(device.launch, device.duration * ~reads[device.launch], minlength=len(host)))
    between = (np.diff(at) > MAX_BETWEEN) | (np.diff(work[at]) > MAX_BETWEEN_NS)
    apart = np.append(True, between | (np.diff(host.thread[at]) != 0))
    group = np.cumsum(apart) - 1
    reading = np.bincount(group, reads[at]) > 0
    # the first and the last step may begin or end in the middle of a group
    if len(reading) > replay.steps + 1 or np.count_nonzero(~reading) > 1:
        return none
    found = none.copy()
    found[at[reading[group]]] = True
    return found


def _unchanged(_: Overlay) -> None:
    """As it is."""
