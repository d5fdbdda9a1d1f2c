"""``python -m tests.processes.kills --count 500``: ends commands at random moments, and counts what is left of them.

A trial draws a command, whether it has been run before (and so finds its recording in the cache), a moment of its usual
duration, a signal, and whom it hits. Afterwards nothing may be left, and the same command must do what it always did.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path

from parsers.model.late import dataclass
from tests.limits import hear_signals
from tests.processes.answers import is_mistaken
from tests.processes.installed import install, installed_in
from tests.processes.place import BUSY, FREE, Done, Hangs, Place, kill, processes_with
from tests.processes.recordings import Recordings
from tests.processes.subjects import LOOKED_AT_S, SUBJECTS, Subject
from tests.shared_folder import SharedFolder

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
LATEST = 1.1  # of the usual duration
BAD_INPUT, INTERRUPTED = 2, 130
UNFINISHED = re.compile(r"\.stallscope-.*\.part")


class Victim(StrEnum):
    """Who is hit."""

    PARENT = "the command"
    HELPER = "its helpers"
    ALL = "all of them"  # as by Ctrl+C, or when the terminal goes


@dataclass(frozen=True, slots=True)
class Trial:
    """One kill; ``moment`` is a share of the usual duration."""

    subject: Subject
    signal: signal.Signals
    victim: Victim
    moment: float
    again: bool  # its recording is in the cache

    def __str__(self) -> str:
        cached = ", in the cache" if self.again else ""
        return f"{self.subject}{cached}: {self.signal.name} to {self.victim} at {self.moment:.0%} of its duration"


def is_killed(trial: Trial) -> bool:
    """Whether the command has no moment left to clear away."""
    return trial.signal is signal.SIGKILL and trial.victim is not Victim.HELPER


class Killing:
    """Trials of one command, in a place of its own; what it does undisturbed is found out first."""

    def __init__(self, subject: Subject, place: Place, recordings: Recordings) -> None:
        self.subject, self.place, self._recordings = subject, place, recordings
        self._words = subject.words(place, recordings)
        subject.prepare(place, recordings)
        self._usual = self._undisturbed()
        self._seconds = {False: self._usual.seconds}
        self._sizes = self._written()
        assert self._usual.code in subject.codes, self._usual.err
        assert place.left() == []

    def faults(self, trial: Trial) -> list[str]:
        """What is wrong after a kill: one line each."""
        try:
            found = list(self._killed(trial))
            found += self.place.left(is_killed(trial))
            self._clear(again=True)
            found += [f"run again: {each}" for each in self._differs(self._undisturbed())]
            found += [f"run again: {each}" for each in self.place.left()]
        except Hangs as error:
            found = [str(error)]
        finally:
            kill(processes_with(self.place.mark))
            # what this one left is not the next one's
            shutil.rmtree(self.place.temporary, ignore_errors=True)
            self.place.temporary.mkdir()
        return found

    def _killed(self, trial: Trial) -> Iterator[str]:
        seconds = self._usual_s(trial.again)
        self._clear(trial.again)
        with self.place.started(*self._words, stdin=-1) as running:
            asked = self.subject.asked(self.place, self._recordings)
            if asked and running.process.stdin:
                running.process.stdin.write(asked)
                running.process.stdin.flush()
            time.sleep(seconds * trial.moment)
            was_hit = trial.victim is not Victim.HELPER and running.send(trial.signal)
            if trial.victim is not Victim.PARENT:
                running.send(trial.signal, helper=True)
            done = running.done() if was_hit else self.subject.ended(self.place, self._recordings, running)
        if is_mistaken(done, trial.signal):
            yield f"a traceback: {done.err[-1500:]}"
        ends = {-trial.signal, 128 + trial.signal, INTERRUPTED} if was_hit else {BAD_INPUT}
        if done.code in self.subject.codes:
            yield from self._differs(done)
        elif done.code not in ends:
            yield f"exit code {done.code}: {done.err[-300:]}"
        elif done.code == BAD_INPUT and done.err.count("stallscope: ") != 1:
            yield f"a refusal is one sentence: {done.err[-500:]}"
        elif done.code != BAD_INPUT:
            yield from (f"half written: {name}" for name in self._half_written(is_killed(trial)))

    def _differs(self, done: Done) -> Iterator[str]:
        """How what was done differs from the usual."""
        if done.code not in self.subject.codes:
            yield f"exit code {done.code}: {done.err[-300:]}"
        elif self.subject.is_same_again and not self.subject.lasts and done.out != self._usual.out:
            yield f"another answer: {done.out[:100]!r} ... {len(done.out)} bytes, {len(self._usual.out)} before"
        elif self._written() != self._sizes:
            yield f"wrote {self._written()}, {self._sizes} before"

    def _half_written(self, is_killed: bool) -> Iterator[str]:
        """What was not written to its end; one that could not clear away may leave it, but not under its final name."""
        for name, size in self._written().items():
            if self._sizes.get(name) != size and not (is_killed and UNFINISHED.fullmatch(name)):
                yield name

    def _written(self) -> dict[str, int]:
        return {each.name: each.stat().st_size for each in self.place.written.iterdir()}

    def _usual_s(self, again: bool) -> float:
        """How long it takes undisturbed, measured where it is not known yet."""
        if self.subject.lasts:
            return LOOKED_AT_S
        if again not in self._seconds:
            self._clear(again)
            self._seconds[again] = self._undisturbed().seconds
        return self._seconds[again]

    def _undisturbed(self) -> Done:
        return self.subject.to_its_end(self.place, self._recordings)

    def _clear(self, again: bool) -> None:
        for each in self.place.written.iterdir():
            each.unlink()
        if not again:
            shutil.rmtree(self.place.cache, ignore_errors=True)


def drawn(count: int, seed: int) -> list[Trial]:
    """So many trials, by chance."""
    chance = random.Random(seed)
    return [
        Trial(
            chance.choice(SUBJECTS),
            chance.choice(SIGNALS),
            chance.choice(list(Victim)),
            chance.uniform(0, LATEST),
            chance.random() < 0.5,
        )
        for _ in range(count)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials; 1 when any of them leaves something, hangs, or breaks what comes after it."""
    parser = argparse.ArgumentParser(prog="python -m tests.processes.kills", description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="commands that are killed at the same time")
    parser.add_argument("--only", action="append", default=[], choices=[str(each) for each in SUBJECTS])
    parser.add_argument("--busy", action="store_true", help="as on a machine whose processors are all taken")
    options = parser.parse_args(arguments)
    hear_signals()
    shared = SharedFolder(f"stallscope-kills-{uuid.uuid4().hex}")
    try:
        faulty = _run(options, shared)
    finally:
        shared.leave()
    return 1 if faulty else 0


