"""The list behind the badge in the status bar: what was read, repaired and left out, and why."""

from __future__ import annotations

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QVBoxLayout, QWidget

from parsers.model import Effect, Trace
from viewer.dialogs.page_dialog import PageDialog
from viewer.look.labels import Label

_EFFECT = {Effect.REPAIRED: "repaired", Effect.QUARANTINED: "left out", Effect.NOTED: "noted"}


class QualityDialog(PageDialog):
    """The loss account of one trace."""

    def __init__(self, trace: Trace, parent: QWidget | None = None) -> None:
        body, quality = QWidget(), trace.quality
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
        super().__init__("What was read", "What was read, and what was left out", (620, 420), body, parent)
