"""What is said of a whole diagnosis: the verdict, what a finding can give, and the parts of the budget."""

from __future__ import annotations

from parsers.model import EventKind, Trace
from parsers.model.late import dataclass
from parsers.model.names.calls import error_text
from parsers.model.names.kernels import kernel_name
from parsers.model.units import duration, how_many, percent
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.sampled_stacks import most_sampled
from rules.analysis.gpu.launch_sizes import LongestKernel, longest_kernel
from rules.analysis.idle.causes import Budget, Cause, IdleTable
from rules.analysis.inference.serving import serving_of
from rules.analysis.logs.device_log import log_summary
from rules.analysis.recording.completeness import (
    completeness_of,
    ends_early,
    failed_launches,
    is_cut,
    lacks_a_part,
)
from rules.analysis.recording.plain_ranges import longest_plain_range
from rules.analysis.recording.subject import subject_of
from rules.causes import NOTEWORTHY_IDLE, computing, is_small_beside_computing, leading, limiting_kernel
from rules.causes import first_problem as first_of
from rules.diagnosis import Diagnosis
from rules.findings.base import Category, Finding, Need, Severity
from rules.losses.flight_recorders import of_flight_recorders
from rules.memory.summary import memory_of
from rules.ranking import limit_of
from rules.replay.replay import WITHOUT_TIMES
from rules.terms import MAJORITY, quoted
from rules.wording.compilations import of_compiler_log
from rules.wording.memory import peak_sentence
from rules.wording.words import Headline, listed, of_every_step, shortened, without_times

NEARLY_ALL = 0.95  # of what the GPU computes
NOTEWORTHY_RANGE = 0.05  # of the recorded time: ranges of one name that take less are not told
MAX_NAME_LENGTH = 40
MAX_NAMED = 3
BUDGET_LABELS = {
    "compute": "compute",
    "communication": "exposed communication",
    "copy": "exposed copies",
    "other": "memset and other",
    "residual": "not accounted for",
}


def first_problem(diagnosis: Diagnosis) -> Finding | None:
    """The first finding that accuses something and is not negligible."""
    return first_of(diagnosis.findings)


COPY_AGAIN = "Copy the file again, or record again and let the profiler finish writing."


def beside_the_verdict(analysis: Analysis, diagnosis: Diagnosis) -> str:
    """What the verdict leaves out: a small problem, or one of the recording; empty without any."""
    first = first_problem(diagnosis)
    if lacks_a_part(analysis.trace):
        told = (
            f" In the part that can be read: {first.headline.inside_a_sentence(first.reader)}."
            if first is not None
            else ""
        )
        return f"{COPY_AGAIN}{told}"
    if unmeasured := _not_measured(analysis.trace):
        return unmeasured
    if first is not None and is_small_beside_computing(analysis, first):
        return f"The largest other cost: {first.headline.inside_a_sentence(first.reader)}."
    of_recording = (each for each in diagnosis.findings if each.of_recording and _is_noteworthy(each))
    besides = next(
        (each for each in of_recording if each.category.accuses or _is_larger_overhead(each, first)), None
    )
    if (
        besides is None
        and subject_of(analysis) is None
        and (away := analysis.analysed.longest_set_aside) is not None
        and away.took > analysis.window_ns
    ):
        left_out = (each for each in diagnosis.findings if each.rule == "what-was-recorded" and each.evidence)
        besides = next((each for each in left_out if each.evidence[0].start == away.start), None)
    if besides is None or besides is first:
        return ""
    return f"Also: {besides.headline.inside_a_sentence(besides.reader)}."


def _is_larger_overhead(finding: Finding, first: Finding | None) -> bool:
    overhead = finding.category is Category.RECORDING_OVERHEAD
    return overhead and first is not None and finding.share > first.cost


def _is_noteworthy(finding: Finding) -> bool:
    return finding.severity in (Severity.HIGH, Severity.MEDIUM)


