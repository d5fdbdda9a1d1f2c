"""Writes the tables of docs/predictions.md: what fixes promise of recorded programs, beside what mending them gave.

usage: python scripts/write_predictions.py [FOLDER ...]
A folder holds recordings and a truth.json as tests/fixtures/programs does, which is always among them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from parsers import open_trace  # noqa: E402 - a script runs from anywhere
from rules.analysis.analysis import Analysis  # noqa: E402
from rules.fixes.plan import VAGUE, Promise, Reach, make_plan  # noqa: E402

DOCUMENT = REPOSITORY / "docs" / "predictions.md"
PROGRAMS = REPOSITORY / "tests" / "fixtures" / "programs"
BEGIN, END = "<!-- written by scripts/write_predictions.py -->\n", "<!-- end -->\n"
WORTH_MENDING = 1.05
MISSED_BY = 1.05  # a gain so close to a band is inside
HEAD = "| program | fault | mending gave | promised | |\n|---|---|---|---|---|\n"


def recordings(folder: Path, name: str) -> Iterator[tuple[str, list[Path]]]:
    """(recorder, files) of one program."""
    endings = ("pt.trace.json.gz", "rank*.pt.trace.json.gz", "trace.json.gz")
    files = sorted(path for ending in endings for path in folder.glob(f"{name}.{ending}"))
    if files:
        yield "", files
    for database in (*folder.glob(f"{name}.sqlite"), *folder.glob(f"{name}.sqlite.gz")):
        yield ", Nsight Systems", [database]


def judged(promise: Promise | None, low: float, high: float) -> tuple[str, str]:
    """What was promised, and how it compares with what mending gave, from ``low`` to ``high``."""
    if promise is None:
        return "nothing", "missed"
    redesign = promise.proposal.redesign
    middle = "" if redesign else f"about {promise.expected:.2f}, "
    text = f"{middle}{promise.low:.2f} to {promise.high:.2f}"
    if low > promise.high * MISSED_BY:
        return text, "gave more"
    if high < promise.low / MISSED_BY:
        return text, "gave less"
    return text, "inside, wide" if promise.high > VAGUE * promise.low and not redesign else "inside"


@dataclass(frozen=True, slots=True)
class Measured:
    """One fault that was worth mending: what was promised of it, None for nothing, and what mending it gave."""

    program: str
    recorder: str
    fault: str
    promise: Promise | None
    low: float
    high: float
    fitted: bool
    most: float = 0.0  # times as fast as the GPU allows with the fix

    @property
    def fix(self) -> str:
        return self.promise.proposal.fix if self.promise is not None else ""


def measured(folder: Path, reaches: Mapping[str, Reach] | None = None) -> Iterator[Measured]:
    """Each fault of a folder that was worth mending, of each recording; ``reaches`` as for ``make_plan``."""
    truth: dict[str, dict[str, Any]] = json.loads((folder / "truth.json").read_text("utf-8"))
    for name, told in sorted(truth.items()):
        faults = {
            fault: known
            for fault, known in told["faults"].items()
            if known["gain"] >= WORTH_MENDING and not known.get("hidden")
        }
        for recorder, files in recordings(folder, name) if faults else ():
            plan = make_plan(Analysis(open_trace(files)), reaches=reaches)
            for fault, known in faults.items():
                own = [
                    each
                    for each in plan.promises
                    if {category.value for category in each.proposal.categories} & set(known["category"])
                ]
                best = max(
                    own, key=lambda each: each.high if each.proposal.redesign else each.expected, default=None
                )
                alone = len(told["faults"]) == 1 and "gain_all" in told
                low, high = sorted((known["gain"], told["gain_all"])) if alone else (known["gain"],) * 2
                fitted = bool(told.get("fit", folder != PROGRAMS))
                most = plan.most(best) if best is not None else 0.0
                yield Measured(name, recorder, fault, best, low, high, fitted, most)


def rows(folder: Path) -> Iterator[tuple[bool, str, str]]:
    """(may be fitted, verdict, row of the table) for each fault that was worth mending."""
    for each in measured(folder):
        promised, verdict = judged(each.promise, each.low, each.high)
        gave = f"{each.low:.2f}" if each.high == each.low else f"{each.low:.2f} and {each.high:.2f}"
        title = each.fault.replace("_", " ")
        row = f"| {each.program}{each.recorder} | {title} | {gave} | {promised} | {verdict} |\n"
        yield each.fitted, verdict, row


def table(found: list[tuple[bool, str, str]], fitted: bool) -> str:
    """One table with a line that sums it up."""
    mine = [(verdict, row) for fit, verdict, row in found if fit is fitted]
    inside = sum(verdict.startswith("inside") for verdict, _ in mine)
    more, wide = (sum(verdict == each for verdict, _ in mine) for each in ("gave more", "inside, wide"))
    summary = f"{inside} of {len(mine)} inside the band, {wide} of these a wide one; {more} gave more than it says.\n\n"
    return summary + HEAD + "".join(row for _, row in mine)


def main(folders: list[Path]) -> None:
    found = [row for folder in dict.fromkeys([PROGRAMS, *folders]) for row in rows(folder)]
    text = DOCUMENT.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = (
        f"### Programs that no constant was fitted on\n\n{table(found, False)}\n"
        f"### Programs that constants were fitted on\n\n{table(found, True)}\n"
    )
    DOCUMENT.write_text(f"{before}{BEGIN}\n{tables}{END}{after}", "utf-8")


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]])
