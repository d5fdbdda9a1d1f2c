"""``python -m tests.mutation [--count N] [--only TEXT] [--tests FILE ...]``: does a test notice a changed constant?

Each constant of rules and parsers is made larger and smaller, and the tests run that reach a function which reads it.
Which ones these are, a run of all of them notes first; it is kept in .pytest_cache until ``--anew``. With ``--tests``
nothing is noted: those files are asked, which takes seconds while one writes them. What no test
noticed is listed, and the share of what was noticed is told last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from parsers.model.late import dataclass
from tests.mutation import changed
from tests.mutation.constants import (
    REPOSITORY,
    Constant,
    constants,
    importers_of,
    made_of_it_as_loaded,
    read_by,
)
from tests.mutation.forked import HANG_S, Forked, Task
from tests.mutation.reached import FILE

TESTS = ("tests/rules", "tests/parsers")
MAP = REPOSITORY / ".pytest_cache" / "reached.json"
WANTED = 0.95
LATEST = REPOSITORY / ".pytest_cache" / "reached_latest.json"
NOTICED = REPOSITORY / ".pytest_cache" / "noticed.json"
DIRECT = 50  # functions that a test runs, fixtures included, which asks one of them directly
AT_A_TIME = 8  # tests of one function with different parameters
ID = re.compile(r'^    id = "([\w-]+)"', re.MULTILINE)  # of a rule or a fix
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")


@dataclass(frozen=True)
class Reached:
    """Seconds that each test takes, and the functions it runs, as "file:function"."""

    tests: dict[str, tuple[float, frozenset[str]]]

    @staticmethod
    def noted(anew: bool) -> Reached:
        """What a run of all tests noted, now or before; test files that were written since are run again."""
        files = sorted(file for folder in TESTS for file in (REPOSITORY / folder).rglob("test_*.py"))
        noted: dict[str, Any] = {"places": [], "tests": {}}
        if MAP.exists() and not anew:
            noted = json.loads(MAP.read_text())
            files = [file for file in files if file.stat().st_mtime > MAP.stat().st_mtime]
        names = {file.relative_to(REPOSITORY).as_posix() for file in files}
        places, tests = noted["places"], noted["tests"]
        found = {test: entry for test, entry in tests.items() if test.partition("::")[0] not in names}
        if names:
            MAP.parent.mkdir(exist_ok=True)
            words = [sys.executable, "-m", "pytest", *OPTIONS, "-p", "tests.mutation.reached", *sorted(names)]
            subprocess.run(words, cwd=REPOSITORY, env=os.environ | {FILE: str(LATEST)}, check=False)
            latest = json.loads(LATEST.read_text())
            found |= {
                test: (seconds, [len(places) + number for number in numbers])
                for test, (seconds, numbers) in latest["tests"].items()
            }
            places += latest["places"]
            MAP.write_text(json.dumps({"places": places, "tests": found}))
        return Reached(
            {
                test: (seconds, frozenset(places[number] for number in numbers))
                for test, (seconds, numbers) in found.items()
            }
        )

    def tests_of(self, constant: Constant, most_s: float) -> list[str]:
        """Tests that run what reads a constant, ``most_s`` of a processor all together.

        First come those that call it directly, that are named after a module that reads it or asks what does, or after
        a rule or fix there, that speak of one, or in a file that does, then the quick ones; of one with parameters some
        at a time.
        """
        readers = read_by(constant)
        reading = {f"{file}:{function}" for file, function in readers if function}
        loaded = tuple(f"{file}:" for file, function in readers if not function)
        files = {file for file, _ in readers}
        askers = files | importers_of(files)
        stems = {Path(file).stem.removesuffix("s") for file in askers}
        ids = {name for file in askers for name in ID.findall(_text(file))}
        subject = re.compile("|".join([*("[_ -]".join(stem.split("_")) for stem in stems), *ids]))
        by_function: dict[str, list[tuple[float, str]]] = {}
        direct = set()
        for test, (seconds, places) in self.tests.items():
            if not places.isdisjoint(reading) or (
                loaded and any(place.startswith(loaded) for place in places)
            ):
                by_function.setdefault(test.partition("[")[0], []).append((seconds, test))
                direct |= {test} if len(places) <= DIRECT else set()
        found = [
            (
                test not in direct,
                subject.search(test) is None,
                subject.search(_body(test.partition("[")[0])) is None,
                subject.search(_text(test.partition("::")[0])) is None,
                number // AT_A_TIME,
                seconds,
                test,
            )
            for tests in by_function.values()
            for number, (seconds, test) in enumerate(sorted(tests))
        ]
        chosen, spent = [], 0.0
        for *_, seconds, test in sorted(found):
            spent += seconds
            if chosen and spent > most_s:
                break
            chosen.append(test)
        return chosen


_texts: dict[str, str] = {}


def _text(file: str) -> str:
    if file not in _texts:
        _texts[file] = (REPOSITORY / file).read_text("utf-8")
    return _texts[file]


def _body(test: str) -> str:
    file, _, name = test.partition("::")
    return _text(file).partition(f"def {name}(")[2].partition("\n\n\n")[0]


def _in_a_process(task: Task) -> str | None:
    """The test that fails, or never ends, in a process of its own where a constant has another value."""
    if not task.tests:
        return None
    words = [sys.executable, "-m", "pytest", *OPTIONS, "-x", "-p", "tests.mutation.changed", *task.tests]
    environment = os.environ | changed.change_of(task.constant, task.value)
    try:
        done = subprocess.run(
            words,
            cwd=REPOSITORY,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "hang"
    if done.returncode == pytest.ExitCode.OK:
        return None
    if done.returncode not in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED):
        raise RuntimeError(f"{task.constant} could not be changed: {done.stdout}{done.stderr}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else "an error"


def _key(constant: Constant, value: float) -> str:
    return f"{constant.file} {constant.name} {value:g}"


def main() -> int:
    """Change constants, then say which changes nobody noticed; 1 where these are too many."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, help="so many constants, drawn at random; else all")
    parser.add_argument("--seed", default="0", help="what they are drawn by")
    parser.add_argument("--only", default="", help="those alone whose file and name have this in them")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40.0, help="so long tests may look for one change")
    parser.add_argument("--tests", nargs="+", default=[], help="ask these files alone, whatever they reach")
    parser.add_argument("--anew", action="store_true", help="note again which tests reach what")
    options = parser.parse_args()
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    reached = Reached({}) if options.tests else Reached.noted(options.anew)
    noticing: dict[str, str] = json.loads(NOTICED.read_text()) if NOTICED.exists() else {}
    chosen = [constant for constant in constants() if options.only in str(constant)]
    if options.count is not None and options.count < len(chosen):
        chosen = random.Random(options.seed).sample(chosen, options.count)
    tasks = []
    for constant in chosen:
        tests = options.tests or reached.tests_of(constant, options.seconds)
        for value in constant.changes():
            before = noticing.get(_key(constant, value))
            first = [before] if before in reached.tests else []
            seconds = sum(reached.tests[test][0] for test in tests if test in reached.tests)
            tasks.append(
                Task(constant, value, [*first, *(test for test in tests if test not in first)], seconds)
            )
    by: dict[Task, str | None] = {}

    def report(task: Task, test: str | None) -> None:
        told = f"{task.constant} -> {task.value:g}"
        by[task] = test
        if test is not None:
            noticing[_key(task.constant, task.value)] = test
            NOTICED.write_text(json.dumps(noticing, indent=0, sort_keys=True))
        print(
            "noticed" if test else "MISSED ",
            told,
            f"by {test}" if test else f"{len(task.tests)} tests",
            flush=True,
        )

    slow = [task for task in tasks if made_of_it_as_loaded(task.constant)]
    quick = [task for task in tasks if task not in slow]
    with ThreadPoolExecutor(options.processes) as pool:
        for task, noticed in zip(slow, pool.map(_in_a_process, slow), strict=True):
            report(task, noticed)
    if quick:
        files = sorted({test.partition("::")[0] for task in quick for test in task.tests})
        forked = Forked(quick, options.processes, report)
        pytest.main([*OPTIONS, *files], plugins=[forked])
        for test in forked.failing:
            print("fails always:", test)
        by |= {task: None for task, test in by.items() if test in forked.failing}
    if len(by) < len(tasks):
        raise SystemExit(f"{len(tasks) - len(by)} changes were not tried: tests could not be collected")
    missed = [f"  {task.constant} -> {task.value:g}" for task, test in by.items() if test is None]
    print("\nmissed:", *sorted(missed), sep="\n")
    share = 1 - len(missed) / max(len(tasks), 1)
    print(
        f"{len(tasks) - len(missed)} of {len(tasks)} changes of {len(chosen)} constants noticed: {share:.1%}"
    )
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
