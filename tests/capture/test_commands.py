"""Argument lists are exact: every word reaches the program as it was typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from viewer.capture import commands
from viewer.capture.plan import command_for, portable_lines
from viewer.capture.request import (
    CaptureProblem,
    CaptureRequest,
    NcuOptions,
    NsysOptions,
    Target,
    TargetKind,
    Tool,
    TorchOptions,
    Window,
)

AWKWARD = ("two words", 'say "hi"', "it's", "größe=µ", "$HOME;rm -rf *", "")
SCRIPT = Target(TargetKind.SCRIPT, "my train.py", AWKWARD, "/opt/py 3/python", ("-u",))


def test_the_torch_runner_gets_the_schedule_and_the_scripts_own_words() -> None:
    request = CaptureRequest(
        target=SCRIPT,
        window=Window(wait=1, repeat=2, modules=True),
        torch=TorchOptions(shapes=True, memory=True),
    )
    assert command_for(request, "/out", "run", runner="/r") == [
        "/opt/py 3/python", "-u", "/r", "--out", "/out", "--name", "run", "--steps", "auto", "--skip-first", "3",
        "--wait", "1", "--warmup", "2", "--active", "5", "--repeat", "2", "--time-limit", "60", "--modules",
        "--shapes", "--memory", "--", "my train.py", *AWKWARD,
    ]  # fmt: skip


def test_torchrun_starts_the_runner_in_every_process() -> None:
    target = Target(TargetKind.MODULE, "pack.train", ("-x",), launcher=("torchrun", "--nproc_per_node=2"))
    words = command_for(
        CaptureRequest(target=target), "/out", "run", runner="/r", status="lines", control="/c"
    )
    assert words[:3] == ["torchrun", "--nproc_per_node=2", "/r"]
    assert words[-8:] == ["--status", "lines", "--control", "/c", "--", "-m", "pack.train", "-x"]


def test_nsys_records_the_steps_that_the_runner_marks() -> None:
    request = CaptureRequest(tool=Tool.NSYS, target=SCRIPT)
    words = command_for(request, "/out", "run", tool_path="/n/nsys", version=(2025, 3, 2), runner="/r")
    assert words == [
        "/n/nsys", "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true",
        "--output=/out/run", "--cuda-graph-trace=graph", "--capture-range=cudaProfilerApi", "--capture-range-end=stop",
        "/opt/py 3/python", "-u", "/r", "--out", "/out", "--name", "run", "--recorder", "cuda-range", "--steps", "auto",
        "--skip-first", "3", "--warmup", "2", "--active", "5", "--time-limit", "60", "--", "my train.py", *AWKWARD,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "window", "there"),
    [
        (
            NsysOptions(range="time", duration_s=20),
            Window(delay_s=5),
            ["--delay=5", "--duration=20", "--kill=sigterm"],
        ),
        (NsysOptions(range="time"), Window(keep_running=True), ["--duration=30", "--kill=none"]),
        (
            NsysOptions(range="api"),
            Window(),
            ["--capture-range=cudaProfilerApi", "--capture-range-end=stop-shutdown"],
        ),
        (
            NsysOptions(range="nvtx", nvtx_range="epoch 2@my app"),
            Window(),
            [
                "--capture-range=nvtx",
                "--nvtx-capture=epoch 2@my app",
                "--capture-range-end=stop-shutdown",
                "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
            ],
        ),
        (
            NsysOptions(range="steps", graph_mode="node", python_sampling=True, gpu_metrics=True),
            Window(repeat=3),
            [
                "--cuda-graph-trace=node",
                "--capture-range=cudaProfilerApi",
                "--capture-range-end=repeat:3",
                "--python-sampling=true",
                "--python-sampling-frequency=1000",
                "--gpu-metrics-devices=all",
            ],
        ),
    ],
)
def test_nsys_ranges(options: NsysOptions, window: Window, there: list[str]) -> None:
    words = commands.nsys_profile("nsys", options, "/o", window, (2025, 1))
    usual = commands.nsys_profile("nsys", NsysOptions(traces=()), "/o", Window(), (2025, 1))
    assert [word for word in words if word not in usual or word in there][-len(there) :] == there


def test_an_older_nsys_gets_the_names_it_knows() -> None:
    options = NsysOptions(gpu_metrics=True)
    old = commands.nsys_profile("nsys", options, "/o", Window(), (2022, 3, 9))
    assert "--gpu-metrics-device=all" in old
    assert not any(word.startswith("--cuda-graph-trace") for word in old)
    assert "--gpu-metrics-devices=all" in commands.nsys_profile("nsys", options, "/o", Window(), (2024, 1))


def test_ncu_profiles_some_launches_of_one_kernel() -> None:
    options = NcuOptions(
        "full", "regex:^gemm.*<4, 8>$", launch_skip=7, launch_count=2, keep_clocks=True, range="whole"
    )
    target = Target(TargetKind.COMMAND, "./bench", ("a b",))
    assert command_for(CaptureRequest(tool=Tool.NCU, target=target, ncu=options), "/o", "k") == [
        "ncu", "--export", "/o/k", "--force-overwrite", "--target-processes", "all", "--set", "full",
        "--kernel-name-base", "function", "--kernel-name", "regex:^gemm.*<4, 8>$", "--launch-skip", "7",
        "--launch-count", "2", "--kill", "yes", "--clock-control", "none", "./bench", "a b",
    ]  # fmt: skip


def test_ncu_over_steps_waits_for_the_runner() -> None:
    words = command_for(CaptureRequest(tool=Tool.NCU, target=SCRIPT), "/o", "k", runner="/r")
    assert words[words.index("--profile-from-start") + 1] == "off"
    assert words.index("/r") > words.index("--profile-from-start")


def test_the_line_to_copy_reads_back_as_the_same_words() -> None:
    line = commands.shell_line(["python", *AWKWARD], "/work dir", {"A": "b c"}, windows=False)
    assert shlex.split(line) == ["cd", "/work dir", "&&", "A=b c", "python", *AWKWARD]


def test_the_command_for_another_machine_names_nothing_of_this_one() -> None:
    request = CaptureRequest(tool=Tool.NSYS, target=replace(SCRIPT, interpreter_options=()))
    profile, export = portable_lines(request)
    assert "/opt/py 3" not in profile
    assert str(Path(commands.RUNNER)) not in profile
    assert "python3 stallscope_runner.pyz" in profile
    assert shlex.split(export)[:2] == ["nsys", "export"]


def test_a_program_that_is_no_script_cannot_be_recorded_by_torch() -> None:
    target = Target(TargetKind.COMMAND, "./bench")
    with pytest.raises(CaptureProblem, match="bench"):
        command_for(CaptureRequest(target=target), "/o", "k")
