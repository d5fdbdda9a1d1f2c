"""The first recorded steps pay for the profiler's start, or are warm-up, and do not represent the run."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration, percent, three_digits
from rules.analysis.analysis import Analysis
from rules.analysis.names.software import is_serving_engine
from rules.findings.base import Category, Finding, Rule, Severity, remedy, rule, severity_of_once
from rules.losses.warm_up import WarmUp, step_evidence, warm_up
from rules.remedies.engines import later_steps
from rules.terms import MIN_SHARE, Culprit, CulpritKind
from rules.wording.words import (
    Headline,
    Words,
    for_jax,
    for_native,
    for_pytorch,
    listed_words,
    ours,
    without_stacks,
)

_START_CODE = """\
schedule = torch.profiler.schedule(wait=1, warmup=2, active=5)   # warmup: recorded, then thrown away"""


@rule
class SlowFirstStep(Rule):
    id = "slow-first-step"
    category = Category.RECORDING_OVERHEAD
    explanation = """
What it found
    The first recorded step is slower than the later ones, although the program had run steps before it.

Why it costs time
    It costs nothing without the profiler, which sets up buffers and drains the GPU when it starts.

How it decides
    Leading steps that take more than {warm-up-step} times the median of the later half, whose number is not 0 and
    which contain neither compilation nor kernel loading. They are left out of all other findings. Where they take more
    than five times as long and the GPU computes nearly all the time, it is other work, and costs nothing either. Where
    nothing of the CPU was recorded, it is information: the step may be other work.

What to try
    Start the profiler a step or two earlier.

When it is wrong
    If that step did something special, such as an evaluation or a checkpoint.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        found = warm_up(analysis)
        if (
            found is None
            or found.starts_up
            or found.extra_ns < analysis.thresholds[MIN_SHARE] * found.recorded_ns
        ):
            return
        slowest, capture = found.slowest, analysis.trace.capture
        seen = capture.has_cpu_events or capture.has_api_calls
        if found.works:
            yield self._of_other_work(analysis, found)
            return
        text: Words = (
            f"{slowest.name} takes {duration(slowest.duration)}, "
            f"{three_digits(slowest.duration / max(found.usual_ns, 1))} times a "
            f"steady step ({duration(found.usual_ns)}), right after the recording began."
        )
        if found.contains:
            text += " It contains " + listed_words(found.contains) + "."
        if not seen:
            text += " What the CPU did meanwhile was not recorded: it may be other work."
        yield self.finding(
            analysis,
            severity=None if seen else Severity.INFO,
            headline=Headline(
                "The first recorded step is slow",
                f"{three_digits(slowest.duration / max(found.usual_ns, 1))} times the others",
            ),
            account=text + " It is left out of the other findings.",
            remedy=remedy(
                "Start recording a step or two before the steps that matter.",
                code=for_pytorch(_START_CODE + ours("$StartTheRecorder")),
            ),
            ceiling_ns=found.extra_ns,
            window_ns=found.recorded_ns,
            culprit=Culprit(CulpritKind.STEP, slowest.name),
            rank=slowest.rank,
            evidence=step_evidence(analysis, found.warm),
            intervals=tuple((step.start, step.end) for step in found.warm),
            unknown=(
                for_native(ours("What else the step did: put $NVTX ranges around its parts.")),
                without_stacks(
                    analysis.trace,
                    for_pytorch("What else the step did: record with stacks (with_stack=True)."),
                ),
            ),
            confidence="medium",
            of_recording=True,
        )

    def _of_other_work(self, analysis: Analysis, found: WarmUp) -> Finding:
        slowest, count = found.slowest, len(found.warm)
        first = "first step takes" if count == 1 else f"first {count} steps take"
        return self.finding(
            analysis,
            severity=Severity.INFO,
            headline=Headline(f"The {first} longer, because the GPU has more to compute"),
            account=(
                f"{slowest.name} takes {duration(slowest.duration)}, "
                f"{three_digits(slowest.duration / max(found.usual_ns, 1))} times a steady step "
                f"({duration(found.usual_ns)}), and the GPU computes nearly all the time. That is other work, such as "
                "a prompt before its answer, and no start-up. It is left out of the other findings."
            ),
            remedy=remedy(
                "See Operators for what runs there: select the step in the timeline.",
                "Record the two kinds of step apart, if both matter.",
                code=for_pytorch(_START_CODE),
            ),
            culprit=Culprit(CulpritKind.STEP, slowest.name),
            rank=slowest.rank,
            evidence=step_evidence(analysis, found.warm),
            intervals=tuple((step.start, step.end) for step in found.warm),
            confidence="medium",
        )


_WARM_UP_CODE = """\
schedule = torch.profiler.schedule(wait=5, warmup=2, active=5)   # skip compilation and first allocations
write = torch.profiler.tensorboard_trace_handler("trace")
with torch.profiler.profile(schedule=schedule, on_trace_ready=write) as prof:
    for batch in loader:
        train_step(batch)
        prof.step()"""


@rule
class WarmUpInRecording(Rule):
    id = "warm-up-in-recording"
    category = Category.WARM_UP
    explanation = """
