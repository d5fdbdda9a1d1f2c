"""Writes the table of docs/trying.md: what trials measured, beside what mending the same fault by hand gave.

usage: python scripts/write_trials.py
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

MEASURED = Path(__file__).with_name("trials_on_h100.json")
DOCUMENT = REPOSITORY / "docs" / "trying.md"
BEGIN, END = "<!-- written by scripts/write_trials.py -->\n", "<!-- end -->\n"
CLOSE = 0.1  # of what mending by hand gave
MIN_GAIN = 1.05
HEAD = "| program | fault | by hand (its rounds) | change | trial | |\n|---|---|---|---|---|---|\n"


def judged(fault: dict[str, Any]) -> str:
    """How a trial compares with what mending the fault by hand gave."""
    by_hand, low, high = fault["by_hand"], fault["low"], fault["high"]
    least, most = fault["by_hand_rounds"]
    if fault["measured"] is None:
        return "not measured"
    if abs(fault["measured"] / by_hand - 1) <= CLOSE:
        return f"within {CLOSE:.0%}"
    if low <= by_hand <= high:
        return "inside the band"
    if fault["kind"] == "ceiling" and fault["measured"] > by_hand:
        return "a ceiling, and above it"
    if low <= most and least <= high:
        return "the band meets the rounds by hand"
    return "**off**"


def is_gain(fault: dict[str, Any]) -> bool:
    return fault["low"] is not None and fault["low"] > 1


def table(measured: dict[str, Any]) -> str:
    """The table and what it comes to."""
    faults = measured["faults"]
    words = [judged(fault) for fault in faults]
    lines = []
    for fault, word in zip(faults, words, strict=True):
        least, most = fault["by_hand_rounds"]
        by_hand = f"{fault['by_hand']:.2f} ({least:.2f} to {most:.2f})"
        trial = f"{fault['measured']:.2f} ({fault['low']:.2f} to {fault['high']:.2f})"
        lines.append(
            f"| {fault['program']} | {fault['fault']} | {by_hand} | `{fault['change']}` | {trial} | {word} |\n"
        )
    right = sum(word.startswith("within") or word == "inside the band" for word in words)
    controls = measured["controls"]
    held = sum(low <= 1 <= high for low, high in controls)
    idle = [fault for fault in faults if fault["by_hand"] < MIN_GAIN]
    wrong = sum(is_gain(fault) for fault in idle)
    without, with_recorder = (
        statistics.median(measured["idle"][key]) for key in ("without", "with_recorder")
    )
    spread = max(measured["idle"]["without"]) / min(measured["idle"]["without"]) - 1
    seconds = measured["whole_seconds"]
    said = (
        f"On an {measured['gpu']} with torch {measured['torch']}: of {len(faults)} faults the trial measured {right} "
        f"within {CLOSE:.0%} of what mending them by hand gave, or had that inside its band. ",
        f"{held} of {len(controls)} controls held 1. ",
        f"Of {len(idle)} faults that cost less than {MIN_GAIN - 1:.0%}, {wrong} were called a gain.\n\n",
        f"{HEAD}{''.join(lines)}\n",
        f"With its own recording, a trial of eight changes took {seconds['train_lm']} s for a small ",
        "language model (limit 120 s): all eight were measured and the losses of the best compared, ",
        "but no time was left for the other losses and the winners together. ",
        f"For a ResNet-50 it took {seconds['train_cnn']} s (limit 40 s): seven of eight were reached.\n\n",
        f"A waiting recorder costs nothing measurable: the median of twelve blocks was {without:.2f} ms ",
        f"a step without it and {with_recorder:.2f} ms with it, where blocks without it differ by {spread:.0%}.\n",
    )
    return "".join(said)


def main() -> None:
    text = DOCUMENT.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(
        f"{before}{BEGIN}{table(json.loads(MEASURED.read_text('utf-8')))}{END}{after}", "utf-8"
    )


if __name__ == "__main__":
    main()
