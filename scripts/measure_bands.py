"""Measures how far the bands of each fix have to reach to hold in programs that they were not made from.

usage: python scripts/measure_bands.py [FOLDER ...] [--fresh]
Folders are those of write_predictions.py. What is predicted of their programs, and what mending them gave, is kept in
scripts/predicted.csv, which also stands for recordings that are too large to keep; --fresh predicts
anew for the programs whose recordings are kept. Two files follow from it: resources/measured_bands.json, by how much
the plan widens bands (from all programs; conformalised quantile regression, each side by itself), and
resources/measured_gains.json, what is said beside a prediction (from programs that no constant was fitted on). The
tables of docs/predictions.md are written as well. A program is always judged with what the other programs say.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from write_predictions import DOCUMENT, MISSED_BY, PROGRAMS, REPOSITORY, measured

from parsers.model.late import dataclass
from rules.fixes.plan import Reach, margin

KEPT = Path(__file__).with_name("predicted.csv")
GAINS = REPOSITORY / "resources" / "measured_gains.json"
BANDS = REPOSITORY / "resources" / "measured_bands.json"
BEGIN, END = (
    "<!-- written by scripts/measure_bands.py -->\n",
    "<!-- end of what measure_bands.py writes -->\n",
)
HELD = 0.8  # of programs that a band was not made from
LESS = 0.08  # of these may gain less than it says: a promise that is not kept costs more than a cautious one
MAX_REACH = 0.5  # margins: what is missed by more has a cause of its own, which no band can say
MIN_PROGRAMS = 5  # of fewer nothing is told
HEAD = (
    "| fix | programs | usual gain relative to the prediction | inside what the replay says | width "
    "| inside the band made without the program | width |\n|---|---|---|---|---|---|---|\n"
)


@dataclass(frozen=True, slots=True)
class Known:
    """A fault, what the replay says of the fix that names it, at most ``most``, and what mending it gave."""

    program: str
    recorder: str
    fault: str
    fix: str
    promise: str
    low: float
    expected: float
    high: float
    most: float
    gave_low: float
    gave_high: float
    fitted: bool

    @property
    def ratio(self) -> float:
        """What mending gave as a part of what was expected; 1 between two measurements."""
        return min(max(self.expected, self.gave_low), self.gave_high) / self.expected

    @property
    def below(self) -> float:
        """By how many margins it gave less than the band says; negative inside."""
        return math.log(self.low / self.gave_high) / math.log(margin(self.expected))

    @property
    def above(self) -> float:
        """By how many margins it gave more than the band says; negative inside."""
        return math.log(self.gave_low / self.high) / math.log(margin(self.expected))

    def band(self, reach: Reach) -> tuple[float, float]:
        """The band as the plan makes it."""
        low, high = reach.applied(self.low, self.expected, self.high)
        return min(low, self.expected), max(self.expected, min(high, max(self.high, self.most)))

    def holds(self, reach: Reach) -> bool:
        low, high = self.band(reach)
        return self.gave_low <= high * MISSED_BY and self.gave_high >= low / MISSED_BY


def predicted(folder: Path) -> list[Known]:
    """What the replay says of each fault of a folder, without a reach; names begin with that of another folder."""
    return [
        Known(
            each.program if folder == PROGRAMS else f"{folder.name}/{each.program}",
            each.recorder,
            each.fault,
            each.fix,
            each.promise.id,
            *(round(value, 4) for value in (each.promise.low, each.promise.expected, each.promise.high)),
            round(each.most, 4),
            round(each.low, 4),
            round(each.high, 4),
            each.fitted,
        )
        for each in measured(folder, reaches={})
        if each.promise is not None and not each.promise.proposal.redesign
    ]


def kept() -> list[Known]:
    """What is in the file."""
    with KEPT.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = [each.name for each in fields(Known) if each.type in (float, "float")]
    return [
        Known(**{**row, **{name: float(row[name]) for name in numbers}, "fitted": row["fitted"] == "True"})
        for row in rows
    ]


def keep(found: Iterable[Known]) -> None:
    """Write the file, by program."""
    with KEPT.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Known)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            asdict(each) for each in sorted(found, key=lambda each: (each.program, each.recorder, each.fault))
        )


def reach_of(found: Sequence[Known]) -> Reach:
    """How far bands reach so that ``HELD`` of the programs that are not among these are inside, and ``LESS`` below.

    Bands that hold for ``HELD`` of these programs and one more stay as they are. A side becomes narrower by as much as
    the other becomes wider, at most: a band that is missed on one side moves.
    """
    often = Counter(each.program for each in found)
    held = sum(1.0 / often[each.program] for each in found if each.holds(Reach()))
    if len(often) < MIN_PROGRAMS or held >= HELD * (len(often) + 1):
        return Reach()
    lower, upper = _missed(found, "below", 1 - LESS), _missed(found, "above", HELD + LESS)
    if max(lower, upper) <= 0:
        return Reach()
    return Reach(max(lower, -max(upper, 0.0)), max(upper, -max(lower, 0.0)))


def _missed(found: Sequence[Known], side: str, wanted: float) -> float:
    """By how many margins one side of the bands is missed where this part of other programs miss it by less."""
    often = Counter(each.program for each in found)
    enough, passed, missed = wanted * (len(often) + 1), 0.0, 0.0
    for each in sorted(found, key=lambda each: float(getattr(each, side))):
        missed = float(getattr(each, side))
        passed += 1.0 / often[each.program]
        if passed >= enough - 1e-9:
            break
    return round(min(max(missed, -MAX_REACH), MAX_REACH), 2)


def by_fix(found: Sequence[Known]) -> list[tuple[str, int, list[Known]]]:
    """(fix, programs, its faults) of each fix with enough programs, the one with most faults first."""
    faults: dict[str, list[Known]] = defaultdict(list)
    for each in found:
        faults[each.fix].append(each)
    counted = [(fix, len({each.program for each in mine}), mine) for fix, mine in faults.items()]
    return sorted((each for each in counted if each[1] >= MIN_PROGRAMS), key=lambda each: -len(each[2]))


def usual(mine: Sequence[Known]) -> tuple[float, float]:
    """The narrowest band of measured over predicted gains around their median that holds for ``HELD`` of others."""
    logs = sorted(math.log(each.ratio) for each in mine)
    centre = logs[len(logs) // 2]
    off = sorted(abs(each - centre) for each in logs)
    width = off[min(math.ceil(HELD * (len(off) + 1)), len(off)) - 1]
    return math.exp(centre - width), math.exp(centre + width)


def without(each: Known, found: Sequence[Known]) -> Reach:
    """The reach of its fix in all other programs."""
    return reach_of([one for one in found if one.fix == each.fix and one.program != each.program])


def judged(mine: Sequence[Known], found: Sequence[Known]) -> str:
    """Four columns: inside and width of what the replay says, and of the bands made without each program."""
    columns = []
    for reaches in ([Reach() for _ in mine], [without(each, found) for each in mine]):
        held = sum(each.holds(reach) for each, reach in zip(mine, reaches, strict=True))
        bands = [each.band(reach) for each, reach in zip(mine, reaches, strict=True)]
        width = math.exp(sum(math.log(high / max(low, 0.9)) for low, high in bands) / len(bands))
        columns.append(f"{held} of {len(mine)} ({held / len(mine):.0%}) | {width:.2f}x")
    return " | ".join(columns)


def table(found: Sequence[Known], fitted: bool) -> str:
    """A row for each fix with enough programs, and one for all."""
    mine = [each for each in found if each.fitted is fitted]
    lines = [HEAD]
    for fix, programs, faults in by_fix(mine):
        low, high = usual(faults)
        lines.append(f"| {fix} | {programs} | {low:.2f} to {high:.2f} | {judged(faults, found)} |\n")
    programs = len({each.program for each in mine})
    return "".join(lines) + f"| all | {programs} | | {judged(mine, found)} |\n"


def write(found: Sequence[Known]) -> None:
    """Both files of numbers, and the tables of the page."""
    gains = {}
    for fix, programs, mine in by_fix([each for each in found if not each.fitted]):
        low, high = usual(mine)
        gains[fix] = {"programs": programs, "low": round(low, 2), "high": round(high, 2)}
    bands = {}
    for fix, programs, mine in by_fix(found):
        reach = reach_of(mine)
        bands[fix] = {"programs": programs, "lower": round(reach.lower, 2), "upper": round(reach.upper, 2)}
    for path, rows in ((GAINS, gains), (BANDS, bands)):
        lines = (f"  {json.dumps(fix)}: {json.dumps(row)}" for fix, row in rows.items())
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
    before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = "\n".join(
        f"#### Programs that {'constants were' if fitted else 'no constant was'} fitted on\n\n{table(found, fitted)}"
        for fitted in (False, True)
    )
    DOCUMENT.write_text(f"{before}{BEGIN}\n{tables}\n{END}{after}", "utf-8")


def main(words: Sequence[str]) -> None:
    folders = [Path(word) for word in words if word != "--fresh"]
    found = kept() if KEPT.exists() else []
    for folder in [PROGRAMS, *folders] if "--fresh" in words else folders:
        anew = predicted(folder)
        programs = {each.program for each in anew}
        found = [each for each in found if each.program not in programs] + anew
    keep(found)
    write(kept())


if __name__ == "__main__":
    main(sys.argv[1:])
