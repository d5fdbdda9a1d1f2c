"""Compares recordings whose true gain is known, and every recording with itself, and prints how often that was right.

usage: python scripts/measure_comparisons.py [FOLDER ...]
A folder holds recordings and a truth.json as tests/fixtures/programs does, which is always among them: NAME.* and
NAME.fixed.*, with ``gain_all`` as timed without a profiler. Folders without a truth.json give halves only.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from parsers import open_trace  # noqa: E402 - a script runs from anywhere
from parsers.model import Trace, TraceError  # noqa: E402
from rules.analysis.analysis import Analysis  # noqa: E402
from rules.comparison.compare import compare  # noqa: E402
from rules.comparison.gate import Decision, Judgement  # noqa: E402
from rules.comparison.step_times import StepTimes, ratio_of  # noqa: E402

PROGRAMS = REPOSITORY / "tests" / "fixtures" / "programs"
RECORDINGS = (".pt.trace.json.gz", ".json.gz", ".json", ".sqlite.gz", ".sqlite", ".xplane.pb")
LIMITS = (2.0, 5.0)  # percent
MIN_STEPS = 4


def runs(folder: Path) -> dict[str, list[Path]]:
    """Name with its ending -> the files of one run, all ranks together."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        if path.name.endswith(RECORDINGS) and "truth" not in path.name and path.name != "times.json":
            found.setdefault(re.sub(r"\.rank\d+", "", path.name), []).append(path)
    return found


def halves(trace: Trace) -> Iterator[tuple[StepTimes, StepTimes, float]]:
    """(one half, the other, drift) of the steady steps of one recording, in both directions."""
    times = StepTimes.of(Analysis(trace).steps)
    count = len(times.ns)
    if count < MIN_STEPS:
        return
    first, second = times.ns[: count // 2], times.ns[count // 2 :]
    yield StepTimes(first), StepTimes(second), times.drift
    yield StepTimes(second), StepTimes(first), times.drift


def false_verdicts(name: str, trace: Trace) -> tuple[int, list[str]]:
    """How many comparisons of a recording with itself were made, and those that saw a difference."""
    made, wrong = 0, []
    for one, other, drift in halves(trace):
        judgement = Judgement.of(ratio_of(one, other), [])
        made += 1
        failed = [limit for limit in LIMITS if judgement.gate(limit)[0] is Decision.FAILED]
        if failed or (judgement.ratio is not None and judgement.ratio.is_seen):
            wrong.append(f"{name}: {judgement.outcome.value}, drift {drift:.1%}, gates {failed}")
    return made, wrong


def judged(before: list[Path], after: list[Path], gain: float) -> tuple[bool, bool, str]:
    """(direction right, gain inside the stated interval, row of a table) of one pair."""
    result = compare(open_trace(before), open_trace(after))
    ratio = result.judgement.ratio
    if ratio is None:
        return False, False, f"{gain:.3g} | {result.judgement.outcome.value}: {result.judgement.reason} | |"
    low, high = 1 / ratio.high, 1 / max(ratio.low, 1e-9)
    inside = low <= gain <= high
    right = (gain > 1) == (ratio.mean < 1)
    told = f"{1 / ratio.mean:.3g}, {low:.3g} to {high:.3g}"
    return right, inside, f"{gain:.3g} | {told} | {'inside' if inside else 'outside'} |"


def main(folders: list[Path]) -> None:
    made, wrong = 0, []
    directions, insides = [], []
    for folder in folders:
        found = runs(folder)
        known = folder / "truth.json"
        truth: dict[str, Any] = json.loads(known.read_text("utf-8")) if known.exists() else {}
        for name, paths in found.items():
            try:
                count, mistakes = false_verdicts(name, open_trace(paths))
            except TraceError:
                continue
            made, wrong = made + count, wrong + mistakes
        if any("gain_all" in told for told in truth.values()):
            print(f"\n### {folder.name}\n\n| program | mending gave | as compared | |\n|---|---|---|---|")
        for name, told in sorted(truth.items()):
            mended = f"{name}.fixed.pt.trace.json.gz"
            if "gain_all" in told and mended in found:
                right, inside, row = judged(
                    found[f"{name}.pt.trace.json.gz"], found[mended], told["gain_all"]
                )
                directions.append(right)
                insides.append(inside)
                print(f"| {name} | {row}")
    print(f"\ndirection right in {sum(directions)} of {len(directions)}, gain inside in {sum(insides)}")
    half = np.arange(len(insides)) % 2 == 0
    for what, chosen in (("one half", half), ("the other", ~half)):
        print(f"  {what}: {int(np.sum(np.array(insides)[chosen]))} of {int(chosen.sum())}")
    print(f"false verdicts on halves of one recording: {len(wrong)} of {made}", *wrong, sep="\n  ")


if __name__ == "__main__":
    main([PROGRAMS, *(Path(each) for each in sys.argv[1:])])
