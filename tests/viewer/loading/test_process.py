"""What a loading process reads is what this process would have read, its refusals included."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.files import base
from parsers.model import Cancelled, Malformed, Progress, Trace, TraceError, UnknownFormat
from parsers.storage import cache
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.terms import MIN_SHARE, Thresholds
from tests.examples import one_of
from tests.limits import room_in_a_file
from tests.opened import diagnosed, opened
from tests.parsers.traces import assert_same
from viewer.loading import serve
from viewer.loading.process import CannotLoadThere, LoadingFailed, LoadingProcess
from viewer.timeline.geometry.drawing_index import build_index

from .conftest import MISTAKEN, RUNNING_OUT, SCARCE, STUCK, is_alive


def read(paths: list[Path], thresholds: Thresholds | None = None) -> LoadingProcess:
    return LoadingProcess(paths, thresholds or Thresholds())


def ignore(_: Trace) -> None:
    """No preview is wanted."""


@pytest.fixture
def loading(recording: Path) -> Iterator[LoadingProcess]:
    made = read([recording])
    yield made
    made.close()


def test_trace_analysis_and_diagnosis_are_those_of_reading_here(
    loading: LoadingProcess, recording: Path
) -> None:
    previews: list[Trace] = []
    trace = loading.trace(Progress(), previews.append)
    analysis, diagnosis = loading.analysis(trace, Progress())
    here = open_trace([recording])
    assert_same(here, trace)
    assert [3_000 <= len(first.events) < len(trace.events) for first in previews] == [True]
    assert diagnosis == diagnose(here)
    assert analysis.trace is trace
    assert analysis.steps == Analysis(here).steps
    assert analysis.budgets(0) == Analysis(here).budgets(0)
    drawn = build_index(here)
    assert any(row.clock is not None for rows in drawn.rows for row in rows)
    assert plain(loading.index(trace)) == plain(drawn)
    next(loading.folder.path.glob("drawing*")).write_bytes(b"cut")
    assert plain(loading.index(trace)) == plain(drawn)


def plain(value: object) -> object:
    """What a drawing index holds, so that two can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if is_dataclass(value):
        return [plain(getattr(value, each.name)) for each in fields(value)]
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return {key: plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def test_a_run_of_several_ranks_is_merged_there(fixtures: Path) -> None:
    made = read([fixtures / "ddp"])
    try:
        trace = made.trace(Progress(), ignore)
        assert_same(opened(fixtures / "ddp"), trace)
        assert {lane.rank for lane in trace.lanes} >= {0, 1, 2, 3}
    finally:
        made.close()


def test_the_rules_decide_by_the_thresholds_of_the_window(fixtures: Path) -> None:
    chosen = Thresholds({MIN_SHARE.key: 0.5})
    made = read([fixtures / "ddp"], chosen)
    try:
        trace = made.trace(Progress(), ignore)
        _, diagnosis = made.analysis(trace, Progress())
    finally:
        made.close()
    here = fixtures / "ddp"
    assert diagnosis == diagnose(opened(here), thresholds=chosen) != diagnosed(here)


@pytest.mark.thorough
def test_what_was_read_is_analysed_again_by_other_thresholds_without_reading_it_again(
    loading: LoadingProcess, recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    trace = loading.trace(Progress(), ignore)
    _, by_usual = loading.analysis(trace, Progress())
    before_it_reads(MISTAKEN)
    here = open_trace([recording])
    for chosen in (Thresholds({MIN_SHARE.key: 0.5}), Thresholds()):
        another = loading.again(chosen)
        analysis, diagnosis = another.analysis(trace, Progress())
        another.close()
        assert analysis.trace is trace
        assert diagnosis == diagnose(here, thresholds=chosen)
        assert (diagnosis == by_usual) == (chosen == Thresholds())
    assert not is_alive(loading.number)


@pytest.mark.thorough
def test_columns_that_are_gone_cannot_be_analysed_again_there(loading: LoadingProcess) -> None:
    trace = loading.trace(Progress(), ignore)
    assert loading.handed is not None
    Path(loading.handed.file).unlink()
    another = loading.again(Thresholds({MIN_SHARE.key: 0.5}))
    with pytest.raises(CannotLoadThere, match="gone"):
        another.analysis(trace, Progress())
    another.close()


@pytest.mark.thorough
def test_progress_comes_through(loading: LoadingProcess) -> None:
    said: list[str] = []
    trace = loading.trace(Progress(lambda _, doing: said.append(doing)), ignore)
    loading.analysis(trace, Progress(lambda _, doing: said.append(doing)))
    assert "starting to read" in said
    assert len(set(said)) > 1


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    one_of(
        3,
        [
            ("words.txt", b"these are no events", UnknownFormat),
            ("nothing.json", b"", Malformed),
            ("list.json", b'{"traceEvents": []}', Malformed),
            ("absent.json", None, TraceError),
        ],
    ),
)
def test_a_refusal_is_the_same_sentence(
    tmp_path: Path, name: str, content: bytes | None, kind: type[TraceError]
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    made = read([path])
    with pytest.raises(TraceError) as elsewhere:
        made.trace(Progress(), ignore)
    with pytest.raises(TraceError) as here:
        open_trace([path])
    assert type(elsewhere.value) is type(here.value) is kind
    assert str(elsewhere.value) == str(here.value)
    made.close()


def test_running_out_of_memory_there_is_said(recording: Path, before_it_reads: Callable[[str], None]) -> None:
    before_it_reads(RUNNING_OUT)
    with pytest.raises(TraceError, match="not enough memory"):
        read([recording]).trace(Progress(), ignore)


def test_a_mistake_there_comes_with_its_report(
    recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    before_it_reads(MISTAKEN)
    with pytest.raises(LoadingFailed, match="ZeroDivisionError: of ours"):
        read([recording]).trace(Progress(), ignore)


def test_a_killed_process_is_said_with_a_hint(
    recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    before_it_reads(STUCK)
    made = read([recording])
    with pytest.raises(TraceError) as told:
        made.trace(Progress(), lambda _: os.kill(made.number, signal.SIGKILL))
    assert "signal 9" in told.value.problem
    assert "memory" in told.value.problem
    assert told.value.hint
    assert told.value.path == recording


def test_cancelling_ends_the_process(recording: Path, before_it_reads: Callable[[str], None]) -> None:
    before_it_reads(STUCK)
    made, progress = read([recording]), Progress()
    with pytest.raises(Cancelled):
        made.trace(progress, lambda _: progress.cancel())
    made.close()
    assert not is_alive(made.number)


def test_a_suspended_process_is_waited_for_and_ended_when_the_user_wants_it(recording: Path) -> None:
    def suspended(made: LoadingProcess, then: Callable[[], None]) -> Progress:
        os.kill(made.number, signal.SIGSTOP)
        looks = itertools.count()
        return Progress(lambda *_: then() if next(looks) == 3 else None)

    made = read([recording])
    trace = made.trace(suspended(made, lambda: os.kill(made.number, signal.SIGCONT)), ignore)
    assert len(trace.events) > 10_000
    made.close()
    made = read([recording])
    progress = suspended(made, lambda: progress.cancel())
    with pytest.raises(Cancelled):
        made.trace(progress, ignore)
    made.close()
    assert not is_alive(made.number)


@pytest.mark.parametrize(
    "limited",
    [SCARCE, "import resource; resource.setrlimit(resource.RLIMIT_AS, (100 << 20,) * 2)\n"],
    ids=["while it reads", "while it starts"],
)
def test_a_process_that_may_not_have_more_memory_is_said_in_a_sentence(
    recording: Path, before_it_reads: Callable[[str], None], limited: str
) -> None:
    before_it_reads(limited)
    made = read([recording])
    with pytest.raises(TraceError) as told:
        made.trace(Progress(), ignore)
    assert "memory" in str(told.value)
    made.close()


def test_the_process_ends_when_its_window_is_gone(
    recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    before_it_reads(STUCK)
    made = read([recording])
    process_of_it = made._helper.process
    assert process_of_it.stdin is not None
    process_of_it.stdin.close()
    assert process_of_it.wait(timeout=60) == 1


def test_what_nobody_holds_any_more_is_ended(recording: Path, before_it_reads: Callable[[str], None]) -> None:
    before_it_reads(STUCK)
    made = read([recording])
    number, folder = made.number, made.folder.path
    del made
    assert not is_alive(number)
    assert not folder.exists()


@pytest.mark.thorough
def test_a_disk_without_room_is_no_reason_to_fail(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with room_in_a_file(100_000):
        made = read([recording])
    with pytest.raises(CannotLoadThere, match="could not be written"):
        made.trace(Progress(), ignore)
    made.close()
    assert not list(cache.folder().glob("*")) if cache.folder().exists() else True


def test_what_a_library_prints_does_not_get_between_the_messages(
    recording: Path, before_it_reads: Callable[[str], None]
) -> None:
    before_it_reads("import os, parsers\nusual = parsers.open_trace\ndef loud(*a, **b):\n")
    before_it_reads("    print('loud', flush=True); os.write(1, b'louder\\n')\n    return usual(*a, **b)\n")
    before_it_reads("parsers.open_trace = loud\n")
    made = read([recording])
    assert len(made.trace(Progress(), ignore).events) > 10_000
    made.close()


@pytest.mark.parametrize("is_asked", [True, False])
def test_all_parsers_are_loaded_only_while_nobody_has_asked_yet(
    is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    monkeypatch.setattr(serve, "is_asked", lambda: is_asked)
    monkeypatch.setattr(serve, "collect_seldom", int)
    monkeypatch.setattr(base, "parsers", lambda: loaded.append("all"))
    serve.prepare()
    assert loaded == ([] if is_asked else ["all"])