def verdict(analysis: Analysis, diagnosis: Diagnosis) -> str:
    """One plain sentence: what is slow, or that nothing is. Both must have been made by the same thresholds."""
    if analysis.thresholds != diagnosis.thresholds:
        raise ValueError("the analysis and the diagnosis were made with different thresholds")
    trace = analysis.trace
    if lacks_a_part(trace):
        where = "stops" if ends_early(trace) else "cannot be read"
        return f"The recording {where} in the middle: part of what ran is missing"
    first = leading(analysis, diagnosis.findings)
    bound = limit_of(diagnosis.findings)
    if first is not None:
        if first.category.accuses and is_small_beside_computing(analysis, first):
            return _computes(analysis, first)
        return _both_ways(analysis, diagnosis, first) or first.title
    if trace.kernels and not len(trace.gpu_operations):
        from rules.verdict.of_kernels import of_kernels

        return of_kernels(trace, diagnosis)
    if not len(trace.events) and trace.memory and (known := memory_of(analysis)):
        return peak_sentence(max(known, key=lambda each: each.peak_allocated))
    if trace.is_of_results:
        alone = of_the_cpu_alone(diagnosis)
        return _of_requests(trace) or (
            alone.title if alone else f"Results without a recording: {trace.tables[0].title}"
        )
    if not len(trace.gpu_operations):
        of_the_cpu = of_the_cpu_alone(diagnosis)
        beside = log_summary(trace) or of_flight_recorders(trace) or of_compiler_log(trace)
        return beside or (of_the_cpu.title if of_the_cpu else _without_operations(trace))
    told = {finding.category: finding for finding in reversed(diagnosis.findings)}
    if shows_no_run(analysis, diagnosis):
        return told[Category.WHAT_WAS_RECORDED].title
    if bound is not None:
        return bound.title
    unaccused = _mostly_one_kernel(analysis) or _largest_idle(analysis) or _communication_alone(analysis)
    return unaccused or "Nothing stands out: no check found a loss above 5 %"


def _computes(analysis: Analysis, problem: Finding) -> str:
    longest = limiting_kernel(analysis, problem)
    most = longest_kernel(analysis)
    whole = computing(analysis)
    if most is not None and most.share >= MAJORITY * whole and (problem.once or not analysis.steps_in_window):
        longest = most
    return _computes_in(whole, longest)


def _mostly_one_kernel(analysis: Analysis) -> str:
    """What a recording without steps is of, if a kernel takes most of its time; else empty."""
    most, whole = longest_kernel(analysis), computing(analysis)
    if most is None or min(most.share, whole) < MAJORITY or analysis.steps_in_window:
        return ""
    return _computes_in(whole, most)


def _computes_in(whole: float, longest: LongestKernel | None) -> str:
    text = f"The GPU computes {percent(whole)} of the time"
    if longest is None:
        return text
    if longest.share >= NEARLY_ALL * whole:
        return f"{text}, nearly all of it in {shortened(longest.name)}"
    return f"{text}, {percent(longest.share)} in {shortened(longest.name)} alone"


def _of_requests(trace: Trace) -> str:
    """What a request log alone tells; empty for other results."""
    serving = serving_of(trace)
    if serving is None or serving.ttft_ns is None:
        return ""
    half, nearly_all = (duration(round(ns)) for ns in (serving.ttft_ns.p50, serving.ttft_ns.p99))
    return (
        f"{serving.requests:,} requests: the median time to the first token is {half}, the 99th percentile "
        f"{nearly_all}"
    )


def shows_no_run(analysis: Analysis, diagnosis: Diagnosis) -> bool:
    """Whether what was recorded is a capture, first use or hardly anything: shares of its time would mislead."""
    found = any(finding.category is Category.WHAT_WAS_RECORDED for finding in diagnosis.findings)
    return found and subject_of(analysis) is not None


def of_the_cpu_alone(diagnosis: Diagnosis) -> Finding | None:
    """What is said of a recording of a CPU alone: most checks have nothing to judge then, and lack nothing."""
    return next(
        (
            each
            for each in diagnosis.findings
            if each.rule
            in (
                "cpu-recording",
                "sampled-cpu",
                "served-requests",
                "load-test",
                "inside-kernels",
                "profiled-times",
                "printed-times",
                "printed-metrics",
                "recorded-work",
            )
        ),
        None,
    )


def lacks_a_gpu(trace: Trace, diagnosis: Diagnosis) -> bool:
    """Whether all that the checks lack is a GPU: what was recorded is a CPU's, or hardly anything."""
    if len(trace.gpu_operations):
        return False
    judged = diagnosis.findings or diagnosis.quiet or trace.kernels or trace.memory or trace.is_of_results
    other = judged or trace.quality.kernels_without_times or is_cut(trace)
    return of_the_cpu_alone(diagnosis) is not None or trace.stands_beside or not other


