"""Loads the modules that the window will need once a recording is there, so that its own thread need not."""

from __future__ import annotations

from functools import cache


@cache
def load_ahead() -> None:
    """Takes half a second the first time; for a background thread."""
    import numpy.ma  # noqa: F401  numpy itself loads it late
    import pandas  # noqa: F401

    import viewer.capture.next_recording
    import viewer.panels.findings.finding_card
    import viewer.statistics.kernels
    import viewer.statistics.operators  # noqa: F401
    from parsers.model import LaneKind
    from rules.base import rules
    from viewer.timeline.kinds.base import style_of

    rules()
    style_of(LaneKind.OTHER)
