"""The list of ready-made and saved questions, by group, with the number of rows each gives here."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QLineEdit, QTreeWidget, QTreeWidgetItem, QWidget

from viewer.appearance import theme
from viewer.appearance.painted_chart import RowDelegate
from viewer.appearance.widgets import fill, tooltip, vertical
from viewer.query.questions import OWN, Question

WIDTH = 332  # the titles of ready-made questions fit
_ID = Qt.ItemDataRole.UserRole
_UNANSWERED = Qt.ItemDataRole.UserRole + 1


class QuestionList(QWidget):
    """``chosen`` hands over a question that was clicked; ``removed`` the title of a saved one."""

    chosen = Signal(object)  # Question
    removed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._questions: dict[str, Question] = {}
        self.filter = QLineEdit()
        self.filter.setPlaceholderText("Filter the questions")
        self.filter.setClearButtonEnabled(True)
        self.filter.setAccessibleName("Filter the questions")
        self.filter.textChanged.connect(self._narrow)
        self.tree = QTreeWidget()
        self.tree.setAccessibleName("Questions")
        self.tree.setColumnCount(2)
        self.tree.setHeaderHidden(True)
        self.tree.setRootIsDecorated(False)
        self.tree.setIndentation(6)
        self.tree.setUniformRowHeights(True)
        self.tree.header().setStretchLastSection(False)
        self.tree.header().setSectionResizeMode(0, self.tree.header().ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(1, self.tree.header().ResizeMode.ResizeToContents)
        self.tree.setItemDelegate(RowDelegate(self.tree))
        theme.changed.connect(self._color)
        self.tree.itemClicked.connect(lambda item, _: self._choose(item))
        self.tree.itemActivated.connect(lambda item, _: self._choose(item))
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.tree.addAction("Delete this saved question", self._remove)
        fill(vertical(self, (10, 6, 6, 6), 4), self.filter, (self.tree, 1))

    def show_questions(self, questions: Mapping[str, Question]) -> None:
        self._questions = dict(questions)
        self.tree.clear()
        groups: dict[str, QTreeWidgetItem] = {}
        for question in questions.values():
            group = groups.get(question.group)
            if group is None:
                group = groups[question.group] = QTreeWidgetItem([question.group, ""])
                group.setFlags(Qt.ItemFlag.ItemIsEnabled)
                self.tree.addTopLevelItem(group)
            item = QTreeWidgetItem([question.title, ""])
            item.setData(0, _ID, question.id)
            item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            item.setToolTip(0, tooltip(question.title))
            group.addChild(item)
        self.tree.expandAll()
        self._narrow(self.filter.text())
        self._color()

    def say(self, id: str, text: str, *, answered: bool) -> None:
        """What stands at the right of a question: its rows, or why it cannot be answered, and then it is grey."""
        for item in self._items():
            if item.data(0, _ID) == id:
                item.setText(1, text if answered else "–")
                item.setToolTip(1, tooltip(text))
                item.setData(0, _UNANSWERED, not answered)
                self._color()

    def _color(self) -> None:
        colors = theme.current()
        for index in range(self.tree.topLevelItemCount()):
            if (group := self.tree.topLevelItem(index)) is not None:
                group.setForeground(0, colors.text_secondary)
        for item in self._items():
            item.setForeground(0, colors.text_faint if item.data(0, _UNANSWERED) else colors.text)
            item.setForeground(1, colors.text_secondary)

    def _items(self) -> list[QTreeWidgetItem]:
        found = []
        for index in range(self.tree.topLevelItemCount()):
            group = self.tree.topLevelItem(index)
            children = range(group.childCount()) if group is not None else ()
            found += [
                child for row in children if group is not None and (child := group.child(row)) is not None
            ]
        return found

    def _narrow(self, text: str) -> None:
        words = text.lower().split()
        for item in self._items():
            question = self._questions[item.data(0, _ID)]
            said = f"{question.title} {question.id} {question.group}".lower()
            item.setHidden(not all(word in said for word in words))
        for index in range(self.tree.topLevelItemCount()):
            group = self.tree.topLevelItem(index)
            if group is not None:
                children = [group.child(row) for row in range(group.childCount())]
                group.setHidden(all(child is None or child.isHidden() for child in children))

    def _choose(self, item: QTreeWidgetItem) -> None:
        question = self._questions.get(str(item.data(0, _ID)))
        if question is not None:
            self.chosen.emit(question)

    def _remove(self) -> None:
        item = self.tree.currentItem()
        question = self._questions.get(str(item.data(0, _ID))) if item is not None else None
        if question is not None and question.group == OWN:
            self.removed.emit(question.title)
