"""The CPU waits for the GPU inside the step, and then the GPU waits for the CPU."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import I64, EventKind
from parsers.model.names.calls import Call
from rules.analysis.analysis import Analysis
from rules.analysis.gpu.inside_window import api_calls
from rules.analysis.idle.blocking import read_back_calls, scalar_read_backs
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Finding, Need, Rule, rule
from rules.losses.lost_time import IdleTime, idle_finding
from rules.remedies.waiting import fewer_waits
from rules.terms import CulpritKind, Unit, threshold
from rules.wording.words import counted, for_native, listed, ours, share, without_stacks

MIN_SHARE = threshold(
    "synchronisation",
    "blocking calls are reported from this share of the analysed time",
    Unit.SHARE,
    0.002,
    least=0.0001,
    most=0.5,
    source="a blocking call in every step is worth reporting even if it costs little",
)

MIN_CULPRIT_SHARE = 0.0005  # of the window: less is not worth a word

_SCALARS = ("aten::_local_scalar_dense",)
_SIZED = (
    "aten::nonzero",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_consecutive",
    "aten::unique_dim",
)
_SEARCHES = ("search for values (nonzero, x[mask])", "searches for values (nonzero, x[mask])")


@rule
class SynchronisationInStep(Rule):
    id = "synchronisation-in-step"
    category = Category.SYNCHRONIZATION
    needs = frozenset({Need.GPU_EVENTS, Need.LAUNCH_LINKS, Need.API_CALLS})
    explanation = """
What it found
    The CPU stops and waits until the GPU has finished: torch.cuda.synchronize(), .item(), .cpu(), printing a
    tensor, an if on a tensor, nonzero, a blocking copy.

Why it costs time
    While the CPU waits it launches nothing, so the GPU's queue runs empty. When the wait ends, the GPU idles until
    the CPU has launched new work. The wait itself costs nothing: the time after it does.

How it decides
    It counts the time the GPU idles while the launching thread is inside a blocking call or an operator that reads a
    value back. Time after the call counts too, to the extent that the CPU had been ahead when it blocked: it would
    have launched that much sooner. Time in which the GPU was busy anyway does not count. If no operators were
    recorded, a copy of at most 16 bytes from the GPU that the CPU waits for counts as a scalar read-back.

What to try
    Read values back rarely, many at once, and late. Keep conditions on the GPU (torch.where). Time with CUDA events
    instead of synchronising. Copy to pinned memory with non_blocking=True and wait for an event.

When it is wrong
    If the program launches slowly anyway, removing the synchronisation saves only the call's own time, which is what
    is counted here.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        waiting = IdleTime(analysis, Cause.SYNCHRONIZATION)
        if share(analysis, waiting.ns) < analysis.thresholds[MIN_SHARE]:
            return
        culprit = waiting.culprit
        calls = len(_outside_read_backs(analysis, waiting.device))
        copied = len(_scalars_without_operators(analysis, waiting.device))
        copies = culprit.kind is CulpritKind.CALL and "Memcpy" in culprit.name
        read_back = culprit.is_in(CulpritKind.OPERATOR, "aten::") or copies or 2 * copied > calls > 0
        yield idle_finding(
            self,
            waiting,
            what="Waiting for results stalls the GPU",
            account=_explanation(analysis, waiting, copied, calls - copied),
            remedy=fewer_waits(
                trace,
                counts_rows=any(name.startswith(_SIZED) for name in culprit.names),
                reads_values=read_back,
            ),
            unknown=(
                for_native(ours("Which line calls it: record backtraces ($RecordBacktraces).")),
                without_stacks(trace, "Which line calls it: record with stacks (with_stack=True)."),
            ),
        )


def _explanation(analysis: Analysis, waiting: IdleTime, copied: int, calls: int) -> str:
    """``copied``: numbers copied and waited for without an operator that says so; ``calls``: others that block."""
    read = _operators(analysis, waiting.device, _SCALARS)
    items = _that_wait(analysis, waiting.device, read)
    sized = _operators(analysis, waiting.device, _SIZED)
    scalars = len(items) + copied
    found = [counted(analysis, scalars, "scalar read-back")] if scalars else []
    if len(sized):
        found.append(counted(analysis, len(sized), *_SEARCHES))
    if calls > 0:
        found.append(counted(analysis, calls, f"{'other ' if found else ''}blocking call"))
    told = [
        each
        for number, each in enumerate(waiting.blames[:3])
        if not number or share(analysis, each.ns) >= MIN_CULPRIT_SHARE
    ]
    if any(each.culprit.kind is CulpritKind.CALL and "Memcpy" in each.culprit.name for each in told):
        copying = len(api_calls(analysis, waiting.device, Call.BLOCKING_COPY))
        found += [counted(analysis, copying, "blocking copy", "blocking copies")] if copying else []
    text = (
        f"The CPU waits for the GPU because of {listed(found) or 'blocking copies'}; afterwards the GPU idles "
        f"until new work arrives: {waiting.part}."
    )
    if spare := len(read) - len(items):
        others = counted(analysis, spare, "other value" if len(items) else "value", verb="lie")
        text += f" {others} in the CPU's memory, where reading costs no wait."
    where = [
        f"{each.culprit.said} ({waiting.extent.told(each.ns)}, {each.count:,} gap{'s' if each.count != 1 else ''})"
        for each in told
    ]
    return f"{text} Where{waiting.on_worst}: {listed(where)}."


def _operators(analysis: Analysis, device: int, names: tuple[str, ...]) -> I64:
    """The operators of these names inside the window, by the threads that drive a device."""
    trace = analysis.trace
    t0, t1 = analysis.window
    parts = [np.empty(0, np.int64)]
    wanted = np.array([index for index, text in enumerate(trace.strings) if text in names], np.int32)
    for thread in analysis.threads.drivers(device)[0]:
        events = analysis.threads.events(thread)
        events = trace.events.only(events, EventKind.CPU_OP)
        events = events[np.isin(trace.events.name[events], wanted)]
        parts.append(events[(trace.events.start[events] >= t0) & (trace.events.start[events] < t1)])
    return np.concatenate(parts)


def _that_wait(analysis: Analysis, device: int, operators: I64) -> I64:
    """Those in which the CPU blocks: values that lie in the CPU's memory are read without.

    All, where no blocking call was recorded at all.
    """
    events = analysis.trace.events
    calls = np.sort(
        events.start[api_calls(analysis, device, Call.SYNCHRONIZE, Call.COPY, Call.BLOCKING_COPY)]
    )
    first, last = (np.searchsorted(calls, edge[operators]) for edge in (events.start, events.end))
    return operators[last > first] if len(calls) else operators


def _outside_read_backs(analysis: Analysis, device: int) -> I64:
    """Blocking calls that no operator makes to read a value back."""
    calls = api_calls(analysis, device, Call.SYNCHRONIZE)
    own = np.ones(len(calls), bool)
    for activity, mine in analysis.threads.by_thread(calls):
        inside = activity.read_backs.at(analysis.trace.events.start[calls[mine]])
        own[mine] = inside < 0
    return calls[own]


def _scalars_without_operators(analysis: Analysis, device: int) -> I64:
    """Copies of a single number that are waited for, in a recording that has no operators to say so."""
    trace, threads = analysis.trace, analysis.threads
    if len(trace.events.of_kind(EventKind.CPU_OP)):
        return np.empty(0, np.int64)
    calls = scalar_read_backs(trace, read_back_calls(trace, threads, threads.drivers(device)[0]))
    t0, t1 = analysis.window
    return calls[(trace.events.end[calls] > t0) & (trace.events.start[calls] < t1)]