def what_lacks_shapes(trace: Trace, diagnosis: Diagnosis) -> list[str]:
    """The checks that lack tensor shapes and no GPU, of operators that were recorded."""
    operators = EventKind.CPU_OP in trace.kinds
    return [name for name, why in diagnosis.skipped.items() if operators and why == Need.SHAPES.value]


def what_lacks_a_gpu(trace: Trace, diagnosis: Diagnosis) -> list[str]:
    """In place of the reason of every single check."""
    untimed = WITHOUT_TIMES in diagnosis.skipped.values()
    lack = "its times were not recorded" if untimed else "none was recorded"
    shapes = len(what_lacks_shapes(trace, diagnosis))
    told = [f"{how_many(shapes, 'check')} need tensor shapes, and none were recorded"] if shapes else []
    return [*told, f"{len(diagnosis.skipped) - shapes} checks need GPU activity, and {lack}"]


def gpus_that_ran(trace: Trace) -> list[int]:
    """The GPUs that ran something: one that only a log or a memory counter mentions is no idle one."""
    return [index for index in range(len(trace.devices)) if len(trace.operations_of_device(index))]


def _without_operations(trace: Trace) -> str:
    if untimed := trace.quality.gpu_work_without_times:
        return without_times(untimed)
    counted = trace.quality.kernels_without_times
    if not counted:
        if is_cut(trace):
            return "The recording stops in the middle: what can be read holds no GPU activity"
        if (failed := failed_launches(trace)).are_all:
            return f"Every kernel launch failed: {error_text(failed.counted()[0][0])}"
        launches = completeness_of(trace).launches
        made = f"{launches:,} launch{'es' if launches != 1 else ''} and no kernel"
        return f"The GPU's records are missing: {made}" if launches else _of_plain_ranges(trace)
    ran = "1 kernel ran: its" if counted == 1 else f"{counted:,} kernels ran: their"
    return f"{ran} hardware counters were recorded, but no times"


def _of_plain_ranges(trace: Trace) -> str:
    """What to say where nothing is recognised as work of a GPU, or of a CPU's operators."""
    longest = longest_plain_range(trace)
    if longest is None or longest.share < NOTEWORTHY_RANGE:
        sampled = most_sampled(trace)
        if sampled is None or sampled.share < NOTEWORTHY_RANGE:
            return "No GPU activity was recorded"
        share, function = percent(sampled.share), shortened(sampled.function, MAX_NAME_LENGTH)
        return f"No GPU activity was recorded: {share} of the CPU's samples are in {function}"
    like = f" and {longest.others} like it" if longest.others else ""
    waits = " (Horovod waits for the last rank)" if longest.name.startswith("NEGOTIATE_") else ""
    return (
        f"No GPU activity was recorded, only ranges: the busiest thread spends {percent(longest.share)} of the time in "
        f"{quoted(shortened(longest.name))}{like}{waits}"
    )


_OF_COPIES = ("copies-to-gpu", "copies-from-gpu")


def _both_ways(analysis: Analysis, diagnosis: Diagnosis, problem: Finding) -> str:
    """One sentence for copies to and from the GPU that both cost much; empty for other problems."""
    copies = [
        each for each in diagnosis.findings if each.rule in _OF_COPIES and each.severity is Severity.HIGH
    ]
    if len(copies) < 2 or problem not in copies:
        return ""
    times = diagnosis.step_times.values()
    recorded = sum(each.recorded_share for each in copies)
    share = max(
        (each.parts["copy"] / each.length_ns for each in times if each.length_ns > 0), default=recorded
    )
    both = of_every_step(analysis, min(share, 1.0))
    return Headline("Copies to and from the GPU are not overlapped", both).said(problem.reader)


def _not_measured(trace: Trace) -> str:
    """Which kernels have no time although others do, as a sentence: the report ended before they were measured."""
    missing = [each for each in trace.kernels if not each.duration_ns]
    if not missing or len(missing) == len(trace.kernels):
        return ""
    named = listed(
        sorted({shortened(kernel_name(each.name), MAX_NAME_LENGTH) for each in missing})[:MAX_NAMED]
    )
    have = "have" if len(missing) > 1 else "has"
    return (
        f"{len(missing)} of {len(trace.kernels)} profiled kernels {have} neither a time nor throughput, and nothing is "
        f"said of {'them' if len(missing) > 1 else 'it'}: {named}."
    )


