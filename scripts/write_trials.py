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

from rules.trials.blocks import Block, Gain, gain_of  # noqa: E402

MEASURED = [Path(__file__).with_name(f"trials_on_{machine}.json") for machine in ("h200", "h100", "cpu")]
DOCUMENT = REPOSITORY / "docs" / "trying.md"
BEGIN, END = "<!-- written by scripts/write_trials.py -->\n", "<!-- end -->\n"
CLOSE = 0.1  # of what mending by hand gave
MIN_GAIN = 1.05
WIDE = 3.0  # times as much; a band that is wider tells next to nothing
EARLIER = " (earlier)"
WHOLE = {"train_lm": "a small language model", "train_cnn": "a ResNet-50"}
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


def row(fault: dict[str, Any]) -> str:
    """A line of the table."""
    least, most = fault["by_hand_rounds"]
    word = judged(fault)
    note = f" ({fault['note']})" if "note" in fault and not is_right(word) else ""
    cells = (
        f"{fault['program']}{EARLIER * fault.get('earlier', False)}",
        fault["fault"],
        f"{fault['by_hand']:.2f} ({least:.2f} to {most:.2f})",
        f"`{fault['change']}`",
        f"{fault['measured']:.2f} ({fault['low']:.2f} to {fault['high']:.2f})",
        f"{word}{note}",
    )
    return f"| {' | '.join(cells)} |\n"


def is_right(word: str) -> bool:
    return word.startswith("within") or word == "inside the band"


def table(measured: dict[str, Any]) -> str:
    """The faults of one machine, and what they come to."""
    faults, controls = measured["faults"], measured["controls"]
    words = [judged(fault) for fault in faults]
    wide = sum(fault["high"] > WIDE * fault["low"] for fault in faults)
    held = sum(low <= 1 <= high for low, high in controls)
    idle = [fault for fault in faults if max(fault["by_hand_rounds"]) < MIN_GAIN]
    ceilings = sum("ceiling" in word for word in words)
    new = " of the trials not marked earlier" * any("earlier" in fault for fault in faults)
    cores = f"{measured.get('machine')} of a busy CPU (load average {measured.get('load')})"
    machine = f"an {measured['gpu']}" if "gpu" in measured else cores
    cheap = "fault" if len(idle) == 1 else "faults"
    restless = ", ".join(f"`{name}`" for name in measured.get("restless", ()))
    noisy = f" The machine was too noisy to tell about {restless}." if restless else ""
    said = (
        f"On {machine} with torch {measured['torch']}: of {len(faults)} trials ",
        f"{sum(map(is_right, words))} measured within {CLOSE:.0%} of what mending the fault by hand gave, or had that ",
        f"inside their band. Ceilings above it: {ceilings}. Bands more than {WIDE:.0f} times as high as low: {wide}. ",
        f"{held} of {len(controls)} controls{new} held 1. Of {len(idle)} {cheap} that cost ",
        f"less than {MIN_GAIN - 1:.0%} in every round by hand, {sum(map(is_gain, idle))} were called a gain.",
        f"{noisy}\n\n",
        f"{HEAD}{''.join(map(row, faults))}\n",
    )
    return "".join(said)


def whole(measured: dict[str, Any], name: str, what: str) -> str:
    """How long a whole trial of one script took, and how much of it there was time for."""
    tried = [each for each in measured["whole"][name] if each["kind"] in ("switch", "ceiling")]
    reached = [each for each in tried if each["gain"] is not None]
    won = [each for each in reached if each["kind"] == "switch" and each["low"] > 1]
    found = [each for each in measured["whole"][name] if each["kind"] == "together" and each["gain"]]
    compared = ", and their losses compared" * bool(found and found[0]["loss"])
    ended = "no change made it faster"
    if won:
        ended = f"the winners measured together{compared}" if found else "the winners not measured together"
    if len(won) == 1:
        ended = f"one made it faster{', and its losses were compared' * bool(won[0]['loss'])}"
    if name not in measured["whole_again"]:
        ended += "; earlier"
    return f"{measured['whole_seconds'][name]} s for {what} ({len(reached)} of {len(tried)} changes measured, {ended})"


def slowdown(sides: dict[str, list[list[float]]], name: str) -> Gain:
    """How many times as long a step is in the blocks of ``name`` as in the plain ones: ms, a list for each process."""
    gain = gain_of(
        [
            Block(name, changed, 1, took * 1e6)
            for plain, other in zip(sides["plain"], sides[name], strict=True)
            for at in range(0, len(plain) - 1, 2)
            for changed, side in ((True, plain), (False, other))
            for took in side[at : at + 2]
        ]
    )
    assert gain is not None
    return gain


def times(gain: Gain) -> str:
    return f"{gain.value:.3f} times ({gain.low:.3f} to {gain.high:.3f})"


def idle(measured: dict[str, Any]) -> str:
    """What it costs where nothing is timed."""
    found = measured["idle"]
    gpu = measured["gpu"].split()[1]
    if "within" in found:
        within, between = found["within"], found["between"]
        step = statistics.median(took for blocks in within["plain"] for took in blocks)
        return (
            f"On the {gpu}, a step of {step:.1f} ms took {times(slowdown(within, 'waiting'))} as long with it, "
            f"switched on and off in turns in {len(within['plain'])} processes; comparing off with off gave "
            f"{times(slowdown(within, 'again'))}. Between {len(between['plain'])} pairs of processes, of which one had "
            f"it, a step took {times(slowdown(between, 'waiting'))} as long; between as many pairs without it, "
            f"{times(slowdown(between, 'again'))}."
        )
    without, with_recorder = (statistics.median(found[key]) for key in ("without", "with_recorder"))
    spread = max(found["without"]) / min(found["without"]) - 1
    unit = found.get("unit", "blocks")
    return (
        f"On the {gpu}, the median of {len(found['without'])} {unit} was {without:.2f} ms "
        f"a step without it and {with_recorder:.2f} ms with it, where {unit} without it differ by {spread:.0%}."
    )


def main() -> None:
    machines = [json.loads(path.read_text("utf-8")) for path in MEASURED]
    written = "".join(map(table, machines))
    written += "With its own recording and a limit of 120 s, a trial of all changes that apply took "
    written += " and ".join(whole(machines[0], name, what) for name, what in WHOLE.items()) + ".\n\n"
    idles = [idle(each) for each in machines if "idle" in each]
    found = [each["idle"] for each in machines if "within" in each.get("idle", {})]
    costs = [slowdown(sides, "waiting") for each in found for sides in each.values()]
    seen = any(gain.is_seen for gain in costs)
    price = (
        "Waiting is not free where launches are the limit." if seen else "Waiting costs nothing measurable."
    )
    written += f"{price} {' '.join(idles)}\n"
    before, _, rest = DOCUMENT.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCUMENT.write_text(f"{before}{BEGIN}{written}{END}{after}", "utf-8")


if __name__ == "__main__":
    main()
