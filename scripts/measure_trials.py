"""Tries the faults of trial_programs.py on this machine's CPU, mends each by hand before and after, and keeps both.

usage: python scripts/measure_trials.py PYTHON [SECONDS]     PYTHON has torch, SECONDS is the limit of a trial (60)
Writes scripts/trials_on_cpu.json, of which write_trials.py makes a table.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).with_name("trial_programs.py")
MEASURED = Path(__file__).with_name("trials_on_cpu.json")
FAULTS = {
    "one_thread": ("threads",),
    "optimizer_in_a_loop": ("foreach-optimizer",),
    "not_compiled": ("compile",),
    "reads_outputs": ("no-read-backs",),
    "loader_in_process": ("num-workers", "same-batch"),
}


def by_hand(python: str, name: str) -> tuple[str, list[float]]:
    """The version of torch, and how many times as fast a step is without the fault in each round."""
    words = [python, str(PROGRAMS), name, "--mend"]
    told = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    pairs = zip(told["A"][::2], told["A"][1::2], told["B"][::2], told["B"][1::2], strict=True)
    return told["torch"], [(a + b) / (c + d) for a, b, c, d in pairs]


def tried(python: str, name: str, limit: float) -> dict[str, Any]:
    """What the trial of a program's changes found, as JSON."""
    words = [sys.executable, "-m", "stallscope", "try", "--json", "--no-losses", "--time-limit", f"{limit:g}"]
    for change in FAULTS[name]:
        words += ["--fix", change]
    words += ["--python", python, "--", "python", str(PROGRAMS), name]
    found: dict[str, Any] = json.loads(
        subprocess.run(words, check=False, capture_output=True, text=True).stdout
    )
    return found


def main() -> None:
    python, limit = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    measured: dict[str, Any] = {"controls": [], "restless": [], "faults": []}
    for name in FAULTS:
        version, rounds = by_hand(python, name)
        found = tried(python, name, limit)
        trials = found["trials"]
        if found["restless"]:
            measured["restless"].append(name)
        rounds += by_hand(python, name)[1]
        for each in trials:
            if each["kind"] == "control":
                measured["controls"].append([each["low"], each["high"]])
            elif each["gain"] is not None:
                measured["faults"].append(
                    {
                        "program": name,
                        "fault": name.replace("_", " "),
                        "change": each["switch"],
                        "kind": each["kind"],
                        "by_hand": round(statistics.median(rounds), 3),
                        "by_hand_rounds": [round(min(rounds), 3), round(max(rounds), 3)],
                        "measured": each["gain"],
                        "low": each["low"],
                        "high": each["high"],
                        "blocks": each["blocks"],
                    }
                )
        measured |= {"torch": version, "machine": f"{len(os.sched_getaffinity(0))} cores"}
        measured["load"] = round(os.getloadavg()[2])
        MEASURED.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
        print(name, f"{statistics.median(rounds):.2f}", [(each["switch"], each["gain"]) for each in trials])


if __name__ == "__main__":
    main()
