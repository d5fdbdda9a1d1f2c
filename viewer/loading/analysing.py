"""The analysis as the window needs it: everything that its first view asks for, and the diagnosis."""

from __future__ import annotations

from parsers.model import Progress, Trace
from rules import Diagnosis, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.terms import DEFAULTS, Thresholds


def analysed(
    trace: Trace, progress: Progress, thresholds: Thresholds = DEFAULTS
) -> tuple[Analysis, Diagnosis]:
    """The analysis with its lazy parts made, and the diagnosis."""
    analysis = Analysis(trace, thresholds)
    analysis.prepare(progress.part(0.0, 0.4))
    progress.step(0.4, "finding what each GPU did")
    _ = analysis.steps, analysis.window, analysis.families, analysis.idle
    for device in range(len(trace.devices)):
        progress.step(0.4, "finding what each GPU did")
        analysis.time(device)
    return analysis, diagnosis_of(analysis, progress.part(0.5, 1.0))


def prepared(analysis: Analysis, diagnosis: Diagnosis) -> tuple[Analysis, Diagnosis]:
    """The same, with what the window's own thread will ask first made here, in a job's."""
    from rules.analysis.inference.engine_steps import engine_steps
    from rules.verdict.verdict import beside_the_verdict, verdict
    from viewer.timeline.scene import joined

    engine_steps(analysis.trace)
    verdict(analysis, diagnosis)
    beside_the_verdict(analysis, diagnosis)
    for device in analysis.active_devices:
        analysis.budgets(device)
    joined(analysis)
    return analysis, diagnosis
