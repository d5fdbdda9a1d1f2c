"""A heading that opens a list of checks: their names, and what each of them looks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QToolButton, QWidget

from parsers.model.units import capital, how_many
from viewer.appearance import theme
from viewer.appearance.widgets import NO_MARGINS, ElidedLabel, Label, fill, horizontal, vertical

Explained = Callable[[str], Mapping[str, str]]  # of a rule's id
_ABBREVIATIONS = {"gpu": "GPU", "sms": "SMs", "fp64": "FP64"}


def check_name(rule: str) -> str:
    """A rule's id as people say it: "copies-from-gpu" is "Copies from GPU"."""
    words = " ".join(_ABBREVIATIONS.get(word, word) for word in rule.split("-"))
    return capital(words)


class CheckList(QWidget):
    """Closed it is one line: how many, and as far as there is room why; open it names every check.

    ``groups`` are the rules' ids by the reason they share ("" for none), ``explained`` gives their texts.
    """

    def __init__(self, title: str, groups: Mapping[str, Sequence[str]], explained: Explained) -> None:
        super().__init__()
        self._title, self._groups, self._explained = title, groups, explained
        self.heading = QToolButton()
        self.heading.setCheckable(True)
        self.heading.setAutoRaise(True)
        self.heading.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.heading.setFont(theme.font(12, QFont.Weight.DemiBold))
        self.heading.setStyleSheet(
            "QToolButton { padding: 2px 6px 2px 5px; } QToolButton:!hover { background: transparent; }"
        )
        self.heading.setToolTip("Which checks these are and what they look for")
        self.heading.setCursor(Qt.CursorShape.PointingHandCursor)
        self.heading.toggled.connect(self._open)
        self._layout = vertical(self, NO_MARGINS, 2)
        by_size = sorted((each for each in groups if each), key=lambda reason: -len(groups[reason]))
        self.reasons = ElidedLabel("; ".join(by_size), "faint", pixels=12, separator="; ")
        row = fill(horizontal(spacing=2), self.heading, (self.reasons, 1))
        if not by_size:
            row.addStretch(1)
        self._layout.addLayout(row)
        self._open(False)

    def _open(self, opened: bool) -> None:
        self.heading.setText(f"{self._title}  {'▾' if opened else '▸'}")
        self.reasons.setVisible(not opened and any(self._groups))
        if opened or "_names" in self.__dict__:
            self._names.setVisible(opened)

    @cached_property
    def _names(self) -> QWidget:
        """Made when the list is opened for the first time."""
        lines: list[tuple[str, str, int]] = []
        for reason, rules in self._groups.items():
            if reason:
                lines.append((f"{capital(reason)} ({how_many(len(rules), 'check')}):", "secondary", 10))
            for rule in rules:
                lines.append((check_name(rule), "", 4))
                lines += [(text, "faint", 0) for text in list(self._explained(rule).values())[:1]]
        names = self._made(lines)
        self._layout.addWidget(names)
        return names

    @staticmethod
    def _made(lines: Sequence[tuple[str, str, int]]) -> QWidget:
        body = QWidget()
        column = vertical(body, (6, 0, 6, 0), 1)
        for text, role, above in lines:
            if above:
                column.addSpacing(above)
            column.addWidget(Label(text, role, pixels=12, wrap=True))
        return body
