"""The first recorded step pays for the profiler's start."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model.units import duration, three_digits
from rules.analysis.analysis import Analysis
from rules.findings.base import Category, Finding, Rule, Severity, remedy, rule
from rules.losses.warm_up import WarmUp, step_evidence, warm_up
from rules.terms.culprit import Culprit, CulpritKind
from rules.terms.thresholds import MIN_SHARE
from rules.wording.headline import Headline
from rules.wording.phrases import without_stacks
from rules.wording.words import Words, for_native, for_pytorch, listed_words, ours

_CODE = """schedule = torch.profiler.schedule(wait=1, warmup=2, active=5)   # warmup: recorded, then thrown away"""


@rule
class SlowFirstStep(Rule):
    """A slow first step in the middle of a run."""

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
                code=for_pytorch(_CODE + ours("$StartTheRecorder")),
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
                code=for_pytorch(_CODE),
            ),
            culprit=Culprit(CulpritKind.STEP, slowest.name),
            rank=slowest.rank,
            evidence=step_evidence(analysis, found.warm),
            intervals=tuple((step.start, step.end) for step in found.warm),
            confidence="medium",
        )
