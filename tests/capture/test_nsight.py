"""Nsight tools that only pretend show what is passed to them and how each of their failures is explained."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.capture.pretend import PretendTools, script_request
from viewer.capture import tools
from viewer.capture.output_stream import Event
from viewer.capture.recording import Outcome, Recording
from viewer.capture.request import CaptureProblem, CaptureRequest, Target, TargetKind, Tool

NSYS_VERSION = (
    "if '--version' in argv: print('NVIDIA Nsight Systems version 2025.3.2.474-253236389321v0'); sys.exit()\n"
)
NCU_VERSION = (
    "if '--version' in argv:\n"
    "    print('NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 36398880)'); sys.exit()\n"
)
OUTPUT = "out = next(word.split('=', 1)[1] for word in argv if word.startswith('--output='))\n"
NSYS_REPORTS = (
    NSYS_VERSION
    + OUTPUT
    + (
        "if argv[0] == 'export':\n"
        "    print('Processing 10 events: [====100%====]'); open(out, 'w').write('sqlite'); sys.exit()\n"
        "print('Generating \\'x.qdstrm\\'\\n[1/1] [====50%  ] x.nsys-rep')\n"
        "open(out + '.nsys-rep', 'w').write('report')\n"
    )
)
AWKWARD = ("two words", 'say "hi"', "größe=µ", "$HOME")


def other_program(tool: Tool, out: Path, *arguments: str) -> CaptureRequest:
    return CaptureRequest(
        tool=tool, target=Target(TargetKind.COMMAND, sys.executable, arguments), out=str(out)
    )


def record(request: CaptureRequest) -> tuple[Outcome, list[Event]]:
    events: list[Event] = []
    return Recording(request, on_event=events.append).run(), events


def test_nsys_profiles_then_exports(pretend_tools: PretendTools, tmp_path: Path) -> None:
    pretend_tools.add("nsys", NSYS_REPORTS)
    outcome, events = record(other_program(Tool.NSYS, tmp_path / "my out", *AWKWARD))
    assert [path.name for path in outcome.recordings] == [f"{Path(sys.executable).stem}.sqlite"]
    profile, export = (call for call in pretend_tools.calls("nsys") if call != ["--version"])
    assert profile[-5:] == [sys.executable, *AWKWARD]
    assert profile[-6] == "--kill=sigterm"
    stem = str(tmp_path / "my out" / Path(sys.executable).stem)
    assert export == [
        "export", "--type=sqlite", "--force-overwrite=true", f"--output={stem}.sqlite", f"{stem}.nsys-rep",
    ]  # fmt: skip
    assert {"writing", "converting"} <= {event.phase for event in events}
    assert 100 in [event.values.get("percent") for event in events]


def test_a_raw_stream_is_imported_first(pretend_tools: PretendTools, tmp_path: Path) -> None:
    body = NSYS_REPORTS.replace(".nsys-rep', 'w')", ".qdstrm', 'w')")
    pretend_tools.add("nsys", body)
    pretend_tools.add(
        "QdstrmImporter", "open(argv[1][:-len('.qdstrm')] + '.nsys-rep', 'w').write('report')\n"
    )
    outcome, _ = record(other_program(Tool.NSYS, tmp_path / "out"))
    assert [path.suffix for path in outcome.recordings] == [".sqlite"]
    assert pretend_tools.calls("QdstrmImporter") == [
        ["-i", str(tmp_path / "out" / f"{Path(sys.executable).stem}.qdstrm")]
    ]


def test_a_raw_stream_without_its_converter_is_explained(pretend_tools: PretendTools, tmp_path: Path) -> None:
    pretend_tools.add("nsys", NSYS_REPORTS.replace(".nsys-rep', 'w')", ".qdstrm', 'w')"))
    outcome, _ = record(other_program(Tool.NSYS, tmp_path / "out"))
    assert outcome.recordings == ()
    assert "raw stream" in outcome.problem


def test_ncu_gets_the_programs_words_and_leaves_a_report(pretend_tools: PretendTools, tmp_path: Path) -> None:
    body = NCU_VERSION + (
        "print('==PROF== Profiling \"gemm\" - 0: 0%....50%....100% - 38 passes')\n"
        "open(argv[argv.index('--export') + 1] + '.ncu-rep', 'w').write('report')\n"
    )
    pretend_tools.add("ncu", body)
    outcome, events = record(other_program(Tool.NCU, tmp_path / "out", *AWKWARD))
    assert [path.suffix for path in outcome.recordings] == [".ncu-rep"]
    profile = pretend_tools.calls("ncu")[-1]
    assert profile[-5:] == [sys.executable, *AWKWARD]
    assert "--profile-from-start" not in profile
    assert Event("recording", values={"kernel": "gemm"}) in events


@pytest.mark.parametrize(
    ("tool", "says", "problem", "fix"),
    [
        (
            Tool.NCU,
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
            "hardware counters",
            "NVreg_Restrict",
        ),
        (Tool.NCU, "==WARNING== No kernels were profiled.", "No kernel matched", "kernel name"),
        (Tool.NCU, "Failed to initialize the profiler: LibraryNotLoaded", "driver", "gVisor"),
        (
            Tool.NCU,
            "RuntimeError: Found no NVIDIA driver on your system.",
            "no usable NVIDIA driver",
            "nvidia-smi",
        ),
        (Tool.NSYS, "RuntimeError: No CUDA GPUs are available", "sees no GPU", "CUDA_VISIBLE_DEVICES"),
        (
            Tool.NSYS,
            "unrecognised option '--cuda-graph-trace=graph'",
            "does not know one of the options",
            "Update",
        ),
        (Tool.NSYS, "AssertionError: Torch not compiled with CUDA enabled", "without CUDA", "CUDA build"),
        (Tool.NSYS, "OSError: [Errno 28] No space left on device", "disk is full", "another folder"),
    ],
)
def test_known_failures_are_explained(
    pretend_tools: PretendTools, tmp_path: Path, tool: Tool, says: str, problem: str, fix: str
) -> None:
    version = NSYS_VERSION if tool is Tool.NSYS else NCU_VERSION
    pretend_tools.add(tool.value, version + f"print({says!r}, file=sys.stderr); sys.exit(1)\n")
    outcome, _ = record(other_program(tool, tmp_path / "out"))
    assert outcome.recordings == ()
    assert problem in outcome.problem
    assert fix in outcome.fix
    assert says in outcome.log.read_text(encoding="utf-8")


def test_a_listener_that_breaks_does_not_make_the_program_wait(
    pretend_tools: PretendTools, tmp_path: Path
) -> None:
    pretend_tools.add("nsys", NSYS_VERSION + "print('x' * 1_000_000); sys.exit(7)\n")

    def broken(_: object) -> None:
        raise BrokenPipeError

    outcome = Recording(other_program(Tool.NSYS, tmp_path / "out"), on_text=broken, on_event=broken).run()
    assert "exit code 7" in outcome.problem
    assert outcome.log.stat().st_size >= 1_000_000


def test_a_data_folder_that_cannot_be_written_is_one_sentence(
    pretend_tools: PretendTools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_tools.add("nsys", NSYS_REPORTS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STALLSCOPE_DATA", str(tmp_path / "file"))
    with pytest.raises(CaptureProblem, match="cannot be written") as caught:
        record(other_program(Tool.NSYS, tmp_path / "out"))
    assert "STALLSCOPE_DATA" in caught.value.fix


def test_an_unknown_failure_names_the_exit_code(pretend_tools: PretendTools, tmp_path: Path) -> None:
    pretend_tools.add("nsys", NSYS_VERSION + "sys.exit(7)\n")
    outcome, _ = record(other_program(Tool.NSYS, tmp_path / "out"))
    assert "exit code 7" in outcome.problem


def test_a_tool_that_is_too_old_is_refused_before_anything_runs(
    pretend_tools: PretendTools, tmp_path: Path
) -> None:
    pretend_tools.add("nsys", "print('NVIDIA Nsight Systems version 2021.2.4.12-abc')\n")
    with pytest.raises(CaptureProblem, match=r"2021\.2\.4\.12 is too old"):
        record(other_program(Tool.NSYS, tmp_path / "out"))
    pretend_tools.add("nsys", "print('NVIDIA Nsight Systems version 2021.3.1.54-abc')\n")
    assert tools.find("nsys").problem == ""
    assert not (tmp_path / "out").exists()


def test_a_missing_tool_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_PLACES", {"nsys": {"linux": ()}, "ncu": {"linux": ()}})
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(CaptureProblem, match="Nsight Compute") as caught:
        record(other_program(Tool.NCU, tmp_path / "out"))
    assert "developer.nvidia.com" in caught.value.fix


def test_the_newest_installed_tool_is_found_outside_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for version in ("2024.5.1", "2025.10.2", "2025.9.9"):
        folder = tmp_path / "nsight-compute" / version
        folder.mkdir(parents=True)
        PretendTools(folder / "x").add("ncu", NCU_VERSION).rename(folder / "ncu")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "_PLACES", {"ncu": {"linux": (f"{tmp_path}/nsight-compute/*/ncu",)}})
    monkeypatch.setattr(sys, "platform", "linux")
    assert tools.find("ncu").path == str(tmp_path / "nsight-compute" / "2025.10.2" / "ncu")


def test_steps_of_a_python_script_are_marked_inside_nsys(
    pretend_tools: PretendTools, tmp_path: Path, torch_python: str
) -> None:
    start = f"import subprocess\nat = argv.index({torch_python!r})\nsys.exit(subprocess.call(argv[at:]))\n"
    pretend_tools.add("nsys", NSYS_REPORTS + start)
    request = replace(script_request("inference.py", tmp_path / "out", python=torch_python), tool=Tool.NSYS)
    outcome, events = record(request)
    assert [path.name for path in outcome.recordings] == ["inference.sqlite"]
    assert Event("recording", values={"step": 1, "of": 5}) in events
    assert "finished all of it" not in outcome.log.read_text(encoding="utf-8")
