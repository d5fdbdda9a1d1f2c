"""What is said of memory: what fills it, whether it grows, and why it ran out."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - to write snapshots, which are read as data
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from parsers import open_trace
from parsers.model import Trace
from rules import diagnose
from rules.analysis.analysis import Analysis
from rules.comparison.compare import compare
from rules.memory.kinds import Kind
from rules.memory.operators import operators_of
from rules.memory.summary import growth, memory_of
from rules.verdict.verdict import verdict
from rules.wording.memory import memory_lines
from tests.opened import opened
from tests.parsers.snapshots import FORWARD, LOSS, OPTIMIZER, OWN, PLACED, Snapshot
from viewer.cli import main
from viewer.reports.comparison_blocks import as_text
from viewer.statistics.operators import operator_times

MB = 1 << 20


def fixture(fixtures: Path, name: str) -> Trace:
    return opened(fixtures / "memory" / f"{name}.snapshot.pickle.gz")


def written(folder: Path, snapshot: Snapshot) -> Trace:
    (folder / "snapshot.pickle").write_bytes(pickle.dumps(snapshot.content()))
    return open_trace([folder / "snapshot.pickle"])


def rules_that_speak(trace: Trace) -> set[str]:
    return {each.rule for each in diagnose(trace).findings}


def test_parameters_and_optimizer_state_are_what_the_process_counted(fixtures: Path) -> None:
    (summary,) = memory_of(Analysis(fixture(fixtures, "sound")))
    assert summary.account is not None
    kinds = summary.account.by_kind(summary.peak_at)
    assert kinds[Kind.PARAMETERS] == pytest.approx(180_684_800, rel=0.02)
    assert kinds[Kind.OPTIMIZER] == pytest.approx(361_369_904, rel=0.02)
    assert sum(kinds.values()) == summary.peak_allocated


def of_one_block(folder: Path, *frames: dict[str, object]) -> str:
    """What is said of a process that holds 100 MB made below these frames, and 8 MB more."""
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 100 * MB, 10, frames)
    snapshot.event("alloc", 200 * MB, 8 * MB, 20, OWN)
    return verdict_of(written(folder, snapshot))


def verdict_of(trace: Trace) -> str:
    return verdict(Analysis(trace), diagnose(trace))


@pytest.mark.parametrize("function", ["init_weight", "load_weights", "create_weights", "init_all_weights"])
def test_what_is_made_while_weights_are_loaded_are_parameters(tmp_path: Path, function: str) -> None:
    own = {"name": function, "filename": "/home/me/engine.py", "line": 133}
    assert of_one_block(tmp_path, own).endswith("93 % of it parameters")


def test_where_no_kind_is_known_the_line_that_made_most_of_it_is_told(tmp_path: Path) -> None:
    unwinding = {"name": "torch::unwind::unwind()", "filename": "??", "line": 0}
    cache = {"name": "grow", "filename": "/home/me/cache.py", "line": 40}
    assert of_one_block(tmp_path, unwinding, cache).endswith("93 % of it allocated in grow (cache.py:40)")


@pytest.mark.parametrize(
    ("sizes", "said"), [((60, 50), "55 % of it allocated in train (train.py:1)"), ((40, 35, 35), "unknown")]
)
def test_a_line_that_made_half_of_what_is_of_no_kind_is_told_with_its_own_part(
    tmp_path: Path, sizes: tuple[int, ...], said: str
) -> None:
    snapshot = Snapshot()
    for line, megabytes in enumerate(sizes, 1):
        frame = {"name": "train", "filename": "/home/me/train.py", "line": line}
        snapshot.event("alloc", 200 * MB * line, megabytes * MB, 10 * line, (frame,))
    assert verdict_of(written(tmp_path, snapshot)).endswith(said)


def test_a_place_where_memory_was_freed_is_not_told_as_where_it_was_made(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 8 * MB, 10)
    snapshot.event("free_requested", 200 * MB, 100 * MB, 20, OWN)
    assert "allocated in" not in verdict_of(written(tmp_path, snapshot))


def test_what_was_held_before_and_freed_meanwhile_is_older_whatever_freed_it(tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 8 * MB, 10, FORWARD)
    snapshot.event("free_requested", 200 * MB, 100 * MB, 20, OWN)
    snapshot.event("free_completed", 200 * MB, 100 * MB, 20, OWN)
    assert (
        verdict_of(written(tmp_path, snapshot))
        == "Memory peaks at 113 MB, 93 % of it allocated before the recording"
    )


@pytest.mark.parametrize(("times", "is_said"), [(9, False), (10, True)])
def test_that_the_cache_is_emptied_again_and_again_is_said(times: int, is_said: bool, tmp_path: Path) -> None:
    """Once it falls by two segments, which is once."""
    snapshot = Snapshot()
    snapshot.event("alloc", 200 * MB, 8 * MB, 1, OWN)
    for number in range(times):
        snapshot.event("segment_alloc", 0, 20 * MB, 10 * number + 2)
        snapshot.event("segment_alloc", 40 * MB, 20 * MB, 10 * number + 3)
        snapshot.event("segment_free", 0, 20 * MB, 10 * number + 4)
        snapshot.event("segment_free", 40 * MB, 20 * MB, 10 * number + 5)
    snapshot.segment(200 * MB, (8 * MB, True))
    trace = written(tmp_path, snapshot)
    said = "\n".join(memory_lines(memory_of(Analysis(trace))[0], Analysis(trace)))
    assert ("requested again 10 times" in said, "requested again" in said) == (is_said, is_said)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_snapshot_without_history_tells_of_no_peak(recorded: bool, tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.segment(0, (100 * MB, True), (50 * MB, False))
    if recorded:
        snapshot.event("alloc", 200 * MB, 8 * MB, 20, OWN)
    trace = written(tmp_path, snapshot)
    said = "\n".join(memory_lines(memory_of(Analysis(trace))[0], Analysis(trace)))
    without = "The snapshot shows a single moment: 105 MB in use of 157 MB reserved"
    assert (verdict_of(trace) == without) is not recorded
    assert ("at most" in said) is recorded
    assert ("when it was saved" in said) is not recorded


@pytest.mark.parametrize("recorded", [False, True])
def test_what_a_snapshot_without_history_reserves_is_of_its_moment(recorded: bool, tmp_path: Path) -> None:
    snapshot = Snapshot()
    snapshot.segment(0, (1000 * MB, True), (2000 * MB, False))
    if recorded:
        snapshot.event("alloc", 200 * MB, 8 * MB, 20, OWN)
    (found,) = (
        each for each in diagnose(written(tmp_path, snapshot)).findings if each.rule == "memory-nearly-full"
    )
    assert ("Tensors never use more" in found.explanation) is recorded
    assert (
        "When the snapshot was saved, the program reserved 3.15 GB. Tensors used" in found.explanation
    ) is not recorded


@pytest.mark.parametrize(("lines", "named"), [(20, 20), (25, 20)])
def test_the_twenty_lines_that_allocate_most_are_named(tmp_path: Path, lines: int, named: int) -> None:
    snapshot = Snapshot()
    for line in range(lines):
        frames = ({"name": "train", "filename": "/home/me/train.py", "line": line + 1},)
        snapshot.event("alloc", 0x1000 + line * 2 * MB, (line + 1) * 4096, 100 + line, frames)
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.account is not None
    sites = summary.account.by_site(np.ones(lines, bool))
    assert [each.bytes for each in sites] == [4096 * (lines - each) for each in range(named)]


def test_a_sound_process_is_accused_of_nothing(fixtures: Path) -> None:
    assert rules_that_speak(fixture(fixtures, "sound")) == set()


def test_growth_is_told_with_the_line_that_allocated_what_stays(fixtures: Path) -> None:
    found = diagnose(fixture(fixtures, "growing")).findings
    (grows,) = [each for each in found if each.rule == "memory-growth"]
    assert "real_mem.py:15" in grows.culprit.text
    (summary,) = memory_of(Analysis(fixture(fixtures, "growing")))
    assert summary.growth.per_step == pytest.approx(149_123_072, rel=0.02)


@pytest.fixture(scope="session")
def opened_of(shared_data: Path) -> Callable[[str, str], Trace]:
    """A recording by its name, and what of it: its trace, its snapshot, or both together."""
    folder, parts = shared_data / "real", {"trace": "pt.trace.json.gz", "snapshot": "snapshot.pickle.gz"}

    def open_part(name: str, what: str) -> Trace:
        chosen = parts if what == "both" else [what]
        return opened(*(folder / f"memory_{name}.{parts[each]}" for each in chosen))

    return open_part


@pytest.mark.parametrize("what", ["trace", "snapshot", "both"])
@pytest.mark.parametrize("name", ["sound", "growing"])
def test_what_is_said_is_what_the_process_measured(
    opened_of: Callable[[str, str], Trace], shared_data: Path, name: str, what: str
) -> None:
    measured = json.loads((shared_data / "real" / "memory.truth.json").read_text())[name]
    trace = opened_of(name, what)
    (summary,) = memory_of(Analysis(trace))
    assert summary.peak_allocated == pytest.approx(measured["peak_allocated"], rel=0.005)
    assert summary.peak_reserved == pytest.approx(measured["peak_reserved"], rel=0.005)
    assert summary.account is not None
    kinds = summary.account.by_kind(summary.peak_at)
    assert sum(kinds.values()) == summary.peak_allocated
    if what != "trace":  # which began after the parameters were made
        assert kinds[Kind.PARAMETERS] == pytest.approx(measured["parameters"], rel=0.02)
        assert kinds[Kind.OPTIMIZER] == pytest.approx(measured["optimizer_state"], rel=0.02)
    after = summary.growth.after_steps
    first = 3 if what == "trace" else 1  # the trace holds the last three of six steps
    assert after == pytest.approx(measured["allocated_after_each_step"][first : first + len(after)], rel=0.01)
    differences = np.diff(measured["allocated_after_each_step"][first : first + len(after)])
    assert summary.growth.per_step == pytest.approx(differences.mean(), rel=0.01)


def test_operators_and_regions_account_for_all_that_was_allocated(
    opened_of: Callable[[str, str], Trace],
) -> None:
    trace = opened_of("growing", "trace")
    operators, (memory,) = operator_times(trace), trace.memory
    asked = memory.allocations.size[memory.allocations.thread >= 0]
    assert int(operators.memory_self.sum()) == pytest.approx(asked.sum(), rel=0.01)
    around = operators_of(trace, memory)
    logits = memory.allocations.size == 411_705_344
    assert "aten::_log_softmax" in {trace.name(each) for each in around[logits].tolist() if each >= 0}


def test_a_comparison_tells_the_peaks_and_what_steps_leave(opened_of: Callable[[str, str], Trace]) -> None:
    result = compare(opened_of("sound", "trace"), opened_of("growing", "trace"))
    measures = {each.name: (each.before, each.after) for each in result.measures if each.unit == "bytes"}
    assert measures["memory peak"] == (2_515_623_936, 3_271_200_768)
    assert measures["memory reserved"] == (2_787_115_008, 3_376_414_720)
    assert measures["memory left by each step"] == (0, 149_785_088)


@pytest.mark.parametrize("what", ["trace", "snapshot", "both"])
def test_who_is_accused_is_who_grows(opened_of: Callable[[str, str], Trace], what: str) -> None:
    accusing = {"memory-growth", "memory-nearly-full", "out-of-memory"}
    assert not rules_that_speak(opened_of("sound", what)) & accusing
    assert rules_that_speak(opened_of("growing", what)) & accusing == {"memory-growth"}


@pytest.mark.parametrize(
    ("after", "grows"),
    [
        ([0, 100, 106, 112, 118, 124], True),
        ([0, 100, 104, 108, 112, 116], False),  # 0.4 % of the peak
        ([0, 100, 160, 220, 280, 310], True),
        ([0, 100, 160, 220, 280, 305], False),  # the last adds less than half of the usual
        ([0, 500, 500, 500, 500, 500], False),  # only the first step fills its caches
        ([0, 100, 200], True),
        ([0, 100, 180], False),  # two differences that do not agree
        ([0, 100], False),
    ],
)
def test_growth_is_steady_and_large_enough_or_it_is_none(after: list[int], grows: bool) -> None:
    ends = [10 * (index + 1) for index in range(len(after))]
    found = growth(ends, np.array(ends, np.int64), np.array(after, np.int64), 1000)
    assert bool(found.per_step) is grows
    assert list(found.after_steps) == after


def test_the_process_that_met_its_own_limit_is_not_told_of_fragmentation(fixtures: Path) -> None:
    (found,) = [each for each in diagnose(fixture(fixtures, "oom")).findings if each.rule == "out-of-memory"]
    assert "412 MB" in found.title
    assert "its own limit" in found.explanation
    assert "not fragmentation" in found.explanation
    assert any("set_per_process_memory_fraction" in each for each in found.advice)
    assert not any("expandable_segments" in each for each in found.advice)
    assert "activations 2.37 GB" in found.explanation
    assert "2 times" in found.explanation  # num_alloc_retries of torch
    assert any("micro-batch" in each and "enough for the request" in each for each in found.advice)


@pytest.mark.parametrize(
    ("begins", "freed", "trains", "kind"),
    [
        (30, True, False, Kind.TEMPORARIES),
        (30, False, False, Kind.UNKNOWN),
        (5, True, False, Kind.UNKNOWN),
        (30, True, True, Kind.UNKNOWN),
    ],
)
def test_what_own_lines_make_between_modules_and_give_back_is_temporary_where_nothing_is_trained(
    tmp_path: Path, begins: int, freed: bool, trains: bool, kind: Kind
) -> None:
    snapshot = Snapshot()
    made = [(10, "alloc", 0, 8 * MB, FORWARD), (begins, "alloc", 100 * MB, 64 * MB, OWN)]
    made += [(15, "alloc", 200 * MB, MB, OPTIMIZER)] * trains
    made += [(40, each, 100 * MB, 64 * MB, OWN) for each in ("free_requested", "free_completed")] * freed
    for at, action, address, size, frames in sorted(made, key=lambda each: each[0]):
        snapshot.event(action, address, size, at, frames)
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.account is not None
    assert summary.account.by_kind(summary.peak_at)[kind] == 64 * MB


def test_kinds_are_told_by_the_stack_and_by_what_stays(tmp_path: Path) -> None:
    snapshot = Snapshot()
    for address, size, frames in (
        (0, 1 * MB, PLACED + OWN),
        (2 * MB, 2 * MB, FORWARD + OWN),
        (28 * MB, 1 * MB, LOSS + OWN),
        (4 * MB, 3 * MB, OPTIMIZER + OWN),
        (8 * MB, 4 * MB, OPTIMIZER + OWN),
        (12 * MB, 1 * MB, ()),
        (14 * MB, 5 * MB, ()),
        (20 * MB, 6 * MB, OWN),
    ):
        snapshot.event("alloc", address, size, 10, frames)
    snapshot.event("free_requested", 8 * MB, 4 * MB, 90)
    snapshot.segment(0, (1 * MB, True), (1 * MB, False), (2 * MB, True), (3 * MB, True))
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.account is not None
    assert summary.account.by_kind(summary.account.peak_at) == {
        Kind.TEMPORARIES: 9 * MB,
        Kind.UNKNOWN: 6 * MB,
        Kind.OPTIMIZER: 3 * MB,
        Kind.ACTIVATIONS: 3 * MB,
        Kind.PARAMETERS: 1 * MB,
        Kind.GRADIENTS: 1 * MB,
    }


def test_state_that_is_replaced_in_every_step_is_state_and_what_waits_for_it_a_gradient(
    tmp_path: Path,
) -> None:
    """Two steps of an optimizer that makes its state anew; gradients have no Python stack."""
    snapshot = Snapshot()
    for step in range(2):
        at, was, now = 100 * step, 30 * step, 30 - 30 * step
        snapshot.event("alloc", 8 * MB, 2 * MB, at + 10, FORWARD + OWN)
        snapshot.event("alloc", 12 * MB, 4 * MB, at + 20, ())  # the gradient
        snapshot.event("alloc", 20 * MB, 1 * MB, at + 21, ())  # is gone before the optimizer runs
        snapshot.event("free_requested", 20 * MB, 1 * MB, at + 22)
        snapshot.event("free_requested", 8 * MB, 2 * MB, at + 23)
        snapshot.event("alloc", (40 + now) * MB, 8 * MB, at + 40, OPTIMIZER + OWN)
        snapshot.event("alloc", 22 * MB, 3 * MB, at + 41, OPTIMIZER + OWN)
        if step:
            snapshot.event("free_requested", (40 + was) * MB, 8 * MB, at + 42)
        snapshot.event("free_requested", 22 * MB, 3 * MB, at + 43)
        snapshot.event("free_requested", 12 * MB, 4 * MB, at + 50)
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.account is not None
    assert summary.account.by_kind(summary.account.peak_at) == {
        Kind.OPTIMIZER: 16 * MB,
        Kind.GRADIENTS: 4 * MB,
        Kind.TEMPORARIES: 3 * MB,
    }


_THREAD = "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"
ENGINE = ({"name": _THREAD, "filename": "??", "line": 0},)


@pytest.mark.parametrize(("frames", "kind"), [(ENGINE, Kind.GRADIENTS), (OWN, Kind.UNKNOWN)])
def test_what_the_engine_of_autograd_makes_is_of_the_backward_pass(
    tmp_path: Path, frames: tuple[dict[str, object], ...], kind: Kind
) -> None:
    snapshot = Snapshot()
    snapshot.event("alloc", 0, 4 * MB, 10, frames)
    snapshot.event("alloc", 8 * MB, 1 * MB, 20, OPTIMIZER + OWN)
    (summary,) = memory_of(Analysis(written(tmp_path, snapshot)))
    assert summary.account is not None
    assert summary.account.by_kind(summary.account.peak_at)[kind] == 4 * MB


def test_text_and_json_tell_peak_composition_and_growth(
    fixtures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(fixtures / "memory" / "growing.snapshot.pickle.gz")
    assert main(["diagnose", path, "--json"]) == 0
    (memory,) = json.loads(capsys.readouterr().out)["memory"]
    assert memory["peak_allocated_bytes"] == sum(memory["peak_bytes_by_kind"].values())
    assert len(memory["allocated_after_each_step_bytes"]) == 5
    page = tmp_path / "report.html"
    assert main(["diagnose", path, "--html", str(page)]) == 0
    assert "at most 3.27 GB allocated of 3.38 GB reserved" in page.read_text()
    capsys.readouterr()
    assert main(["diagnose", path]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Memory grows with every step")
    assert "Memory of GPU 0: at most 3.27 GB allocated of 3.38 GB reserved" in text


def test_two_snapshots_are_compared_by_what_fills_the_gpu(fixtures: Path) -> None:
    sound, growing = fixture(fixtures, "sound"), fixture(fixtures, "growing")
    found = compare(sound, growing)
    assert found.verdict == (
        "30 % more memory at the peak: 3.27 GB instead of 2.51 GB. "
        "New: Memory grows with every step: 150 MB more after each"
    )
    measures = {each.name: each.after - each.before for each in (found.step, *found.measures)}
    assert measures["kept over steps at the peak"] == pytest.approx(758e6, rel=0.01)
    assert sum(change for name, change in measures.items() if name.endswith("at the peak")) == pytest.approx(
        measures["memory peak"]
    )
    assert "kernel" not in as_text(found)
    assert compare(sound, sound).verdict == "The same snapshot twice: nothing differs"
    assert compare(growing, sound).verdict.startswith("23 % less memory at the peak")


@pytest.mark.parametrize(("limit", "code"), [("memory-peak=40", 0), ("memory-peak=5", 1), ("5", 3)])
def test_a_gate_on_the_peak_decides_between_snapshots(fixtures: Path, limit: str, code: int) -> None:
    paths = [str(fixtures / "memory" / f"{name}.snapshot.pickle.gz") for name in ("sound", "growing")]
    assert main(["compare", *paths, "--fail-on-regression", limit]) == code
