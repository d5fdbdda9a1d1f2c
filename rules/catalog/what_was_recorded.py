"""The recording shows no run: lost records, a capture, first use, hardly anything; or it begins with one long wait."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from parsers.model import Attribute, EventKind
from parsers.model.names.calls import error_text
from parsers.model.units import duration, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.arithmetic.intervals import clip, length, pairs, union
from rules.analysis.names.software import is_serving_engine
from rules.analysis.recording.completeness import failed_launches, gpus_missing
from rules.analysis.recording.subject import MIN_OPERATIONS, Subject, SubjectKind, subject_of
from rules.analysis.recording.time_units import other_units
from rules.analysis.steps.analysed_time import SetAside
from rules.findings.base import Category, Evidence, Finding, Need, Remedy, Rule, remedy, rule
from rules.losses.lost_time import any_stream, evidence_of
from rules.remedies.engines import later_steps
from rules.terms import MAJORITY, NEARLY_ALL, NOBODY, Culprit, CulpritKind
from rules.wording.words import Headline, Words, for_pytorch, listed, ours, shortened

MAX_NAMED = 3
MIN_LONG_WAIT_NS = 100_000_000
NOTEWORTHY_WAIT = 0.05  # of the analysed time
MIN_TELLING = 0.1  # of the time before the GPU's first work: what one event must take to be named for it

_CODE = """schedule = torch.profiler.schedule(wait=5, warmup=2, active=5)   # neither start-up nor a single step
with torch.profiler.profile(schedule=schedule, on_trace_ready=write) as prof:
    for batch in loader:
        run(batch)
        prof.step()"""

_READ_IN_ONE_PIECE = remedy(
    ours("Move the results in one piece before the CPU reads them: $cudaMemPrefetchAsync to the CPU."),
    "If the CPU only checks them, check a sample of them, or check on the GPU.",
    code="""kernel<<<blocks, threads, 0, stream>>>(data, count);
cudaMemPrefetchAsync(data, bytes, cudaCpuDeviceId, stream);
cudaStreamSynchronize(stream);                               // then read""",
)

_CODE_OR_UNKNOWN = ("What the CPU did was not recorded", "The CPU runs code of its own")


