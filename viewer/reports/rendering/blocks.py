"""A report as a list of blocks, which each format renders; no Qt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import ClassVar, TypeAlias

from parsers.model.late import dataclass


class Form(Enum):
    """Where a block stands: a page has room for what a comment in a review has not."""

    EVERYWHERE = auto()
    PAGE = auto()


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph of lines."""

    lines: tuple[str, ...]
    quiet: bool = False
    form: Form = Form.EVERYWHERE
    kind: ClassVar[str] = "text"


@dataclass(frozen=True, slots=True)
class Points:
    """A list; nothing where it is empty."""

    heading: str
    lines: tuple[str, ...]
    quiet: bool = True
    form: Form = Form.EVERYWHERE
    kind: ClassVar[str] = "points"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts; nothing where there are none. ``left`` rows were too many for any format.

    Where room is scarce the first ``few`` rows are shown, and ``folded`` ones are opened by a click. Columns in
    ``prose`` hold texts, all others numbers: ``values`` are these numbers, by which a page sorts the rows.
    """

    heading: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    left: int = 0
    few: int = 100
    folded: bool = False
    prose: tuple[int, ...] = (0,)
    values: Sequence[Sequence[object]] = ()
    form: Form = Form.EVERYWHERE
    kind: ClassVar[str] = "table"

    def holds(self, column: int) -> str:
        """What a column holds: a "name", a longer "answer" or a "number"."""
        return "number" if column not in self.prose else "answer" if column else "name"

    def value(self, row: int, column: int) -> str | None:
        """The number of a cell as a page sorts it, "" for one that is missing; None in columns that hold none."""
        if column in self.prose or not self.values:
            return None
        value = self.values[row][column]
        return repr(float(value)) if isinstance(value, int | float) and math.isfinite(value) else ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture by the colour of its texts; where there are no pictures, the ``table`` says the same.

    Of a stretch of a timeline, ``recording`` packs the whole one into at most so many bytes, for pages that draw it.
    """

    draw: Callable[[str], str]
    heading: str = ""
    caption: str = ""
    table: Table | None = None
    recording: Callable[[int], bytes] | None = None
    form: Form = Form.EVERYWHERE
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True, slots=True)
class Change:
    """Something to do and what it gives."""

    title: str
    gives: str
    advice: tuple[str, ...]
    code: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do, in this order."""

    heading: str
    items: tuple[Change, ...]
    form: Form = Form.EVERYWHERE
    kind: ClassVar[str] = "changes"


@dataclass(frozen=True, slots=True)
class Spot:
    """A place on the timeline, in words and as lane, start and end (ns)."""

    text: str
    lane: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Card:
    """One finding; ``gives`` is what mending it gives, ``short`` the same in a few letters."""

    severity: str
    title: str
    gives: str
    short: str
    explanation: str
    advice: tuple[str, ...]
    code: str
    cannot_tell: str
    places: tuple[Spot, ...]
    line: str = ""  # of the user's own code


@dataclass(frozen=True, slots=True)
class Cards:
    """All findings."""

    items: tuple[Card, ...]
    form: Form = Form.EVERYWHERE
    kind: ClassVar[str] = "cards"


Block: TypeAlias = Text | Points | Table | Chart | Changes | Cards


@dataclass(frozen=True, slots=True)
class Report:
    """``lead`` is said before all else where it matters more than the title."""

    title: str
    blocks: tuple[Block, ...]
    lead: str = ""
