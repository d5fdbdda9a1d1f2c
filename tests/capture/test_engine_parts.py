"""The small parts of the engine: messages in the middle of output, presets and history, GPU use, the next recording."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.pretend import PretendTools, script_request
from viewer.capture import advice, commands, storage
from viewer.capture.form.run import gpu_use
from viewer.capture.interpreters import found_interpreters, probe
from viewer.capture.output_stream import Event, OutputStream
from viewer.capture.request import CaptureRequest, NcuOptions, NsysOptions, Target, Tool, Window, retry_after
from viewer.capture.storage import History, Presets

MESSAGE = '\x1eSTALLSCOPE {"phase": "recording", "rank": 0, "step": 3, "of": 5}\n'


@given(before=st.text(alphabet="ab\r\nµ %"), after=st.text(alphabet="ab\r\nµ %"), size=st.integers(1, 40))
def test_messages_are_found_however_the_output_is_cut(before: str, after: str, size: int) -> None:
    data = (before + MESSAGE + after).encode()
    stream = OutputStream()
    parts: list[Event | str] = []
    for start in range(0, len(data), size):
        parts += stream.feed(data[start : start + size])
    parts += stream.feed(b"", last=True)
    assert [part for part in parts if isinstance(part, Event)] == [
        Event("recording", 0, {"step": 3, "of": 5})
    ]
    assert "".join(part for part in parts if isinstance(part, str)) == before + after


def test_a_mark_without_a_message_is_shown_in_the_end() -> None:
    stream = OutputStream()
    assert list(stream.feed(b"a\x1eb")) == ["a"]
    assert list(stream.feed(b"c", last=True)) == ["\x1ebc"]
    assert list(stream.feed(b"\x1eSTALLSCOPE {broken}\nrest")) == ["rest"]


def test_phases_read_as_sentences() -> None:
    assert Event("recording", values={"step": 3, "of": 5}).sentence == "recording step 3 of 5"
    assert Event("warming-up", values={"step": 1, "of": 2}).sentence == "warming up step 1 of 2"
    assert Event("converting", values={"percent": 40}).sentence == "converting 40 %"


def test_damaged_presets_and_history_are_left_out_not_fatal(data_folder: Path) -> None:
    data_folder.mkdir()
    (data_folder / "capture-presets.json").write_text('{"good": {"tool": "ncu"}, "bad": 3', encoding="utf-8")
    assert Presets().all() == {}
    (data_folder / "capture-presets.json").write_text(
        '{"good": {"tool": "ncu", "x": 1}, "bad": 3}', encoding="utf-8"
    )
    assert Presets().all() == {"good": CaptureRequest(tool=Tool.NCU)}
    (data_folder / "capture-presets.json").write_text(
        '{"good": {"window": {"active": 7}}, "bad": {"window": {"active": "many"}}, "worse": {"tool": "perf"}}',
        encoding="utf-8",
    )
    assert Presets().all() == {"good": CaptureRequest(window=Window(active=7))}
    run = History().begin(CaptureRequest())
    assert [each.request for each in History().runs()] == [CaptureRequest()]
    for damaged in ("[", "[]", '{"request": {}, "started": "yesterday"}'):
        (run.folder / "run.json").write_text(damaged, encoding="utf-8")
        assert History().runs() == []


def test_only_the_last_runs_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(storage, "KEPT_RUNS", 3)
    history = History(tmp_path / "runs")
    for _ in range(5):
        history.begin(script_request("inference.py", tmp_path))
    assert len(history.runs()) == 3


def test_gpu_use_is_read_where_nvidia_smi_is(
    pretend_tools: PretendTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_tools.add("nvidia-smi", "print('0, 87, 12595, 143771\\n1, [N/A], 0, 143771\\nbroken')\n")
    sentences = [use.sentence for use in gpu_use()]
    assert sentences == ["GPU 0: 87 % busy, 12.3 of 140 GiB", "GPU 1: use unknown, 0 of 140 GiB"]
    monkeypatch.setenv("PATH", "")
    assert gpu_use() == []


@pytest.mark.parametrize(
    ("tool", "problem", "changed"),
    [
        (Tool.TORCH, {"reason": "no-steps"}, {"window": Window(steps="whole")}),
        (Tool.NSYS, {"reason": "no-steps"}, {"nsys": NsysOptions(range="time")}),
        (Tool.NCU, {"reason": "no-steps"}, {"ncu": NcuOptions(range="whole")}),
        (
            Tool.TORCH,
            {"reason": "too-few-steps", "steps": 6},
            {"window": Window(skip_first=1, warmup=1, active=3)},
        ),
        (
            Tool.TORCH,
            {"reason": "too-few-steps", "steps": 3},
            {"window": Window(skip_first=1, warmup=1, active=1)},
        ),
        (Tool.TORCH, {"reason": "too-few-steps", "steps": 2}, {"window": Window(steps="whole")}),
    ],
)
def test_nothing_found_leads_to_a_request_that_finds_something(
    tool: Tool, problem: dict[str, object], changed: dict[str, object]
) -> None:
    request = CaptureRequest(tool=tool)
    assert retry_after(request, problem) == replace(request, **changed)  # type: ignore[arg-type]


def test_other_failures_are_not_tried_again() -> None:
    assert retry_after(CaptureRequest(), {}) is None
    assert retry_after(CaptureRequest(), {"reason": "no-torch"}) is None


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (CaptureRequest(window=Window(skip_first=0, warmup=0)), "warm-up"),
        (CaptureRequest(window=Window(active=51)), "51 steps"),
        (CaptureRequest(window=Window(time_limit_s=121)), "two minutes"),
        (CaptureRequest(tool=Tool.NCU, ncu=NcuOptions("full")), "38 times"),
        (CaptureRequest(tool=Tool.NCU, ncu=NcuOptions(launch_count=0)), "Every launch"),
        (CaptureRequest(tool=Tool.NCU, ncu=NcuOptions("full", launch_count=60)), "About 2 minutes"),
        (CaptureRequest(tool=Tool.NSYS, nsys=NsysOptions(("cuda", "osrt"))), "gigabytes"),
        (CaptureRequest(tool=Tool.NSYS), "secrets"),
    ],
)
def test_each_guardrail_speaks_up(request_: CaptureRequest, word: str) -> None:
    assert any(word in warning for warning in advice.warnings(request_))


def test_safe_defaults_need_no_warning() -> None:
    assert advice.warnings(CaptureRequest()) == []
    just_below = Window(skip_first=0, warmup=1, active=50, time_limit_s=120)
    assert advice.warnings(CaptureRequest(window=just_below)) == []


@pytest.mark.parametrize(
    ("word", "warned"),
    [
        ("--batch-size", True),
        ("--batch_size=4", True),
        ("-b", True),
        ("--bs", True),
        ("--batches", False),
        ("batch", False),
    ],
)
def test_a_batch_size_by_hand_is_noticed(word: str, warned: bool) -> None:
    target = replace(CaptureRequest().target, program="a.py", arguments=(word,))
    assert bool(advice.warnings(CaptureRequest(target=target))) is warned


def test_an_environment_beside_the_script_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    conda = tmp_path / "conda" / "bin" / "python"
    conda.parent.mkdir(parents=True)
    conda.symlink_to(sys.executable)
    home = Path(os.environ["HOME"])
    (home / ".conda").mkdir()
    (home / ".conda" / "environments.txt").write_text(
        f"{tmp_path / 'conda'}\n{tmp_path / 'gone'}\n", encoding="utf-8"
    )
    found = found_interpreters(tmp_path)
    assert found[0].path == str(python)
    assert (str(conda), "conda conda") in [(one.path, one.origin) for one in found]
    assert not any("gone" in one.path for one in found)


def test_an_interpreter_with_torch_has_no_problem(pretended_torch_python: str) -> None:
    assert probe(pretended_torch_python).problem == ""


def test_interpreters_without_torch_or_that_are_none_are_told_apart(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    assert "has no torch" in probe(str(bare / "bin" / "python")).problem
    assert "no interpreter" in probe(str(tmp_path / "nothing")).problem
    assert "does not run Python" in probe("/bin/true").problem


def test_the_runner_is_read_by_the_oldest_python_it_promises() -> None:
    sources = sorted(commands.RUNNER.rglob("*.py"))
    assert len(sources) > 8
    for source in sources:
        ast.parse(source.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_the_runner_needs_nothing_of_this_program() -> None:
    for source in commands.RUNNER.rglob("*.py"):
        names = [
            alias.name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
            if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and node.level == 0)
            for alias in node.names
        ]
        outside = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names)
        assert outside <= {"torch"}, source


def test_what_looks_like_a_secret_is_neither_kept_nor_shown() -> None:
    environment = {"WANDB_API_KEY": "abc", "hf_token": "def", "WANDB_MODE": "offline"}
    kept = CaptureRequest(target=Target(environment=environment)).to_json()
    assert kept["target"]["environment"] == {"WANDB_MODE": "offline"}
    shown = commands.shell_line(["train"], environment=environment, windows=False)
    assert shown == 'WANDB_API_KEY="$WANDB_API_KEY" hf_token="$hf_token" WANDB_MODE=offline train'
