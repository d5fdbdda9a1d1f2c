"""The command line as scripts and continuous integration use it: output, exit codes, one sentence on bad input."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import resources
from viewer.cli import main

SAMPLES = resources.path("samples")
BUDGET_TOLERANCE = 0.001


def _run(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "viewer.cli", *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=110, check=False)


def json_of(*words: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(list(words)) == 0
    answer: dict[str, Any] = json.loads(printed.getvalue())
    return answer


@pytest.fixture(scope="session")
def diagnosed() -> dict[str, Any]:
    return json_of("diagnose", "--json", str(SAMPLES / "cpu_python.pt.trace.json.gz"))


@pytest.fixture(scope="session")
def events_of_a_sample() -> int:
    found = json_of("diagnose", "--json", str(SAMPLES / "elementwise_chain.pt.trace.json.gz"))
    return int(found["quality"]["events_kept"])


def test_json_names_the_bottleneck_and_its_culprit_first(diagnosed: dict[str, list[dict[str, str]]]) -> None:
    first = diagnosed["findings"][0]
    assert (first["category"], first["severity"]) == ("host-bound", "high")
    assert "tokenize_next" in json.dumps(first)


def test_the_budget_adds_up_to_the_window(diagnosed: dict[str, list[dict[str, dict[str, int]]]]) -> None:
    window = diagnosed["window_ns"]
    for device in diagnosed["devices"]:
        budget = dict(device["budget"])
        idle = budget.pop("idle_ns")
        assert isinstance(idle, dict)
        assert isinstance(window, int)
        assert sum(budget.values()) + sum(idle.values()) == pytest.approx(window, rel=BUDGET_TOLERANCE)


def test_json_has_every_field_of_the_contract(diagnosed: dict[str, object]) -> None:
    assert diagnosed["schema"] == 1
    assert diagnosed.keys() >= {
        "inputs", "quality", "window_ns", "steps", "devices", "kernels", "findings", "skipped", "crashed",
    }  # fmt: skip
    assert diagnosed["crashed"] == {}


NOT_NEEDED = (
    "PySide6",
    "pyqtgraph",
    "pandas",
    "pyarrow",
    "duckdb",
    "sqlite3",
    "parsers.sqlite.database",
    "parsers.ncu.pages",
    "viewer.remote.far",
    "tarfile",
    "numpy.ma.core",
)


@pytest.mark.parametrize(
    "name", ["elementwise_chain", pytest.param("cpu_python", marks=pytest.mark.thorough)]
)  # read in this process, and in another one
def test_diagnosis_loads_neither_qt_nor_what_reads_other_files(name: str) -> None:
    program = (
        "import sys; from viewer.cli import main; "
        f"main(['diagnose', {str(SAMPLES / f'{name}.pt.trace.json.gz')!r}]); "
        f"sys.exit(' '.join(each for each in sys.modules if each.startswith({NOT_NEEDED})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    "content",
    [b"", b"hello", b"\x1f\x8b not really gzip", b'{"neither": "here nor there"}', bytes(range(256)) * 8],
    ids=["empty", "text", "false gzip", "other json", "binary"],
)
def test_a_file_that_is_no_recording_gives_one_sentence_and_exit_code_2(
    tmp_path: Path, content: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "received.json"
    path.write_bytes(content)
    assert main(["diagnose", str(path)]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "Traceback" not in said.err
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["diagnose", str(tmp_path / "gone.json")]) == 2
    assert "gone.json" in capsys.readouterr().err


def test_a_recording_can_come_from_standard_input() -> None:
    recording = gzip.decompress((SAMPLES / "elementwise_chain.pt.trace.json.gz").read_bytes())
    answer = _run("diagnose", "--json", "-", stdin=recording)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["findings"][0]["category"] == "memory-bound-kernels"


@pytest.mark.parametrize(("sample", "level", "code"), [("cpu_python", "high", 1), ("healthy", "high", 0)])
def test_the_gate_fails_on_a_finding_of_its_level(sample: str, level: str, code: int) -> None:
    assert main(["diagnose", "--fail-on", level, str(SAMPLES / f"{sample}.pt.trace.json.gz")]) == code


def test_the_page_escapes_what_a_recording_calls_itself(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>"
    text = gzip.decompress((SAMPLES / "cpu_python.pt.trace.json.gz").read_bytes())
    recording = tmp_path / "a.json"
    recording.write_bytes(text.replace(b"tokenize_next", hostile.encode()))
    page = tmp_path / "page.html"
    assert main(["diagnose", "--html", str(page), str(recording)]) == 0
    assert hostile not in page.read_text()
    assert "&lt;script&gt;" in page.read_text()


def test_control_codes_of_a_recording_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = gzip.decompress((SAMPLES / "cpu_python.pt.trace.json.gz").read_bytes())
    recording = tmp_path / "a.json"
    recording.write_bytes(text.replace(b"tokenize_next", rb"tok\u001b[2Jnext"))
    assert main(["diagnose", str(recording)]) == 0
    printed = capsys.readouterr().out
    assert "next" in printed
    assert "\x1b" not in printed


def test_a_recording_compared_with_itself_shows_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(SAMPLES / "cpu_python.pt.trace.json.gz")
    assert main(["compare", sample, sample, "--json", "--fail-on-regression", "1"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["step"]["change"] == 0
    assert (answer["resolved"], answer["appeared"]) == ([], [])


def test_another_batch_does_not_pass_the_regression_gate(capsys: pytest.CaptureFixture[str]) -> None:
    small, large = (str(SAMPLES / f"{name}.pt.trace.json.gz") for name in ("cpu_python", "healthy"))
    assert main(["compare", small, large, "--fail-on-regression", "5"]) == 3
    assert "another batch" in capsys.readouterr().err


@pytest.mark.parametrize("to", ["chrome", "parquet", "csv"])
def test_a_converted_recording_has_every_event(tmp_path: Path, to: str, events_of_a_sample: int) -> None:
    out = tmp_path / f"out.{to}"
    sample = SAMPLES / "elementwise_chain.pt.trace.json.gz"
    assert main(["convert", str(sample), "--to", to, str(out)]) == 0
    if to == "chrome":
        again = json_of("diagnose", "--json", str(out))
        assert again["quality"]["events_kept"] == events_of_a_sample
        assert again["findings"][0]["category"] == "memory-bound-kernels"
    else:
        import pandas as pd

        table = pd.read_parquet(out) if to == "parquet" else pd.read_csv(out)
        assert len(table) == events_of_a_sample
    assert list(tmp_path.iterdir()) == [out]


def test_a_result_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sample = str(SAMPLES / "elementwise_chain.pt.trace.json.gz")
    assert main(["convert", sample, "--to", "csv", str(tmp_path / "no such folder" / "out.csv")]) == 2
    assert "could not be written" in capsys.readouterr().err


def test_the_self_check_finds_formats_rules_and_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["self-check"]) == 0
    printed = capsys.readouterr().out
    assert "chrome" in printed
    assert "waiting-for-data" in printed
    assert "samples: 0" not in printed


def test_a_changed_threshold_is_told_in_every_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    path = str(SAMPLES / "dataloader_starved.pt.trace.json.gz")
    changed = "40.0 % instead of 1.00 %"
    assert main(["diagnose", path, "--threshold", "least-share=40%", "--html", str(page)]) == 0
    assert changed in " ".join(capsys.readouterr().out.split())
    assert changed in page.read_text("utf-8")
    assert main(["diagnose", path, "--threshold", "least-share=40%", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["thresholds"] == {"least-share": 0.4}
    assert main(["diagnose", path]) == 0
    assert "changed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "told"), [("foo=1", "foo"), ("least-share=99%", "50.0 %"), ("=", "allocation")]
)
def test_a_wrong_threshold_is_refused_with_what_would_be_right(
    wrong: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["diagnose", "any", "--threshold", wrong])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


ASKED_WITHOUT_NUMPY = """
import sys
from viewer.cli import command_names, main

for words in (["--help"], ["--version"], *([command, "--help"] for command in command_names())):
    try:
        main(words)
    except SystemExit:
        pass
    if "numpy" in sys.modules:
        sys.exit(f"{words} loaded numpy")
"""


def test_help_and_version_are_told_without_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", ASKED_WITHOUT_NUMPY], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("usage: stallscope") > 10
