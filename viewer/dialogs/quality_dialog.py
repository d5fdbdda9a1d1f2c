"""The list behind the badge in the status bar: what was read, repaired and left out, and why."""

from __future__ import annotations

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QDialog, QScrollArea, QVBoxLayout, QWidget

from parsers.model import Effect, Trace
from viewer.look.labels import Label

_EFFECT = {Effect.REPAIRED: "repaired", Effect.QUARANTINED: "left out", Effect.NOTED: "noted"}


class QualityDialog(QDialog):
    """The loss account of one trace."""

    def __init__(self, trace: Trace, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("What was read")
        self.resize(620, 420)
        quality = trace.quality
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(20, 18, 20, 18)
        column.setSpacing(8)
        total = (
            f"{quality.events_read:,} events read, {quality.events_kept:,} kept, {quality.repaired:,} repaired, "
            f"{quality.quarantined:,} left out."
        )
        column.addWidget(Label(total, pixels=14, weight=QFont.Weight.DemiBold, wrap=True, selectable=True))
        for each in trace.inputs:
            column.addWidget(
                Label(f"{each.path}: {each.format}, {each.producer}", "secondary", wrap=True, selectable=True)
            )
        for note in quality.notes:
            column.addSpacing(6)
            title = f"{note.count:,} {_EFFECT[note.effect]}: {note.kind.replace('-', ' ')}"
            column.addWidget(Label(title, weight=QFont.Weight.DemiBold, wrap=True))
            column.addWidget(Label(note.reason, "secondary", wrap=True))
            if note.example:
                column.addWidget(
                    Label(f"For example {note.example}", "faint", pixels=12, wrap=True, selectable=True)
                )
        if not quality.notes:
            column.addWidget(Label("Nothing had to be repaired or left out.", "secondary"))
        column.addStretch(1)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setWidget(body)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(scroll)
