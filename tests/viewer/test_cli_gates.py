"""The exit codes of the gates, one case each of the table in docs/gates.md; repeats, series and baselines."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from viewer.cli import main
from viewer.terminal.exit_codes import BAD_INPUT, BROKEN, DONE, GATE_FAILED, GATE_INCONCLUSIVE


def recording(
    path: Path, step_us: float, *, count: int = 20, gpu_work: bool = True, steps: bool = True, gpu: str = ""
) -> str:
    """Steps with one kernel each; without steps, kernels that do not repeat."""
    events = []
    for index in range(count):
        start = index * step_us
        if steps:
            events.append(event("user_annotation", f"ProfilerStep#{index}", start, step_us, 100, 100))
        events.append(event("cpu_op", "aten::mm", start + 1, 10, 100, 100))
        if gpu_work:
            name = "void gemm" if steps else f"void kernel_{index}"
            events.append(event("kernel", name, start + 5, 80, 0, 7))
    devices = [{"id": 0, "name": gpu}] if gpu else []
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": devices, "traceEvents": events}))
    return str(path)


def event(
    category: str, name: str, start: float, length: float, process: int, thread: int
) -> dict[str, object]:
    arguments = {"device": 0, "stream": thread} if category == "kernel" else {}
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "ts": start,
        "dur": length,
        "pid": process,
        "tid": thread,
        "args": arguments,
    }


@pytest.mark.parametrize(
    ("after_us", "limit", "code", "said"),
    [
        (1002, "5", DONE, "The gate passed"),
        (1002, "5%", DONE, "The gate passed"),
        (1200, "5", GATE_FAILED, "The gate failed"),
        (1200, "5%", GATE_FAILED, "The gate failed"),
        (1050, "5%", GATE_INCONCLUSIVE, "Record more steps"),
    ],
)
def test_the_interval_of_the_step_time_decides(
    after_us: float, limit: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recording(tmp_path / "before.json", 1000)
    after = recording(tmp_path / "after.json", after_us)
    assert main(["compare", before, after, "--json", "--fail-on-regression", limit]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    interval = json.loads(captured.out)["interval"]
    assert interval["low"] < after_us / 1000 < interval["high"]
    assert len(interval["steps_ns"][0]) == 20


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"count": 1}, "steady steps"),
        ({"steps": False, "count": 7}, "no steps were found"),
        ({"gpu_work": False}, "cannot be compared"),
    ],
)
def test_what_cannot_be_compared_is_inconclusive_never_passed(
    shape: dict[str, int], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recording(tmp_path / "before.json", 1000)
    after = recording(tmp_path / "after.json", 1000, **shape)  # type: ignore[arg-type]
    junit = tmp_path / "gate.xml"
    words = ["compare", before, after, "--fail-on-regression", "5", "--junit", str(junit)]
    assert main(words) == GATE_INCONCLUSIVE
    assert said in capsys.readouterr().err
    assert "<error" in junit.read_text("utf-8")


def test_another_gpu_and_a_limit_on_what_one_side_lacks_are_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [recording(tmp_path / f"{gpu}.json", 1000, gpu=f"NVIDIA {gpu}") for gpu in ("A100", "H100")]
    assert main(["compare", *runs, "--fail-on-regression", "5"]) == GATE_INCONCLUSIVE
    assert "H100" in capsys.readouterr().err
    words = ["--fail-on-regression", "region:forward=5"]
    assert main(["compare", runs[0], runs[0], *words]) == GATE_INCONCLUSIVE
    assert "forward" in capsys.readouterr().err


def test_a_diagnosis_whose_check_failed_does_not_pass_its_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("rules.catalog.uneven_steps.UnevenSteps.check", fail)
    assert main(["diagnose", recording(tmp_path / "run.json", 81), "--fail-on", "high"]) == GATE_INCONCLUSIVE
    assert "uneven-steps" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "a.json", "b.json", "--fail-on-regression", "5"],
        ["diagnose", "a.json", "--fail-on", "low"],
    ],
)
def test_a_mistake_of_the_program_answers_no_gate(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistake(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("parsers.open_trace", mistake)
    assert main(words) == BROKEN


def test_the_documentation_has_a_row_for_each_code_of_a_gate(repository: Path) -> None:
    table = (repository / "docs" / "gates.md").read_text("utf-8")
    rows = [int(code) for code in re.findall(r"^\| (\d+)\b", table, re.MULTILINE)]
    assert rows == [DONE, GATE_FAILED, BAD_INPUT, GATE_INCONCLUSIVE, BROKEN]


def test_two_recordings_without_gpu_work_are_judged_by_their_steps(tmp_path: Path) -> None:
    slow, quick = (recording(tmp_path / f"{us}.json", us, gpu_work=False) for us in (1000, 500))
    assert main(["compare", slow, quick, "--fail-on-regression", "5"]) == DONE
    assert main(["compare", quick, slow, "--fail-on-regression", "5"]) == GATE_FAILED


def test_gpu_work_in_one_of_two_recordings_is_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = recording(tmp_path / "before.json", 1000)
    after = recording(tmp_path / "after.json", 500, gpu_work=False)
    assert main(["compare", before, after, "--fail-on-regression", "5"]) == GATE_INCONCLUSIVE
    assert "without GPU work" in capsys.readouterr().err


def test_without_a_gate_a_comparison_that_is_refused_is_bad_input(tmp_path: Path) -> None:
    before = recording(tmp_path / "before.json", 1000)
    after = recording(tmp_path / "after.json", 1000, gpu_work=False)
    assert main(["compare", before, after]) == BAD_INPUT


def test_a_file_that_is_no_recording_is_bad_input_to_a_gate(tmp_path: Path) -> None:
    before = recording(tmp_path / "before.json", 1000)
    (tmp_path / "after.json").write_text("nothing")
    assert main(["compare", before, str(tmp_path / "after.json"), "--fail-on-regression", "5"]) == BAD_INPUT


@pytest.mark.parametrize("limit", ["fast", "-1", "nan", "5%%", ""])
def test_a_limit_that_is_no_percentage_is_bad_input(
    limit: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording(tmp_path / "before.json", 1000)
    with pytest.raises(SystemExit) as ended:
        main(["compare", path, path, f"--fail-on-regression={limit}"])
    assert ended.value.code == BAD_INPUT
    assert "such as 5 or 5%" in capsys.readouterr().err


@pytest.mark.parametrize(("gpu_work", "code"), [(True, DONE), (False, GATE_INCONCLUSIVE)])
def test_a_diagnosis_without_gpu_work_does_not_pass_its_gate(
    gpu_work: bool, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording(tmp_path / "run.json", 81, gpu_work=gpu_work)
    assert main(["diagnose", path, "--fail-on", "high"]) == code
    assert ("no GPU work" in capsys.readouterr().err) is not gpu_work
    assert main(["diagnose", path]) == DONE


def test_limits_of_a_file_are_judged_together_and_told_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = recording(tmp_path / "before.json", 1000), recording(tmp_path / "after.json", 1002)
    limits = tmp_path / "gates.toml"
    limits.write_text("[limits]\nstep-time = '5%'\nlaunches = 0\n")
    assert main(["compare", before, after, "--gates", str(limits)]) == DONE
    assert main(["compare", before, after, "--gates", str(limits), "--fail-on-regression", "p99=5"]) == 3
    limits.write_text("[limits]\nstep-time = '5%'\nlaunch = 0\n")
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["compare", before, after, "--gates", str(limits)])
    assert ended.value.code == BAD_INPUT
    assert "gates.toml: 'launch' cannot be limited" in capsys.readouterr().err


def test_repeats_of_each_side_are_one_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick = [recording(tmp_path / f"quick{us}.json", us) for us in (1000, 1004)]
    slow = [recording(tmp_path / f"slow{us}.json", us) for us in (1200, 1204)]
    sides = ["--before", quick[0], "--before", quick[1], "--after", slow[0], "--after", slow[1]]
    assert main(["compare", *sides, "--json", "--fail-on-regression", "5"]) == GATE_FAILED
    told = json.loads(capsys.readouterr().out)
    assert told["gate"] == "failed"
    assert len(told["interval"]["steps_ns"][0]) == 40
    assert any("2 recorded before and 2 after" in said for said in told["cautions"])


def test_a_series_is_a_table_whose_last_run_is_judged_against_its_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [recording(tmp_path / f"run{us}.json", us) for us in (1000, 1001, 1200)]
    assert main(["compare", "--series", *runs, "--json", "--fail-on-regression", "5"]) == GATE_FAILED
    told = json.loads(capsys.readouterr().out)["runs"]
    assert [each["of_previous"] and each["of_previous"]["outcome"] for each in told] == [
        None,
        "no difference that this noise allows to see",
        "slower",
    ]
    files = ["--html", str(tmp_path / "s.html"), "--markdown", str(tmp_path / "s.md")]
    assert main(["compare", "--series", *runs[:2], *files]) == DONE
    assert "<svg" in (tmp_path / "s.html").read_text("utf-8")
    assert "no difference seen" in (tmp_path / "s.md").read_text("utf-8")
    assert "no difference seen" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["a.json"], ["a.json", "b.json", "--before", "c.json"], ["--before", "a.json"], ["a", "baseline:x"]],
)
def test_runs_that_are_not_two_sides_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])
    assert ended.value.code == BAD_INPUT


def test_a_slower_run_becomes_the_baseline_only_with_a_reason_which_the_trend_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    quick, slow = recording(tmp_path / "quick.json", 1000), recording(tmp_path / "slow.json", 1200)
    store = ["--store", str(tmp_path / "kept" / "runs.sqlite")]
    assert main(["baseline", "save", "main", quick, "--revision", "abc", *store]) == DONE
    assert main(["compare", "baseline:main", slow, "--fail-on-regression", "5", *store]) == GATE_FAILED
    assert main(["baseline", "save", "main", slow, *store]) == GATE_FAILED
    assert "--reason" in capsys.readouterr().err
    assert main(["baseline", "save", "main", slow, "--reason", "larger vocabulary", *store]) == DONE
    assert main(["compare", "baseline:main", slow, "--fail-on-regression", "5", *store]) == DONE
    capsys.readouterr()
    assert main(["trend", "main", "--json", *store]) == DONE
    first, second = json.loads(capsys.readouterr().out)["runs"]
    assert first["name"].endswith("abc")
    assert (second["note"], second["of_previous"]["outcome"]) == ("larger vocabulary", "slower")
    assert main(["trend", *store]) == DONE
    assert capsys.readouterr().out == "main\n"
    assert main(["compare", "baseline:other", slow, *store]) == BAD_INPUT
    assert main(["baseline", "remove", "main", *store]) == DONE
    assert main(["trend", "main", *store]) == BAD_INPUT


def test_a_database_of_something_else_is_neither_read_nor_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, store = recording(tmp_path / "run.json", 1000), tmp_path / "other.sqlite"
    with sqlite3.connect(store) as database:
        database.execute("CREATE TABLE kept_runs (id)")
    database.close()
    before = store.read_bytes()
    assert main(["baseline", "save", "main", run, "--store", str(store)]) == BAD_INPUT
    assert main(["baseline", "list", "--store", str(store)]) == BAD_INPUT
    assert store.read_bytes() == before
    assert "does not contain saved runs" in capsys.readouterr().err
