"""A run of many ranks is judged by a summary of each: as a full reading would, with what only many of them show."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import resources
from parsers import open_trace
from parsers.model import Cancelled, Progress, TraceError
from parsers.ranks.merge import merge
from rules import Diagnosis, Severity, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.ranks.patterns import Pattern
from rules.analysis.ranks.recorded import ranks_of
from rules.summaries.facts import ManyRanksDiagnosis
from rules.summaries.findings import diagnosis_of_many
from rules.summaries.run import ManyRanks
from rules.wording.late_ranks import doing, late_names
from tests.examples import one_of
from tests.rank_runs import Run
from viewer.cli import main
from viewer.loading.ranks import opening, pool, reducing, summaries
from viewer.loading.ranks.opening import Workers, files_of_many, joined, many_ranks_of, open_many
from viewer.loading.ranks.reducing import reduce_rank
from viewer.loading.ranks.summaries import Wanted
from viewer.reports.many_ranks_report import as_json, as_text

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SMALL = {"ranks": 18, "steps": 4, "operators": 3, "tensor": 3, "stages": 2, "kernel_ns": 120_000}
FAULTY = Run(**SMALL, straggler=7, since=2, slow_group=1, slow_link=6.0, slow_stage=1, slow_layers=1.2)


JUDGED_TOGETHER = {"late-rank", "exposed-communication", "pipeline-bubble", "gpu-bound"}
OF_MANY = {"uneven-work", "uneven-stages", "slow-link"}  # told of many ranks alone


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The faulty run, a file that is cut off, and one that is no recording."""
    folder = tmp_path_factory.mktemp("run")
    FAULTY.write(folder)
    (folder / "rank17.pt.trace.json").write_text('{"schemaVersion": 1, "traceEvents": [')
    (folder / "notes.txt").write_text("nothing of a profiler")
    return folder


@pytest.fixture(scope="session")
def facts(folder: Path) -> ManyRanksDiagnosis:
    return diagnosis_of_many(_opened(folder, Workers(1)))[0]


def _opened(folder: Path, workers: Workers) -> ManyRanks:
    files = files_of_many([folder])
    assert files is not None
    return open_many(files, workers=workers)


def _run_of(simulated: Run) -> ManyRanksDiagnosis:
    found = []
    for rank in range(simulated.ranks):
        text = simulated.text(rank)
        path = Path(os.environ["HOME"]) / f"rank{rank}.json"
        path.write_text(text)
        found.append(summaries.summary_of_bytes(reduce_rank(Wanted((str(path),), path.name)).content))
        path.unlink()
    return diagnosis_of_many(joined(found))[0]


@pytest.mark.parametrize(
    "where",
    one_of(2, [FIXTURES / "ddp", resources.path("samples") / "straggler_four_ranks"]),
    ids=lambda each: each.name,
)
def test_summaries_give_what_a_full_reading_of_all_ranks_gives(where: Path) -> None:
    files = sorted(where.glob("*.gz"))
    _compare(Analysis(open_trace(files)), files)