def _run(options: argparse.Namespace, shared: SharedFolder) -> int:
    installed = installed_in(shared.once("installed", install))
    recordings = Recordings(shared)
    trials = drawn(options.count, options.seed)
    if options.only:
        trials = [each for each in trials if str(each.subject) in options.only]
    interrupted = threading.Event()

    def tried(subject: Subject) -> int:
        """How many of its trials were at fault, each told as soon as it is known."""
        of_it = [each for each in trials if each.subject is subject]
        if not of_it:
            return 0
        faulty = 0
        with tempfile.TemporaryDirectory(prefix="stallscope-killed-", dir=shared.path) as folder:
            place = Place(Path(folder), installed, load=BUSY if options.busy else FREE)
            try:
                killing = Killing(subject, place, recordings)
            except AssertionError as error:
                print(f"{subject}: undisturbed: {error}", flush=True)
                return len(of_it)
            for trial in of_it:
                if interrupted.is_set():
                    break
                if faults := killing.faults(trial):
                    faulty += 1
                    print("\n    ".join((str(trial), *faults)), flush=True)
        print(f"{subject}: {len(of_it)} kills", flush=True)
        return faulty

    with ThreadPoolExecutor(options.processes) as pool:
        try:
            faulty = sum(pool.map(tried, SUBJECTS))
        except KeyboardInterrupt:
            interrupted.set()
            raise
    print(f"{len(trials)} kills, {faulty} of them left something, hung, or broke what came after")
    return faulty


if __name__ == "__main__":
    sys.exit(main())
