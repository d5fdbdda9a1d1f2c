"""What fixes promise for a recording that nobody has open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from parsers.model import Progress, TraceError
from rules.analysis.analysis import Analysis
from rules.fixes.plan import Promise, plan_of
from viewer.loading.loader import read_apart


def promises_of(paths: Sequence[Path], progress: Progress) -> Sequence[Promise]:
    """The promises of a recording in the order in which they would be done; raises ``TraceError``."""
    analysis = Analysis(read_apart(list(paths), progress.part(0.0, 0.7), lambda: None))
    plan = plan_of(analysis)
    progress.step(1.0, "")
    return plan.promises


def promises_if_any(paths: Sequence[Path], progress: Progress) -> Sequence[Promise]:
    """A recording that nothing can be promised of, such as that of a CPU, promises nothing."""
    try:
        return promises_of(paths, progress)
    except TraceError:
        return ()
