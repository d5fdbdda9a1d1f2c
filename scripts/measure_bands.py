"""Prints how wide the band of each fix must be to hold for four of five programs that it was not measured on.

The bands of programs that no constant was fitted on are also written to resources/measured_gains.toml, for the text
beside a prediction.

usage: python scripts/measure_bands.py [FOLDER ...]
Folders are those of write_predictions.py. For each program, centre and width come from the other programs with the
same fix (split conformal prediction); programs that constants were fitted on are counted apart from the others.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from write_predictions import PROGRAMS, REPOSITORY, Measured, measured

from parsers.model.late.dataclass import dataclass

WRITTEN = REPOSITORY / "resources" / "measured_gains.toml"
HELD = 0.8  # of programs that a band was not made from
MIN_PROGRAMS = 5  # of fewer nothing is told
HEAD = "| fix | programs | usually gives, of what is promised | holds | inside the bands as they are | their width |\n"


@dataclass(frozen=True, slots=True)
class Band:
    """What a fix gives as a part of what is promised: ``low`` to ``high``."""

    low: float
    high: float


def band_of(ratios: Sequence[float]) -> Band:
    """The narrowest band around the median that holds for ``HELD`` of programs that are not among these."""
    logs = sorted(map(math.log, ratios))
    centre = logs[len(logs) // 2]
    off = sorted(abs(each - centre) for each in logs)
    width = off[min(math.ceil(HELD * (len(off) + 1)), len(off)) - 1]
    return Band(math.exp(centre - width), math.exp(centre + width))


def held_without(mine: Sequence[Measured]) -> float:
    """The part of measurements that lie in the band made from all other programs."""
    held = 0
    for each in mine:
        others = [one.ratio for one in mine if one.program != each.program]
        band = band_of(others)
        held += band.low <= each.ratio <= band.high
    return held / len(mine)


def by_fix(found: Sequence[Measured]) -> list[tuple[str, int, list[Measured]]]:
    """(fix, programs, its faults) of each fix with enough programs, the one with most faults first."""
    faults: dict[str, list[Measured]] = defaultdict(list)
    for each in found:
        faults[each.fix].append(each)
    counted = [(fix, len({each.program for each in mine}), mine) for fix, mine in faults.items()]
    return sorted((each for each in counted if each[1] >= MIN_PROGRAMS), key=lambda each: -len(each[2]))


def written(found: Sequence[Measured]) -> str:
    """The bands as TOML."""
    lines = ["# Written by scripts/measure_bands.py: measured gains as parts of the predicted ones.\n"]
    for fix, programs, mine in by_fix(found):
        band = band_of([each.ratio for each in mine])
        lines.append(f"\n[{fix}]\nprograms = {programs}\nlow = {band.low:.2f}\nhigh = {band.high:.2f}\n")
    return "".join(lines)


def rows(found: Sequence[Measured]) -> list[str]:
    """One row of the table for each fix with enough programs."""
    lines = []
    for fix, programs, mine in by_fix(found):
        band = band_of([each.ratio for each in mine])
        inside = sum(each.inside for each in mine) / len(mine)
        width = math.exp(sum(math.log(each.width) for each in mine) / len(mine))
        lines.append(
            f"| {fix} | {programs} | {band.low:.2f} to {band.high:.2f} | {held_without(mine):.0%} "
            f"| {inside:.0%} | {width:.2f}x |\n"
        )
    return lines


def main(folders: list[Path]) -> None:
    found = [
        each
        for folder in dict.fromkeys([PROGRAMS, *folders])
        for each in measured(folder)
        if each.promise is not None and not each.promise.proposal.redesign
    ]
    WRITTEN.write_text(written([each for each in found if not each.fitted]), "utf-8")
    for fitted in (False, True):
        print(f"### Programs that {'constants were' if fitted else 'no constant was'} fitted on\n")
        print(
            HEAD
            + "|---|---|---|---|---|---|\n"
            + "".join(rows([each for each in found if each.fitted is fitted]))
        )


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
