"""The tabs of the bottom dock in their order, each made when it is asked for: a window is there before its tabs are."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QWidget

from viewer.document import Document
from viewer.panels.panel import Panel


def tabs(document: Document, parent: QWidget) -> Iterator[Panel]:
    """Every tab but the bookmarks, which a window needs at once."""
    from viewer.panels.selection import SelectionPanel

    yield SelectionPanel(document, parent)
    from viewer.panels.kernels import KernelsPanel

    yield KernelsPanel(document, parent)
    from viewer.panels.operators import OperatorsPanel

    yield OperatorsPanel(document, parent)
    from viewer.panels.icicle import FlamePanel

    yield FlamePanel(document, parent)
    from viewer.panels.steps import StepsPanel

    yield StepsPanel(document, parent)
    from viewer.panels.ranks import CollectivesPanel, RanksPanel

    yield RanksPanel(document, parent)
    yield CollectivesPanel(document, parent)
    from viewer.panels.memory import MemoryPanel

    yield MemoryPanel(document, parent)
    from viewer.panels.counters import CountersPanel, RooflinePanel

    yield CountersPanel(document, parent)
    yield RooflinePanel(document, parent)
