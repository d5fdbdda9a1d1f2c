"""The exit codes of the gates, one case each of the table in docs/gates.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from viewer.cli import main
from viewer.terminal.exit_codes import BAD_INPUT, DONE, GATE_FAILED, GATE_INCONCLUSIVE


def recording(
    path: Path, step_us: float, *, count: int = 20, gpu_work: bool = True, steps: bool = True
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
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
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
    assert main(["compare", before, after, "--fail-on-regression", "5"]) == GATE_INCONCLUSIVE
    assert said in capsys.readouterr().err


def test_two_recordings_without_gpu_work_are_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [recording(tmp_path / f"{us}.json", us, gpu_work=False) for us in (1000, 500)]
    assert main(["compare", *paths, "--fail-on-regression", "5"]) == GATE_INCONCLUSIVE
    assert "no GPU work" in capsys.readouterr().err


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
