"""What the step selector lists; a text is made when somebody looks at it, so that thousands of steps cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt

from parsers.model.units import duration

if TYPE_CHECKING:
    from rules.analysis.steps.steps import Step

ALL = -1
_SEPARATOR = -2
_IS_SEPARATOR = "separator"  # what a combo box looks for in the accessible description
_TOP = QModelIndex()
Index = QModelIndex | QPersistentModelIndex


class StepList(QAbstractListModel):
    """ "All steps", then the steps of each listed rank; the data of a row is the index of its step."""

    def __init__(
        self, steps: Sequence[Step], ranks: Sequence[int | None], several: bool, whole_ns: int
    ) -> None:
        super().__init__()
        self._steps, self._whole_ns, self._several = steps, whole_ns, several
        self._rows: list[tuple[int, int, int]] = [(ALL, 0, 0)]  # step, its number in its rank, how many
        for rank in ranks:
            own = [index for index, step in enumerate(steps) if step.rank == rank]
            if self._several:
                self._rows.append((_SEPARATOR, 0, 0))
            self._rows += [(index, number, len(own)) for number, index in enumerate(own, 1)]
        self._places = {row[0]: place for place, row in enumerate(self._rows)}

    def place_of(self, step: int) -> int:
        """The row of a step; the first row for one that is not listed."""
        return self._places.get(step, 0)

    def rowCount(self, parent: Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        step, number, count = self._rows[index.row()]
        if role == Qt.ItemDataRole.UserRole:
            return None if step == _SEPARATOR else step
        if role == Qt.ItemDataRole.AccessibleDescriptionRole and step == _SEPARATOR:
            return _IS_SEPARATOR
        if role != Qt.ItemDataRole.DisplayRole or step == _SEPARATOR:
            return None
        if step == ALL:
            return f"All steps   {duration(self._whole_ns)}"
        each = self._steps[step]
        whose = f"Rank {each.rank}: " if self._several else ""
        return f"{whose}{number} of {count}   {duration(each.end - each.start)}"

    def flags(self, index: Index) -> Qt.ItemFlag:
        separates = self._rows[index.row()][0] == _SEPARATOR
        return Qt.ItemFlag.NoItemFlags if separates else super().flags(index)