@pytest.mark.parametrize(
    "name",
    [
        *("ddp/straggler_gpu", "real/pipeline"),
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in (
                *("ddp/fsdp_ok", "ddp/no_overlap", "real/small_shards"),
                *("ddp/manual_allreduce", "ddp/overlap_ok", "ddp/straggler_cpu", "ddp/tiny_buckets"),
                *("real/many_small", "real/rank0_writes", "real/slow_loader", "real/uneven_lengths"),
            )
        ),
    ],
)
def test_summaries_of_recorded_runs_give_what_a_full_reading_gives(
    name: str, shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = sorted(shared_data.glob(f"{name}.rank*.gz"))
    if not files:
        pytest.skip(f"{name} is not on this machine")
    read = {file: open_trace([file]) for file in files}  # once for both
    monkeypatch.setattr(reducing, "read_one", lambda sources, *_: read[sources[0].path])
    _compare(Analysis(merge(list(read.values()))), files)


def _compare(full: Analysis, files: list[Path]) -> None:
    ranks = ranks_of(full)
    made = [
        summaries.summary_of_bytes(reduce_rank(Wanted((str(file),), file.name)).content) for file in files
    ]
    found, diagnosis = diagnosis_of_many(joined(made))

    assert found.run.window == full.window
    assert found.waiting.tolist() == ranks.waiting.tolist()
    assert found.lateness.charged == pytest.approx(ranks.lateness.charged)
    assert found.lateness.started == pytest.approx(ranks.lateness.started)
    assert (found.late, found.lost_to_late) == (ranks.late, ranks.lost_to_late)
    assert found.transfers_alone == ranks.transfers_alone
    assert late_names(found) == late_names(ranks)
    for row, each in enumerate(ranks.run.rows):
        ours, theirs = found.run.budget(row), full.budgets(each.device)
        assert ours.compute_ns == theirs.compute_ns
        assert ours.idle_ns == pytest.approx(theirs.idle_ns, abs=full.window_ns * 1e-3)
    assert max(each.bytes for each in made) < 300_000
    read = diagnosis_of(full)
    ours_told, theirs_told = ({each.rule for each in told.findings} for told in (diagnosis, read))
    assert ours_told & JUDGED_TOGETHER == theirs_told & JUDGED_TOGETHER
    # Each rank judges for itself, and the mean is told: what is about as large as a limit may lie on its other side.
    assert _loud(read) <= ours_told
    assert _loud(diagnosis) - OF_MANY <= theirs_told


def _loud(diagnosis: Diagnosis) -> set[str]:
    """Rules of the louder findings; what a predicted fix alone says has no rule, and summaries predict nothing."""
    levels = (Severity.HIGH, Severity.MEDIUM)
    return {each.rule for each in diagnosis.findings if each.severity in levels and each.ceiling_ns}


def test_straggler_slow_link_and_uneven_stage_are_named(facts: ManyRanksDiagnosis) -> None:
    assert [facts.run.name(row) for row in facts.late] == ["rank 7"]
    assert [each.name for each in facts.slow_links] == ["among the 3 ranks from rank 1 to rank 7"]
    by_name = {each.name: each for each in facts.patterns}
    assert set(by_name) == {"rank 7", "pipeline stage 1"}
    assert by_name["rank 7"].course.since == 2
    assert by_name["pipeline stage 1"].course.since == 0
    reasons = dict(zip(by_name, map(doing, facts.pattern_reasons), strict=True))
    assert reasons["pipeline stage 1"] == "computing: it has 20 % more work"
    assert reasons["rank 7"] == "computing: the same kernels take 30 % longer on its GPU"


def test_who_waits_in_another_group_before_is_not_blamed_for_what_it_passes_on(
    facts: ManyRanksDiagnosis,
) -> None:
    # Rank 6 shares its tensor group with rank 7, waits for it there, and is late to its data group for that reason.
    direct = facts.run.meetings.by_row(facts.run.meetings.blamed)
    assert direct[6] > 0.1 * direct[7]
    assert facts.lateness.started[6] < 0.01 * facts.lateness.started[7]


def test_a_page_names_what_was_left_out_and_stays_a_page(facts: ManyRanksDiagnosis) -> None:
    run, diagnosis = facts.run, diagnosis_of_many(facts.run)[1]
    text = as_text(facts, diagnosis)
    assert text.startswith("16 of 17 ranks wait ")
    assert (
        "rank 7, from ProfilerStep#2 on. It spends 438 us more of each step computing: the same kernels"
        in " ".join(text.split())
    )
    assert "Left out:" in text
    assert "rank17.pt.trace.json: " in text
    assert "notes.txt" in text
    assert text.count("\n") < 80
    told = json.loads(json.dumps(as_json(facts, diagnosis)))
    jsonschema.validate(told, json.loads(resources.path("diagnosis.schema.json").read_text("utf-8")))
    assert told["headline"]["sentence"] == told["ranks"]["sentence"]
    assert told["headline"]["sentence"] in " ".join(text.split())
    assert (told["headline"]["do_first"], told["causes"], told["fixes"]) == ("", [], [])
    assert [each["rank"] for each in told["devices"]] == list(range(17))
    assert [name for name, _ in run.unread] == ["notes.txt", "rank17.pt.trace.json"]


@pytest.mark.parametrize(
    ("more", "kind", "when"),
    [
        ({"straggler": 4, "every": 3, "steps": 9}, "rank", lambda each: each.course.every == 3),
        ({"straggler": 4, "since": 4, "steps": 9}, "rank", lambda each: each.course.since == 4),
        ({"straggler": 4, "slow_compute": 1.004}, None, None),
    ],
    ids=["every third step", "from a step on", "no more than noise"],
)
def test_when_a_rank_is_late_is_told(
    more: dict[str, Any], kind: str | None, when: Callable[[Pattern], bool]
) -> None:
    found = _run_of(Run(**{**SMALL, "ranks": 6, "stages": 1, "operators": 2} | more)).patterns
    assert [each.kind for each in found] == ([kind] if kind else [])
    assert all(when(each) for each in found)


def test_work_that_is_uneven_in_turn_accuses_no_rank() -> None:
    facts = _run_of(Run(**{**SMALL, "ranks": 6, "stages": 1, "operators": 2, "steps": 8}, rotating=True))
    assert facts.late == ()
    assert facts.imbalance is not None
    assert facts.imbalance.rotates


@pytest.mark.thorough
def test_one_process_several_and_a_cluster_give_the_same_answer_and_a_killed_worker_costs_a_retry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from distributed import Client, LocalCluster

    Run(**SMALL | {"ranks": 6, "stages": 1, "steps": 2}, straggler=4).write(tmp_path)
    (tmp_path / "rank3.pt.trace.json").write_text('{"schemaVersion": 1, "traceEvents": [')
    monkeypatch.setattr(summaries, "kept", lambda _: None)

    def told(*how: str) -> dict[str, Any]:
        assert main(["diagnose", "--json", *how, str(tmp_path)]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    alone = told("--workers", "1")
    assert [each["path"] for each in alone["ranks"]["left_out"]] == ["rank3.pt.trace.json"]
    assert told("--workers", "2") == alone
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    )
    with cluster, Client(cluster) as client:
        victims = list(client.run(os.getpid).values())[:1]

        def answered(*_: object) -> None:
            while victims:
                os.kill(victims.pop(), signal.SIGKILL)

        monkeypatch.setattr(summaries, "keep", answered)  # after the first answer, with others in work
        assert told("--scheduler", cluster.scheduler_address) == alone
    assert not victims


@pytest.mark.parametrize(
    ("where", "refused"),
    [
        (("--scheduler", "pigeon://127.0.0.1:1", "."), "pigeon://127.0.0.1:1: There is no Dask scheduler"),
        (("memory://nowhere/run",), "memory://nowhere/run: There is no file under this address."),
    ],
)
def test_a_refused_address_is_told_as_it_was_typed(
    where: tuple[str, ...],
    refused: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main(["diagnose", *where]) == 2
    assert refused in capsys.readouterr().err


def test_what_was_reduced_once_is_not_read_again(
    folder: Path, facts: ManyRanksDiagnosis, monkeypatch: pytest.MonkeyPatch
) -> None:
    _opened(folder, Workers(1))
    read = []
    monkeypatch.setattr(
        pool, "reduce_rank", lambda wanted, progress: read.append(wanted.shown) or reduce_rank(wanted)
    )
    again = _opened(folder, Workers(1))
    assert read == ["rank17.pt.trace.json"]  # the broken one may have been repaired
    assert np.array_equal(again.parts, facts.run.parts)


def test_reading_many_ranks_can_be_stopped(folder: Path) -> None:
    files = files_of_many([folder])
    progress = Progress(lambda fraction, _: progress.cancel() if fraction > 0.2 else None)
    assert files is not None
    with pytest.raises(Cancelled):
        open_many(files, progress, workers=Workers(1))


def test_a_file_is_recognised_once_and_not_again_where_it_is_reduced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of_many([folder])
    assert files is not None
    assert {each.format for each in files.wanted} == {"chrome"}
    wanted = files.wanted[0]
    monkeypatch.setattr("parsers.opening.parser_of", lambda source: None)
    assert reduce_rank(wanted).content
    assert reduce_rank(replace(wanted, format="")).problem  # nobody has looked yet


def test_a_rank_whose_gpu_computes_more_than_in_the_replayed_steps_is_reduced(fixtures: Path) -> None:
    path = fixtures / "causes" / "scores.pt.trace.json.gz"
    summary = summaries.summary_of_bytes(reduce_rank(Wanted((str(path),), path.name)).content)
    assert summary.words.alone is not None
    assert summary.words.alone.step_ns > 0


def test_few_ranks_are_read_in_full_and_nothing_but_broken_files_is_refused(tmp_path: Path) -> None:
    for rank in range(16):
        (tmp_path / f"rank{rank}.json").write_text('{"schemaVersion": 1, "traceEvents": [')
    assert files_of_many([tmp_path]) is None
    (tmp_path / "rank16.json").write_text('{"schemaVersion": 1, "traceEvents": [')
    files = files_of_many([tmp_path])
    assert files is not None
    with pytest.raises(TraceError, match="No rank could be read"):
        open_many(files, workers=Workers(1))
    assert many_ranks_of([tmp_path]) is None


def test_of_many_files_a_few_that_are_ranks_of_one_run_are_read_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "FULL_RANKS", 2)
    for number in range(3):
        for rank in range(2):
            Run(**SMALL | {"ranks": 3, "stages": 1, "steps": 2}).write(
                tmp_path / f"{number}", range(rank, rank + 1)
            )
    assert files_of_many([tmp_path]) is not None
    assert many_ranks_of([tmp_path]) is None


def test_a_page_tells_the_same_and_why_nothing_is_predicted(folder: Path, tmp_path: Path) -> None:
    page, text = tmp_path / "run.html", tmp_path / "run.md"
    assert main(["diagnose", str(folder), "--html", str(page), "--markdown", str(text)]) == 0
    told = page.read_text()
    for expected in ("16 of 17 ranks wait ", "pipeline stage 1: ", "rank17.pt.trace.json: "):
        assert expected in told
    assert "What fixes would give is not predicted: runs of many ranks are analysed from summaries" in told
    assert text.read_text().startswith("## 16 of 17 ranks wait ")
