"""How the columns of a table share its width: figures keep what they need, bars and words give way."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from operator import attrgetter

from parsers.model.late import dataclass


@dataclass(frozen=True, slots=True)
class Wish:
    """What a column asks for, in pixels: ``easy`` where there is room, else ``fair``, ``tight``, or the ``least``."""

    least: int
    tight: int
    fair: int
    easy: int
    minor: bool = False  # goes where the others would get less than is fair
    grows: bool = False  # takes its part of what is left
    most: int | None = None  # ... up to so many pixels
    whole: int = 0  # what it takes to show all of it, where that is more than easy
    spare: bool = False  # goes where any other would not be shown as a whole


NOTHING = Wish(0, 0, 0, 0)


def shared_width(wishes: Sequence[Wish], room: int) -> list[int]:
    """The width of each column, 0 for those that go; more than ``room`` pixels only where each has its least."""
    kept = list(wishes)
    if sum(max(wish.easy, wish.whole) for wish in kept) > room:
        kept = [NOTHING if wish.spare else wish for wish in kept]
    for index in reversed(range(len(kept))):
        if kept[index].minor and sum(wish.fair for wish in kept) > room:
            kept[index] = NOTHING
    widths = [wish.easy for wish in kept]
    for level in (attrgetter("fair"), attrgetter("tight"), attrgetter("least")):
        less: list[int] = [level(wish) for wish in kept]
        over, give = sum(widths) - room, sum(widths) - sum(less)
        share = min(over / give, 1.0) if over > 0 and give else 0.0
        widths = [width - ceil((width - least) * share) for width, least in zip(widths, less, strict=True)]
    growing = [index for index, wish in enumerate(kept) if wish.grows]
    bounded = [index for index in growing if kept[index].most is not None]
    for first in (bounded, [index for index in growing if index not in bounded]):
        for place, index in enumerate(first):
            more, most = max(room - sum(widths), 0) // (len(first) - place), kept[index].most
            widths[index] += more if most is None else max(min(more, most - widths[index]), 0)
    return widths
