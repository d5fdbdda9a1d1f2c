"""The journal of a program: what a recording promised, what the next one got, and which recordings belong together."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Progress
from rules import Diagnosis, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.comparison.gate import Judgement
from rules.fixes.plan import Plan
from rules.gates.against_kept import judgement_on
from rules.gates.figures import RunFigures
from rules.gates.kept_promises import KeptPromise, promises_of, since_then
from viewer.capture.request import CaptureRequest, Target, Tool
from viewer.capture.storage import History as Runs
from viewer.capture.storage import Run
from viewer.capture.trials.journal import keep_in_journal, program_of, run_that_made
from viewer.commands.capture import diagnose_and_keep
from viewer.user_data.history import History, Series

Analysed = tuple[Analysis, Diagnosis]


@pytest.fixture(scope="session")
def slow_and_mended() -> tuple[Analysed, Analysed]:
    folder = Path(__file__).parents[1] / "fixtures" / "programs"
    found = []
    for name in ("fields", "fields.fixed"):
        analysis = Analysis(open_trace([folder / f"{name}.pt.trace.json.gz"], Progress()))
        found.append((analysis, diagnosis_of(analysis)))
    return found[0], found[1]


def request(*arguments: str, host: str = "", tool: Tool = Tool.TORCH) -> CaptureRequest:
    return CaptureRequest(tool=tool, target=Target(program="/a/train.py", arguments=arguments), on=host)


def test_a_program_is_the_same_whatever_its_numbers() -> None:
    assert program_of(request("--lr", "1e-4", "--batch=64")) == program_of(
        request("--lr", "0.5", "--batch=128")
    )
    others = [request("--lr"), request(host="ssh:me@there"), request(tool=Tool.NSYS)]
    assert len({program_of(each) for each in (*others, request())}) == 4


def test_the_next_recording_says_what_became_of_the_promises(
    tmp_path: Path, slow_and_mended: tuple[Analysed, Analysed]
) -> None:
    history = History()
    slow, mended = slow_and_mended
    first, second = (Run(tmp_path, request(), 1000.0 + number) for number in range(2))
    assert keep_in_journal(first, *slow) is None
    told = keep_in_journal(second, *mended)
    assert told is not None
    assert "promised" in told.lines[0]
    assert "got" in told.lines[0]
    assert told.lines[-1].startswith("Next: ")
    assert keep_in_journal(first, *slow) is None, "an older recording is no news"
    entries = history.entries(Series.PROGRAM, told.program)
    assert [each.saved for each in entries] == [1000.0, 1001.0]
    assert entries[0].promises


def test_a_recording_dated_by_a_wrong_clock_does_not_silence_the_journal(
    tmp_path: Path, slow_and_mended: tuple[Analysed, Analysed]
) -> None:
    slow, mended = slow_and_mended
    now = time.time()
    keep_in_journal(Run(tmp_path, request(), now + 1e8), *slow)
    assert keep_in_journal(Run(tmp_path, request(), now), *mended) is not None
    assert keep_in_journal(Run(tmp_path, request(), now - 1), *slow) is None


def run_of(step_ms: float) -> RunFigures:
    import numpy as np

    series = np.full(40, step_ms * 1e6)
    return RunFigures(("a",), ("GPU",), "ProfilerStep", series, series, series * 0, series)


def judged(before: float, after: float) -> Judgement:
    return judgement_on([run_of(before)], [run_of(after)])


PROMISE = KeptPromise("loader@x", "Load the data elsewhere", 1.6, 1.8, 2.1)


@pytest.mark.parametrize(
    ("after_ms", "said"),
    [
        (55, "promised 1.6 to 2.1x, got 1.8x: done."),
        (80, "got 1.2x (1.2 to 1.3x): less than promised. Now first: a slow loss."),
        (30, "done, and more than promised."),
    ],
)
def test_a_promise_is_held_against_what_was_got(
    after_ms: float, said: str, slow_and_mended: tuple[Analysed, Analysed]
) -> None:
    from rules.fixes.plan import plan_of

    plan = plan_of(slow_and_mended[1][0])
    assert said in since_then([PROMISE], judged(100, after_ms), plan, "a slow loss")[0]


def test_what_is_still_proposed_is_not_done(slow_and_mended: tuple[Analysed, Analysed]) -> None:
    from rules.fixes.plan import plan_of

    plan: Plan = plan_of(slow_and_mended[0][0])
    promised = promises_of(plan)
    assert since_then(promised, judged(100, 100.2), plan, "")[0].startswith(f"Not done: {promised[0].title}")
    larger = [replace(promised[0], expected=promised[0].expected * 3)]
    assert "so far; about" in since_then(larger, judged(100, 70), plan, "")[0]
    different = replace(run_of(90), gpus=("Other",))
    assert "different GPUs" in since_then(promised, judgement_on([run_of(90)], [different]), plan, "")[0]


def test_a_recording_from_the_command_line_is_kept_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fixtures: Path
) -> None:
    for name in ("fields", "fields.fixed"):
        path = fixtures / "programs" / f"{name}.pt.trace.json.gz"
        run = Runs().begin(request())
        Runs().save(replace(run, recordings=(path,)))
        assert run_that_made([path]) is not None
        assert diagnose_and_keep([path], "nightly") == 0
    printed = capsys.readouterr().out
    assert printed.count("Since the recording of") == 1
    assert "(nightly):" in printed


def test_a_folder_of_ranks_is_known_by_the_run_that_alone_wrote_into_it(tmp_path: Path) -> None:
    ranks = tuple(tmp_path / f"train.rank{rank}.pt.trace.json.gz" for rank in range(2))
    run = replace(Runs().begin(request()), recordings=ranks)
    Runs().save(run)
    for named in ([tmp_path], list(ranks), [ranks[0], tmp_path]):
        made = run_that_made(named)
        assert made is not None
        assert made.folder == run.folder
    for others in ([ranks[0]], [tmp_path, tmp_path / "other.json"], [tmp_path.parent]):
        assert run_that_made(others) is None
    Runs().save(replace(Runs().begin(request()), recordings=(tmp_path / "other.pt.trace.json.gz",)))
    assert run_that_made([tmp_path]) is None
    assert run_that_made(list(ranks)) is not None