What it found
    The first steps of the recording take much longer than the later ones.

Why it costs time
    Compilation, kernel loading, algorithm selection and first allocations happen once. In a recording they hide the
    steps that matter.

How it decides
    A leading step that takes more than {warm-up-step} times the median of the later half is warm-up if it is the
    program's first (number 0), contains compilation or kernel loading, or takes more than five times as long;
    otherwise the profiler's own start made it slow. All other findings use only the steady steps. The ceiling here is
    the extra time of the warm-up steps, relative to the whole recording.

What to try
    Record later steps. If start-up time itself matters: cache compiled code, compile fewer variants, mark dynamic
    shapes.

When it is wrong
    If steps differ by design, for instance with decreasing sequence lengths.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        found = warm_up(analysis)
        if (
            found is None
            or not found.starts_up
            or found.extra_ns < analysis.thresholds[MIN_SHARE] * found.recorded_ns
        ):
            return
        slowest = found.slowest
        yield self.finding(
            analysis,
            headline=Headline(
                "Warm-up is in the recording", f"{_part(found.extra_ns / found.recorded_ns)} of it"
            ),
            account=_explanation(found),
            remedy=remedy(
                *later_steps(analysis.trace),
                *_faster_start(found.compilers),
                code="" if is_serving_engine(analysis.trace) else for_pytorch(_WARM_UP_CODE),
            ),
            severity=severity_of_once(found.extra_ns, found.recorded_ns),
            ceiling_ns=found.extra_ns,
            window_ns=found.recorded_ns,
            culprit=Culprit(CulpritKind.STEP, slowest.name),
            rank=slowest.rank,
            evidence=step_evidence(analysis, found.warm),
            intervals=tuple((step.start, step.end) for step in found.warm),
            unknown=(
                "Whether later steps would be slow again, for instance by recompiling for new shapes: record a "
                "longer run.",
            ),
            of_recording=True,
        )


def _faster_start(compilers: tuple[str, ...]) -> tuple[Words, ...]:
    """What makes the start itself shorter, in terms of what compiles."""
    known = tuple(_FASTER_START[each] for each in compilers if each in _FASTER_START)
    return known or (for_pytorch(_FASTER_START["torch.compile"]), for_jax(_FASTER_START["XLA"]))


_FASTER_START = {
    "torch.compile": "If start-up itself is too slow, keep compiled code between runs "
    "(TORCHINDUCTOR_FX_GRAPH_CACHE=1) and avoid recompilation.",
    "XLA": "If start-up itself is too slow, keep compiled code between runs (jax_compilation_cache_dir).",
    "TorchScript": "A scripted module profiles its first runs and compiles in the next ones: run it two or three times "
    "with each shape before timing it, or freeze it (torch.jit.freeze).",
    "TensorFlow": "tf.function is traced again for each new shape and Python value: give it an input_signature, and "
    "call it once before timing it.",
    "Numba": "If start-up itself is too slow, keep compiled code between runs (cache=True), or state the signature.",
    "Triton": "If start-up itself is too slow, keep Triton's cache between runs (TRITON_CACHE_DIR), and autotune fewer "
    "configurations.",
}


def _explanation(found: WarmUp) -> Words:
    slowest, count = found.slowest, len(found.warm)
    text: Words = (
        f"{count} of {count + len(found.steady)} steps {'is' if count == 1 else 'are'} warm-up: {slowest.name} takes "
        f"{duration(slowest.duration)}, {three_digits(slowest.duration / max(found.usual_ns, 1))} times a steady step "
        f"({duration(found.usual_ns)})."
    )
    if found.contains:
        text += " It contains " + listed_words(found.contains) + "."
    return text + " All other findings look at the steady steps only."


def _part(share: float) -> str:
    return "nearly all" if percent(share) == percent(1.0) else percent(share)