@rule
class WhatWasRecorded(Rule):
    id = "what-was-recorded"
    category = Category.WHAT_WAS_RECORDED
    needs = frozenset({Need.GPU_OPERATIONS})
    explanation = """
What it found
    The recording does not show the program at work: parts of it are in different units of time, GPU records are
    missing, every launch failed, or it shows a graph being captured, first use, or only a few operations. Or it begins
    with one long wait, and what matters comes later.

Why it costs time
    It does not, or only once. But shares of such a recording mean nothing for a run.

How it decides
    Another unit: calls, operators or readings follow the same course as the GPU's operations in a thousand times the
    time, or in a thousandth or a millionth of it; a fifth of the kernels or launches take less than 100 ns, or run on
    over eight later ones; durations of most names fall into two kinds a thousand times apart; or a rank's kernels take
    a thousand times as long as those on the others. Failed launches: all returned an error, and no kernel ran. Missing
    records: of at least 100 launches made while the GPU was recorded, fewer than 70 % have an operation; or at least 3
    launches were made and no kernel is there at all; or of at least 100 numbers with which the driver counts its
    kernels, fewer than half are present; or XLA starts its programs on more GPUs than have kernels here. A sample: the
    driver's call numbers are mostly 25 or more apart, or most operations state a wait of less than half the time since
    the one before them.
    One by one: the file holds counters of kernels, for which nvprof runs each kernel alone, and the GPU does not fill
    the time.
    Waiting in GPU times: the profiler timed the GPU between events, and the GPU did not work for another tenth of the
    time after the CPU. A capture: at least half of the time lies between the calls that begin and end it, or in a
    region that says so; a fifth is enough if a fifth of all launches are recorded in it. First use: for at least half
    of the time, or of the time without the waits before a twentieth of the GPU's computing is done, the GPU idles in
    calls that are made for the first time and take more than 1 ms, or that load code; or one of 100 ms or more takes
    nine tenths of the time, in an operator or region that holds what follows as well. If such calls take 15 % of the
    time and most of the kernels' time follows, the recording begins with first use, and what follows is judged where
    the GPU works for half of it or each kernel comes ten times on average. Too little: fewer than 20 operations on
    the GPU, or fewer than 100 where 10 kernels or more run less than 3 times each on average; they are in no steps,
    and do not fill the time, or with less than 5 short ones or 200 us. The same goes for fewer than 20 kernels that
    run less than 3 times each, where the GPU works for less than 1 % of the time. If one wait of at least 100 ms takes
    nine tenths of it, that is told. Only copies: not one kernel, and
    the copies take less than half of the time. Only communication: all kernels are collectives, they leave 10 % of
    the time or more free, and are in no steps.
    A long wait: nothing repeats, the CPU waits in calls for at least a fifth of the time, or anything else takes 95 %
    of it, and hardly any work comes before it. Nothing to do at first: nothing repeats, and more time passes before
    the GPU's first work than after it, and at least 10 ms. Made or read by the CPU: nothing repeats, only pages of
    unified memory move before the first kernel, or after the last one, and for half of that time nothing moves and the
    CPU is in no call.

What to try
    Record several steps or requests after start-up.

When it is wrong
    If start-up itself is what you want to make faster: then look at the calls it names.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        subject = subject_of(analysis)
        if subject is not None:
            yield self._no_run(analysis, subject)
            return
        for waited in (analysis.analysed.set_aside, analysis.analysed.read_later):
            if waited is not None and waited.took >= NOTEWORTHY_WAIT * analysis.window_ns:
                yield self._wait(analysis, waited)

    def _no_run(self, analysis: Analysis, subject: Subject) -> Finding:
        trace = analysis.trace
        headline, account, remedies = _SAID[subject.kind](analysis, subject)
        return self.finding(
            analysis,
            headline=headline,
            account=account,
            remedy=Remedy(remedies, "" if is_serving_engine(trace) else for_pytorch(_CODE)),
            culprit=NOBODY,
            evidence=evidence_of(trace, subject.events[:5]),
            intervals=pairs(subject.intervals),
            of_recording=True,
        )

    def _wait(self, analysis: Analysis, waited: SetAside) -> Finding:
        trace = analysis.trace
        device = analysis.active_devices[0]
        took = duration(waited.took)
        call = trace.name(waited.call) if waited.call >= 0 else ""
        inside = trace.events.duration[waited.call] if waited.call >= 0 else 0
        tells = inside >= MIN_TELLING * waited.took  # else it explains nothing
        names = bool(call) and (tells or not waited.before_work)
        waits = bool(call) or waited.before_work or waited.in_code or waited.after_work
        kind = "one long wait" if waits else "older work"
        what: Words = (
            "Until then the CPU starts up, or makes the first batch"
            + (f": {shortened(call, 80)} alone takes {duration(int(inside))}" if names else "")
            if waited.before_work
            else "The GPU has no more work. The CPU reads what it computed, and each page of unified memory moves as "
            "it is touched"
            if waited.after_work
            else f"The CPU is in calls that are slow the first time, {call} above all"
            if waited.starts_up
            else f"The CPU is in slow calls, {call} above all"
            if call
            else f"{_CODE_OR_UNKNOWN[analysis.trace.capture.has_api_calls]}, hardly any GPU work comes before it, and "
            "nearly all after it"
            if waited.in_code
            else "The first operation had been launched long before: the GPU was busy with earlier work"
        )
        return self.finding(
            analysis,
            headline=Headline(
                "The recording begins with first use"
                if waited.starts_up
                else "The GPU has nothing to do at first"
                if waited.before_work
                else "The CPU reads results after the last kernel"
                if waited.after_work
                else "The recording begins with one long wait",
                took,
            ),
            account=what + f". These {took} are left out; only the {duration(analysis.window_ns)} "
            f"{'before' if waited.after_work else 'after'} them are judged.",
            remedy=_READ_IN_ONE_PIECE
            if waited.after_work
            else remedy(
                "Run a few warm-up steps before the recording begins."
                if waited.starts_up
                else "If the wait occurs in every batch, record several of them: then it counts.",
                *later_steps(analysis.trace),
                code="" if is_serving_engine(trace) else for_pytorch(_CODE),
            ),
            culprit=Culprit(CulpritKind.CALL, call) if names else NOBODY,
            device=device,
            evidence=(
                Evidence(any_stream(trace, device), waited.start, waited.end, kind),
                *(evidence_of(trace, np.array([waited.call])) if names else ()),
            ),
            of_recording=True,
        )


def _too_little(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    kernels = len(analysis.trace.events.of_kind(EventKind.KERNEL, EventKind.GRAPH))
    count, what = (
        (kernels, "kernel")
        if subject.operations >= MIN_OPERATIONS > kernels
        else (subject.operations, "GPU operation")
    )
    ran = f"{count} {what}{'s' if count != 1 else ''}"
    return (
        Headline("Too little was recorded to judge", ran),
        f"The recording holds {ran}, and nothing repeats: shares of its {duration(analysis.window_ns)} would mean "
        "nothing for the program." + _one_long_wait(analysis),
        ("Record several steps or requests, after the first ones.", *later_steps(analysis.trace)),
    )


def _one_long_wait(analysis: Analysis) -> str:
    """Which wait takes nearly all of the time, and what the CPU does in it; empty where none does."""
    trace, (start, end) = analysis.trace, analysis.window
    starts, ends = union(*trace.events.spans(trace.gpu_operations))
    pauses = starts[1:] - ends[:-1]
    if not len(pauses) or pauses.max() < max(NEARLY_ALL * (end - start), MIN_LONG_WAIT_NS):
        return ""
    at = int(pauses.argmax())
    calls = clip(
        union(*trace.events.spans(trace.events.of_kind(EventKind.API))), int(ends[at]), int(starts[at + 1])
    )
    told = f" Nearly all of it is one wait of {duration(int(pauses[at]))}, in which the GPU has nothing to do"
    if not trace.capture.has_api_calls:
        return f"{told}."
    inside = length(calls) >= MAJORITY * pauses[at]
    return f"{told} and the CPU {'is in calls of the GPU' if inside else 'runs code of its own'}: look there first."


def _only_copies(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    trace = analysis.trace
    copied = int(trace.attribute(Attribute.BYTES, trace.gpu_operations).clip(0).sum())
    filled = f"copied and filled {size(copied)}" if copied else "only copied"
    return (
        Headline("No kernel was recorded, only copies", f"{subject.operations:,} of them"),
        f"In {duration(analysis.window_ns)} the GPU {filled}, and no kernel was recorded: this is a "
        "program that starts, one that ended before its work began, or one whose launches were not recorded.",
        ("Record longer, or begin after start-up.", *later_steps(trace)),
    )


def _only_collectives(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    sent = f"{subject.operations:,} collective{'s' if subject.operations != 1 else ''}"
    return (
        Headline("Only communication was recorded", sent),
        f"The recording holds {sent} and no kernel that computes: this is a test of the links, a start-up, or a part "
        f"of a run. What lies between them in these {duration(analysis.window_ns)} says nothing about a program.",
        (
            "Record steps that compute as well, to see what communication costs them.",
            "If the links are what you test, repeat each collective many times, and look at the last ones.",
        ),
    )


def _capture(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    noted = f" Here {subject.launches:,} launches were recorded" if subject.launches else ""
    ran = f" and {subject.operations:,} operations ran." if noted else ""
    return (
        Headline(
            ours("The recording shows a $CUDA graph being captured"), f"{percent(subject.share)} of the time"
        ),
        ours("While a $CUDA graph is being captured, launches are recorded into it and not run.")
        + noted
        + ran
        + " It happens once, at start-up, and says nothing about how fast the graph runs later.",
        (
            "Record requests or steps after start-up: then the graph is replayed.",
            "If start-up takes too long, capture fewer sizes.",
        ),
    )


def _first_use(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    trace = analysis.trace
    took: dict[str, int] = {}
    for event in subject.events.tolist():
        spent = int(trace.events.end[event] - trace.events.start[event])
        took[trace.name(event)] = took.get(trace.name(event), 0) + spent
    named = sorted(took, key=lambda name: -took[name])[:MAX_NAMED]
    calls = listed([f"{name} ({duration(took[name])})" for name in named])
    return (
        Headline("Only first use was recorded", f"{percent(subject.share)} of the time"),
        f"{_calls_made_first(len(subject.events))}: creating a context, loading kernels or allocating memory. The "
        f"longest: {calls}. This happens once, and the GPU idles in and around it, and before its first work.",
        ("Run a few warm-up steps before the recording begins.", *later_steps(analysis.trace)),
    )


def _calls_made_first(count: int) -> str:
    return f"{count:,} call{'s take' if count != 1 else ' takes'} long because it is the first time"


def _lost_records(_: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    return (
        Headline("GPU records are missing", f"{percent(subject.share)} of the launches"),
        f"{subject.launches:,} launches made while the GPU was recorded have no operation, and "
        f"{subject.operations:,} operations are there: the profiler dropped its records, or they were removed from "
        "the file. The time between the remaining ones is not idle time, so no conclusions are drawn from it.",
        (
            "Record fewer steps, or record without stacks and shapes, so that everything fits into the profiler's "
            "buffers.",
            "Copy or export the recording again, if part of the file was lost on the way.",
        ),
    )


_CHECK_THE_LAUNCH = "Check the launch's grid, block and shared memory: a block has at most 1,024 threads."
_BUILD_FOR_THIS_GPU = "Compile for the GPU that runs the program: nvcc -arch=native."
_FIND_THE_ACCESS = "Run the program under compute-sanitizer: it names the kernel and the line at fault."
_FEWER_RESOURCES = "Use fewer threads per block, or limit the kernel's registers: __launch_bounds__(threads)."
_AFTER_ERRORS = {
    1: _CHECK_THE_LAUNCH,
    2: "Allocate less memory on the GPU, or free some before the launch.",
    7: _FEWER_RESOURCES,
    8: _BUILD_FOR_THIS_GPU,
    9: _CHECK_THE_LAUNCH,
    48: _BUILD_FOR_THIS_GPU,
    77: _FIND_THE_ACCESS,
    98: _BUILD_FOR_THIS_GPU,
    209: _BUILD_FOR_THIS_GPU,
    222: "The driver is older than the CUDA toolkit: update the driver, or use an older toolkit. Or compile for this "
    "very GPU, which leaves the driver nothing to compile: nvcc -arch=native.",
    700: _FIND_THE_ACCESS,
    701: _FEWER_RESOURCES,
    719: _FIND_THE_ACCESS,
}


def _failed_launches(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    counted = failed_launches(analysis.trace).counted()
    with_codes = listed([f"{count:,} with {error_text(code)}" for code, count in counted[:MAX_NAMED]])
    all_of_them = f"All {subject.launches:,} launches" if subject.launches > 1 else "The only launch"
    how = with_codes if len(counted) > 1 else f"with {error_text(counted[0][0])}"
    return (
        Headline("Every kernel launch failed", error_text(counted[0][0])),
        f"{all_of_them} failed{':' if len(counted) > 1 else ''} {how}. No kernel ran, so there is nothing to make "
        "faster yet.",
        (
            *dict.fromkeys(_AFTER_ERRORS[code] for code, _ in counted if code in _AFTER_ERRORS),
            "Check cudaGetLastError() after each launch, so that the program stops at the first error.",
        ),
    )


def _lost_gpus(analysis: Analysis, _: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    missing, started_on = gpus_missing(analysis.trace)
    return (
        Headline("GPU records are missing", f"{missing} of {started_on} GPUs"),
        f"The CPU starts its programs on {started_on} GPUs, and the file holds kernels of only "
        f"{started_on - missing}. What the others did is not known, and the GPUs wait for one another, so no "
        "conclusions are drawn from what is left.",
        (
            "Record a step or two only: the profiler keeps a limited number of events for all GPUs together.",
            "Copy the recording again, if part of it was lost on the way.",
        ),
    )


def _other_unit(analysis: Analysis, _: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    found = other_units(analysis.trace)
    by = f", by a factor of about 10^{abs(found[0].decades)}" if found[0].decades else ""
    return (
        Headline("Part of this recording is in another unit of time", found[0].part),
        f"{listed([each.part for each in found[:MAX_NAMED]])} {'do' if len(found) > 1 else 'does'} not fit "
        f"{found[0].than}{by}: some times are in ns, us or ms while the others are in another unit. No time between "
        "them can be trusted, so no conclusions or predictions are drawn from them.",
        (
            "Open the recording as the profiler wrote it, before it was converted or merged.",
            "If your own program wrote it, use one unit for all times: microseconds in Chrome's JSON, nanoseconds "
            "in Nsight Systems exports.",
        ),
    )


def _waits_included(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    ran = f"{subject.operations:,} GPU operation{'s' if subject.operations != 1 else ''}"
    return (
        Headline("GPU times include waiting for the CPU", f"all of {ran}"),
        "This profiler timed the GPU between two events around each operator, and the GPU was done when the CPU was: "
        "it may have waited inside every operator, so nothing tells how long the kernels took, or which of the two is "
        f"the limit in these {duration(analysis.window_ns)}.",
        (
            "Record again with torch.profiler of PyTorch 1.8.1 or later, or with nsys profile --trace=cuda,nvtx: "
            "both time the kernels themselves.",
        ),
    )


def _sample(analysis: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    before = analysis.trace.quality.operations_missing_before
    told = (
        f"By their own account {before:,} of the {subject.operations:,} operations waited much less than the time "
        "since the one before them: others ran there, which are missing."
        if before
        else "The driver numbers all calls, and judging by the remaining numbers most are missing; so are their "
        f"operations, of which {subject.operations:,} are there."
    )
    return (
        Headline(
            "The recording is a sample", f"most of its {'operations' if before else 'calls'} were removed"
        ),
        f"{told} The time between these is not idle time, so no conclusions are drawn from it.",
        ("Open the recording as the profiler wrote it, before events were filtered or sampled.",),
    )


def _one_by_one(_: Analysis, subject: Subject) -> tuple[Headline, Words, tuple[Words, ...]]:
    ran = f"{subject.operations:,} GPU operation{'s' if subject.operations != 1 else ''}"
    return (
        Headline("Kernels ran one by one for their counters", ran),
        "To read counters, the profiler ran each kernel alone, maybe several times: how long each takes can be "
        "compared, but the time between them is the profiler's, so no conclusions are drawn from it.",
        ("Record the program without counters to see why its GPU idles: nsys profile --trace=cuda,nvtx.",),
    )


_SAID = {
    SubjectKind.OTHER_UNIT: _other_unit,
    SubjectKind.SAMPLE: _sample,
    SubjectKind.WAITS_INCLUDED: _waits_included,
    SubjectKind.FAILED_LAUNCHES: _failed_launches,
    SubjectKind.LOST_RECORDS: _lost_records,
    SubjectKind.LOST_GPUS: _lost_gpus,
    SubjectKind.TOO_LITTLE: _too_little,
    SubjectKind.ONLY_COPIES: _only_copies,
    SubjectKind.ONLY_COLLECTIVES: _only_collectives,
    SubjectKind.ONE_BY_ONE: _one_by_one,
    SubjectKind.GRAPH_CAPTURE: _capture,
    SubjectKind.FIRST_USE: _first_use,
}
