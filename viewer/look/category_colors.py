"""The colour of a finding: that of the cause or kernel family it speaks of."""

from __future__ import annotations

from PySide6.QtGui import QColor

from rules.analysis.idle.causes import Cause
from rules.base import Category
from viewer.look.theme import Theme

HATCHED = frozenset({"dependency", "unknown", "residual"})  # parts of the budget that nobody can act on


def color_of(category: Category, theme: Theme) -> QColor:
    """The colour of a category in this theme."""
    if isinstance(category.about, Cause):
        return theme.cause(category.about)
    return theme.family("other" if category.about is None else category.about.label)


def color_of_part(key: str, theme: Theme) -> QColor:
    """The colour of a part of the budget, by the key of ``budget_parts``."""
    for cause in Cause:
        if cause.key == key:
            return theme.cause(cause)
    families = {"compute": "gemm", "communication": "communication", "copy": "copies"}
    return theme.family(families.get(key, "other"))