def _largest_idle(analysis: Analysis) -> str:
    """What to say of a GPU that idles although no rule accuses anything; empty where it hardly does."""
    budgets = [analysis.budgets(device) for device in analysis.active_devices]
    budget = max((each for each in budgets if each.window_ns), key=_idle_share, default=None)
    if budget is None or _idle_share(budget) < NOTEWORTHY_IDLE:
        return ""
    cause = max(budget.idle_ns, key=lambda each: budget.idle_ns[each])
    return f"The GPU idles {percent(_idle_share(budget))} of the time: {analysis.idle.label(cause)}"


def _communication_alone(analysis: Analysis) -> str:
    """What to say of GPUs that send and compute nothing, which no rule calls a loss; empty where they compute."""
    budgets = [analysis.budgets(device) for device in analysis.active_devices]
    if not budgets or any(each.compute_ns for each in budgets):
        return ""
    most = max(budgets, key=lambda each: each.exposed_communication_ns)
    part = most.exposed_communication_ns / most.window_ns if most.window_ns else 0.0
    if part < NOTEWORTHY_IDLE:
        return ""
    return f"Only communication was recorded: {percent(part)} of the time"


def _idle_share(budget: Budget) -> float:
    return budget.total_idle_ns / budget.window_ns if budget.window_ns else 0.0


@dataclass(frozen=True, slots=True)
class TimeParts:
    """(key, label, ns) of every part of ``whole_ns``; ``of`` says what that is where it is not all recorded time."""

    parts: list[tuple[str, str, int]]
    whole_ns: int
    of: str = ""


def time_parts(analysis: Analysis, diagnosis: Diagnosis, device: int) -> TimeParts:
    """Where the time of a GPU goes: of a step, without the recorder where that is known and makes a difference."""
    step = diagnosis.step_times.get(device)
    if step is None or not step.is_told:
        budget, steps = analysis.budgets(device), analysis.steps_in_window
        told = budget_parts(budget, analysis.idle)
        if not steps:
            return TimeParts(told, budget.window_ns)
        whole = round(budget.window_ns / steps)
        a_step = [(key, label, round(ns / steps)) for key, label, ns in told if 2 * ns > steps]
        return TimeParts(a_step, whole, f"a step of {duration(whole)}")
    parts = [(key, _label(key, analysis.idle), round(ns)) for key, ns in step.parts.items()]
    by_size = sorted(parts[4:-1], key=lambda part: -part[2])
    what = "a step of " if analysis.steps_in_window else ""
    of = f"{what}{duration(step.length_ns)} without {duration(step.recorder_ns)} of profiler overhead"
    told = [part for part in (*parts[:4], *by_size, parts[-1]) if part[2] > 0]
    return TimeParts(told, round(step.length_ns), of)


def _label(key: str, idle: IdleTable) -> str:
    cause = next((each for each in Cause if each.key == key), None)
    return idle.label(cause) if cause is not None else BUDGET_LABELS[key]


def budget_parts(budget: Budget, idle: IdleTable) -> list[tuple[str, str, int]]:
    """(key, label, ns) of every part that is not zero, in the order in which it is drawn."""
    parts = [
        ("compute", BUDGET_LABELS["compute"], budget.compute_ns),
        ("communication", BUDGET_LABELS["communication"], budget.exposed_communication_ns),
        ("copy", BUDGET_LABELS["copy"], budget.exposed_copy_ns),
        ("other", BUDGET_LABELS["other"], budget.other_ns),
    ]
    by_size = sorted(Cause, key=lambda cause: -budget.idle_ns.get(cause, 0))
    parts += [(cause.key, idle.label(cause), budget.idle_ns.get(cause, 0)) for cause in by_size]
    parts.append(("residual", BUDGET_LABELS["residual"], budget.residual_ns))
    return [part for part in parts if part[2] > 0]


def share_of(ns: int, window: int) -> str:
    """A part of the window as a percentage."""
    return percent(ns / window if window else 0.0)
