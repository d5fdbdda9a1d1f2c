"""The style sheet of the standard widgets: flat, one line between panels, an 8 px grid."""

from __future__ import annotations

from collections.abc import Mapping
from string import Template

import resources


def stylesheet(colors: Mapping[str, str]) -> str:
    """The sheet with every ``$name`` replaced by its colour, and the folder of the small pictures."""
    sheet = Template(resources.path("stylesheet.qss").read_text("utf-8"))
    return sheet.substitute(colors, controls=resources.path("icons/controls").as_posix())
