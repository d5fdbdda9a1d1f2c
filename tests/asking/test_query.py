"""Questions in SQL: the same figures as elsewhere, nothing but the tables, and one sentence where it goes wrong."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import stallscope
from parsers import open_trace
from parsers.model import Cancelled, Progress
from rules.analysis.analysis import Analysis
from stallscope.run import Run
from tests.viewer.conftest import asked_of_a_command
from viewer.cli import main
from viewer.loading import recording_process
from viewer.query.database import Database, database_of
from viewer.query.errors import QueryError
from viewer.query.questions import questions
from viewer.query.views import VIEWS
from viewer.reports.conversion.tables import write_parquet
from viewer.statistics.kernels import kernel_table
from viewer.statistics.operators import operator_table, operator_times
from viewer.tables.table import frame_of, row_tables, summaries, summary_of

NSYS = "Nsight Systems of a loader"


@pytest.fixture(scope="session")
def database(memory_stack: Analysis) -> Database:
    return database_of(memory_stack)


@pytest.mark.parametrize("everywhere", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_every_ready_made_question_is_answered(recordings: Mapping[str, Analysis], everywhere: bool) -> None:
    asked = set()
    for question in questions().values():
        for analysis in recordings.values():
            if not question.missing(analysis) and database_of(analysis).run(question.sql).rows:
                asked.add(question.id)
                if not everywhere:
                    break
    assert asked >= questions().keys() - {
        "read_backs",
        "slower_kernels",
        "osrt_sum",
        "far_below_roof",
        "never_freed",
        "slow_requests",
        "decode_by_batch",
    }  # none here


def test_sql_summaries_and_frames_hold_the_same_figures(recordings: Mapping[str, Analysis]) -> None:
    for analysis in recordings.values():
        database = database_of(analysis)
        t0, t1 = analysis.window
        inside = f"start_ns >= {t0} AND start_ns < {t1}"
        asked = database.run(
            "SELECT name, count(*) AS calls, sum(duration_ns) AS total_ns FROM events "
            f"WHERE kind IN ('kernel', 'graph', 'memcpy', 'memset') AND {inside} GROUP BY name",
            None,
        ).frame.set_index("name")
        shown = summary_of(analysis, "kernel_summary").set_index("name")
        assert asked["calls"].to_dict() == shown["calls"].to_dict()
        assert asked["total_ns"].to_dict() == shown["total_ns"].to_dict()
        asked = database.run(
            "SELECT name, sum(self_ns) AS own, coalesce(sum(duration_ns) FILTER (outermost), 0) AS total, "
            "coalesce(sum(gpu_ns) FILTER (outermost), 0) AS gpu FROM operators "
            f"WHERE {inside} GROUP BY name",
            None,
        ).frame.set_index("name")
        window = operator_table(analysis.trace, operator_times(analysis.trace), t0, t1).set_index("name")
        for mine, its in (("own", "cpu_self_ns"), ("total", "cpu_total_ns"), ("gpu", "gpu_total_ns")):
            assert asked[mine].to_dict() == window[its].to_dict()
        for device in analysis.active_devices:
            known = analysis.trace.devices[device]
            budget = analysis.budgets(device)
            parts = database.run(
                f"SELECT part, sum(greatest(least(end_ns, {t1}) - greatest(start_ns, {t0}), 0)) AS ns "
                f"FROM device_time WHERE device = {known.id} AND rank IS NOT DISTINCT FROM "
                f"{'NULL' if known.rank is None else known.rank} GROUP BY part"
            ).frame.set_index("part")["ns"]
            assert parts.get("compute", 0) == budget.compute_ns
            assert parts.get("communication", 0) == budget.exposed_communication_ns
            assert parts.get("idle", 0) == budget.total_idle_ns
        run = Run(analysis)
        for name in (
            "kernels",
            "operators",
            "regions",
            "api_calls",
            "copies",
            "collectives",
            "steps",
            "gaps",
        ):
            frame, told = getattr(run, name), run.query(f"SELECT * FROM {name}")
            assert len(told) == len(frame) == len(frame_of(analysis, name))
            for column in frame.select_dtypes("number").columns:
                assert told[column].sum() == pytest.approx(frame[column].sum(), rel=1e-12), (name, column)
        assert run.budget.equals(summary_of(analysis, "budget"))
        window = kernel_table(analysis, t0, t1).set_index("name")["total_ns"]
        assert shown["total_ns"].to_dict() == window.to_dict()


def test_the_reports_of_nsys_stats_agree_with_the_rows_of_the_export(
    recordings: Mapping[str, Analysis], fixtures: Path, tmp_path: Path
) -> None:
    export = tmp_path / "export.sqlite"
    export.write_bytes(gzip.decompress((fixtures / "nsys/healthy_loader.sqlite.gz").read_bytes()))
    ask = sqlite3.connect(export).execute
    name = "(SELECT value FROM StringIds WHERE id = {})"
    stats = 'count(*), sum("end" - start), min("end" - start), max("end" - start)'
    expected = {
        "cuda_gpu_kern_sum": ask(
            f"SELECT {name.format('demangledName')}, {stats} FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY demangledName"
        ).fetchall(),
        "cuda_api_sum": ask(
            f"SELECT {name.format('nameId')}, {stats} FROM CUPTI_ACTIVITY_KIND_RUNTIME GROUP BY nameId"
        ).fetchall(),
    }
    database = database_of(recordings[NSYS])
    for report, rows in expected.items():
        frame = database.run(questions()[report].sql, None).frame
        count = "calls" if "calls" in frame else "instances"
        told = frame[["name", count, "total_ns", "min_ns", "max_ns"]].astype({"name": str})
        if report == "cuda_api_sum":  # versions of an entry point are one call
            rows = [(str(row[0]).split("_v")[0], *row[1:]) for row in rows]
        assert sorted(told.itertuples(index=False, name=None)) == sorted(rows)
        values = np.array([row[2] for row in rows], np.float64)
        assert frame["time_percent"].sum() == pytest.approx(100)
        assert frame["time_percent"].iloc[0] == pytest.approx(100 * values.max() / values.sum())
    copies = database.run(questions()["cuda_gpu_mem_time_sum"].sql).frame
    moved = ask('SELECT sum("end" - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY').fetchone()[0]
    assert copies[copies["operation"] != "memset"]["total_ns"].sum() == moved


H100 = "tracelens__traces__h100__"
PUBLISHED = {  # total and busy time in ms, as TraceLens's gpu_timeline.csv states them
    f"{H100}facebook_timesformer-base-finetuned-k400__1016002": (159.9924267578125, 158.43317309570313),
    f"{H100}gaunernst_bert-small-uncased__1016001": (3.907824951171875, 0.309437744140625),
    "tracelens__inference__sglang_decode__sglang_Qwen3-8B_decode": (473.749943359375, 9.7729287109375),
    "tracelens__inference__vllm_decode_full__graph_execution": (10.743181640625, 10.717697265625),
    "tracelens__mi210__gpu_only_trace__gpu_only_trace": (5.9795029296875, 5.3433701171875),
    "tracelens__traces__torch_compile_triton__trace": (12.5490322265625, 12.54902099609375),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_total_and_busy_time_are_those_that_tracelens_publishes(name: str, shared_data: Path) -> None:
    analysis = Analysis(open_trace([shared_data / f"public/chrome/{name}.json.gz"], Progress()))
    found = database_of(analysis).run(questions()["hta_temporal_breakdown"].sql).frame
    busy = found["compute_time_ns"].sum() + found["non_compute_time_ns"].sum()
    total, stated_busy = PUBLISHED[name]
    assert found["kernel_time_ns"].sum() / 1e6 == pytest.approx(total, abs=2e-3)
    assert busy / 1e6 == pytest.approx(stated_busy, abs=2e-3)


def test_counts_are_those_that_holistic_trace_analysis_documents(shared_data: Path) -> None:
    folder = shared_data / "public/chrome"
    rank_0 = "hta__ns_resolution_trace__rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz"
    steps = Analysis(open_trace([folder / rank_0], Progress()))
    found = database_of(steps).run(  # it leaves out the last step of the profiler
        "SELECT sum(launches) AS n FROM regions WHERE name LIKE 'ProfilerStep%' "
        "AND start_ns < (SELECT max(start_ns) FROM regions WHERE name LIKE 'ProfilerStep%')"
    )
    assert found.frame["n"].iloc[0] == 4876
    found = database_of(steps).run(  # and what the GPU began after it: three of five
        "SELECT sum(launches) AS n FROM regions WHERE name = 'Optimizer.step#SGD.step' "
        "AND gpu_start_ns < (SELECT max(start_ns) FROM regions WHERE name LIKE 'ProfilerStep%')"
    )
    assert found.frame["n"].iloc[0] == 27
    nccl = Analysis(open_trace([folder / "hta__nccl_parser_config__nccl_data.json.gz"], Progress()))
    found = database_of(nccl).run(
        "SELECT collective, process_group FROM collectives ORDER BY duration_ns DESC"
    )
    assert found.rows == 21
    assert found.frame["collective"].iloc[0] == "allreduce"


def test_common_queries_of_perfetto_run(database: Database, memory_stack: Analysis) -> None:
    shown = summary_of(memory_stack, "kernel_summary")
    found = database.run(
        "SELECT s.name, sum(s.dur) AS total, count(*) AS n FROM slice s JOIN thread_track t ON s.track_id = t.id "
        "JOIN thread USING (utid) JOIN process USING (upid) WHERE s.name GLOB 'aten::*' GROUP BY s.name "
        "ORDER BY total DESC LIMIT 5"
    )
    assert found.rows == 5
    found = database.run(
        "SELECT out.name AS call, inn.name AS kernel FROM flow JOIN slice out ON flow.slice_out = out.id "
        "JOIN slice inn ON flow.slice_in = inn.id WHERE inn.category = 'kernel'"
    )
    assert shown["name"].iloc[0] in set(found.frame["kernel"].astype(str))
    grid = database.run(
        "SELECT DISTINCT extract_arg(arg_set_id, 'grid_shape') AS g FROM gpu_slice WHERE category = 'kernel'"
    )
    assert grid.rows > 1
    inner = database.run(
        "SELECT count(*) AS n FROM slice a JOIN slice b ON a.parent_id = b.id "
        "WHERE a.ts < b.ts OR a.ts + a.dur > b.ts + b.dur"
    )
    assert inner.frame["n"].iloc[0] == 0


def test_every_table_and_view_is_described_as_it_is(database: Database) -> None:
    for name, view in VIEWS.items():
        assert set(view.columns) <= set(database.columns(name)), name
    for name in (*row_tables(), *summaries()):
        asked = database.run(f"SELECT * FROM {name} LIMIT 1").frame
        assert tuple(asked.columns) == database.columns(name)


FORBIDDEN = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('/*')",
    "COPY (SELECT 1) TO '{file}.out'",
    "COPY kernels FROM '{file}'",
    "ATTACH '{file}.db'",
    "EXPORT DATABASE '{file}.folder'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "PRAGMA database_list",
    "CREATE TABLE t AS SELECT 1",
    "INSERT INTO kernels VALUES (1)",
    "DROP VIEW kernels",
    "SELECT 1; SELECT 2",
    "SELECT * FROM analysis",
    "SELECT * FROM read_parquet('http://127.0.0.1:9/x.parquet')",
    "CALL pragma_version()",
]


def test_nothing_but_the_tables_can_be_reached(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a\n42\n")
    for text in FORBIDDEN:
        with pytest.raises(QueryError) as refused:
            database.run(text.format(file=file))
        assert "\n" not in str(refused.value)
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]
    assert database.run("SELECT count(*) AS n FROM kernels").rows == 1


@pytest.mark.parametrize(
    ("text", "word", "near"),
    [
        ("SELECT strat_ns FROM kernels", "strat_ns", "start_ns"),
        ("SELECT * FROM kernel", "kernel", "kernels"),
        ("SELECT name FORM kernels", "kernels", ""),
        ("SELECT nosuch(name) FROM kernels", "nosuch", ""),
        ("", "", "SELECT"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_word_and_the_nearest_name(
    database: Database, text: str, word: str, near: str
) -> None:
    with pytest.raises(QueryError) as wrong:
        database.run(text)
    assert wrong.value.word == word
    assert near in wrong.value.hint
    assert wrong.value.place == (text.index(word) if word else -1)


def test_more_rows_than_asked_for_are_counted_and_summed(database: Database, memory_stack: Analysis) -> None:
    whole = frame_of(memory_stack, "operators")
    few = database.run("SELECT name, duration_ns FROM operators -- with a remark", 10)
    every = database.run("SELECT name, duration_ns FROM operators", None)
    assert (len(few.frame), few.rows, few.cut) == (10, len(whole), True)
    assert not every.cut
    assert few.sums["duration_ns"] == every.sums["duration_ns"]
    assert few.sums["duration_ns"].total == whole["duration_ns"].sum()


def test_where_nothing_is_left_the_condition_that_removes_most_is_named(database: Database) -> None:
    text = "SELECT * FROM kernels WHERE duration_ns > 0 AND name = 'nobody' AND stream >= 0"
    assert database.run(text).rows == 0
    condition, left = database.costliest_condition(text) or ("", 0)
    assert condition == "name = 'nobody'"
    assert left == database.count("SELECT * FROM kernels")
    assert database.costliest_condition("SELECT * FROM kernels WHERE stream = -5") is None


def test_a_question_without_end_is_stopped(database: Database) -> None:
    progress = Progress()
    threading.Timer(0.1, progress.cancel).start()
    with pytest.raises(Cancelled):
        database.run(
            "SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b", progress=progress
        )
    assert database.run("SELECT 1 AS one").frame["one"].tolist() == [1]


class Interrupted(Progress):
    """Ctrl+C arrives while the answer is waited for."""

    def step(self, fraction: float, doing: str) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_ends_a_question_before_the_program(database: Database) -> None:
    with pytest.raises(KeyboardInterrupt):
        database.run(
            "SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000000) b",
            progress=Interrupted(),
        )
    assert database.run("SELECT 1 AS one").frame["one"].tolist() == [1]


def test_a_recording_that_was_asked_is_gone_when_nobody_holds_it(memory_stack: Analysis) -> None:
    asked = Analysis(memory_stack.trace)
    assert database_of(asked).run("SELECT count(*) AS n FROM kernels").rows == 1
    gone = weakref.ref(asked)
    del asked
    assert gone() is None


def test_nobody_who_asks_nothing_loads_duckdb(fixtures: Path) -> None:
    program = (
        "import sys; from viewer.cli import main; main(['diagnose', sys.argv[1]]); "
        "assert 'duckdb' not in sys.modules and 'pandas' not in sys.modules"
    )
    file = str(fixtures / "rocm/rocprofv3.json")
    subprocess.run([sys.executable, "-c", program, file], check=True, capture_output=True)


def test_the_command_has_a_question_answered_by_another_process(
    fixtures: Path, capsys: pytest.CaptureFixture[str], recordings: Mapping[str, Analysis]
) -> None:
    assert main(["query", str(fixtures / "rocm/rocprofv3.json"), "cuda_gpu_kern_sum"]) == 0
    kernels = frame_of(recordings["rocprofv3"], "kernels")
    assert f"{len(kernels['name'].unique())} rows" in capsys.readouterr().out


def test_the_command_answers_as_table_csv_json_and_parquet(
    fixtures: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    recordings: Mapping[str, Analysis],
) -> None:
    monkeypatch.setattr(recording_process, "AskedRecording", asked_of_a_command)
    file, analysis = str(fixtures / "rocm/rocprofv3.json"), recordings["rocprofv3"]
    assert main(["query", file, "cuda_gpu_kern_sum"]) == 0
    assert f"{len(frame_of(analysis, 'kernels')['name'].unique())} rows" in capsys.readouterr().out
    text = "SELECT '=1+1' AS name, count(*) AS n FROM kernels"
    assert main(["query", file, text, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    kernels = len(frame_of(analysis, "kernels"))
    assert told == {"columns": ["name", "n"], "rows": [["=1+1", kernels]], "rows_in_all": 1}
    assert main(["query", file, text, "--format", "csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["name,n", f"'=1+1,{kernels}"]
    for suffix, read in ((".csv", pd.read_csv), (".json", pd.read_json), (".parquet", pd.read_parquet)):
        out = tmp_path / f"answer{suffix}"
        assert main(["query", file, "SELECT name, duration_ns FROM kernels", "--out", str(out)]) == 0
        assert read(out)["duration_ns"].sum() == frame_of(analysis, "kernels")["duration_ns"].sum()
    capsys.readouterr()
    assert main(["query", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in (*questions(), *row_tables(), *summaries(), *VIEWS))
    for words, said in (
        ([file, "SELECT strat FROM kernels"], "no column strat"),
        ([file, "cuda_api_som"], "cuda_api_sum"),
        ([file], "a question"),
        ([file, text, "--out", str(tmp_path / "x.xls")], ".parquet"),
    ):
        assert main(["query", *words]) == 2
        assert said in capsys.readouterr().err


def test_parquet_is_written_with_duckdb_where_arrow_cannot(
    memory_stack: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = frame_of(memory_stack, "kernels")
    for name in ("arrow", "duckdb's"):
        write_parquet(frame, tmp_path / name)
        read = pd.read_parquet(tmp_path / name)
        assert read["duration_ns"].tolist() == frame["duration_ns"].tolist()
        assert read["name"].astype(str).tolist() == frame["name"].astype(str).tolist()
        monkeypatch.setattr(pd.DataFrame, "to_parquet", _without_arrow)
    with pytest.raises(OSError, match="nowhere"):
        write_parquet(frame, tmp_path / "nowhere" / "x.parquet")


def _without_arrow(*_: object, **__: object) -> None:
    raise ImportError("pyarrow.parquet")


def test_requests_and_steps_of_an_engine_are_asked_like_everything_else(shared_data: Path) -> None:
    folder = shared_data / "serve"
    run = stallscope.open([folder / "engine.pt.trace.json.gz", folder / "engine.requests.jsonl"])
    truth = json.loads((folder / "truth.json").read_text())["pt.trace.json.gz"]["recorded"]
    told = run.query(
        "SELECT count(*) AS n, sum(tokens) AS t, quantile_cont(ttft_ns, 0.9) / 1e6 AS p90 FROM requests"
    )
    assert (told["n"].iloc[0], told["t"].iloc[0]) == (truth["requests"], truth["tokens_out"])
    assert told["p90"].iloc[0] == pytest.approx(truth["ttft_ms"][1], rel=0.01)
    assert run.query("SELECT request FROM requests r JOIN engine_steps s USING (event)").shape[0] == 41
    by_batch = run.query("decode_by_batch").set_index("batch")["median_ns"] / 1e6
    expected = {int(batch): ms for batch, ms in truth["decode_ms_by_batch"].items()}
    assert by_batch.to_dict() == pytest.approx(expected, rel=0.01)
    slowest = run.query("slow_requests")
    assert slowest["whole_ns"].is_monotonic_decreasing
    first = run.trace.events.end[slowest["event"].to_numpy(np.int64)]
    assert np.abs(first - (slowest["arrival_ns"] + slowest["ttft_ns"])).max() < 100_000


def test_a_log_alone_is_a_table_of_requests(fixtures: Path) -> None:
    run = stallscope.open(fixtures / "results/requests.jsonl")
    assert len(run.table("requests")) == 41
    assert run.table("requests")["event"].isna().all()
    assert run.table("requests")["held_up_ns"].isna().all()
    assert not len(run.table("engine_steps"))
