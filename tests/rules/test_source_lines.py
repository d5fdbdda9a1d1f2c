"""From a finding to the line that one would open: the deepest own frame, or the line of the call where it is known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from parsers import open_trace
from rules import Finding, diagnosis_of
from rules.analysis.analysis import Analysis
from rules.analysis.stretches.program_frames import is_program_frame
from rules.source_lines import source_line_of
from rules.terms import Culprit, CulpritKind, SourceLine
from tests.parsers.chrome.traces import Event, complete, kernel, launch, text_of

FIXTURES = Path(__file__).parents[1] / "fixtures"


def findings(*files: Path) -> list[Finding]:
    return list(diagnosis_of(Analysis(open_trace(list(files)))).findings)


@pytest.mark.parametrize(
    ("files", "lines"),
    [
        (["stacks/feed.chrome.json"], ["/tmp/cpu/feed.py:23, in compress"]),
        (["stacks/feed.speedscope.json"], ["/tmp/cpu/feed.py:9, in parse.<locals>.<listcomp>"]),
        (["stacks/feed.firefox.json"], ["feed.py:9, in <listcomp>"]),
        (["compiler/torch_trace.log"], ["/tmp/tt/compiled.py:13"]),
        (
            ["compiler/torch_trace.log"],
            [
                "step, which begins at /tmp/tt/compiled.py:17",
                "/tmp/tt/compiled.py:20, in step",
                "/tmp/tt/compiled.py:20",
            ],
        ),
        (["compiler/torch_logs.log"], ["/tmp/tt/compiled.py:20", "/tmp/tt/compiled.py:13"]),
        (["memory/growing.snapshot.pickle.gz"], ["/home/user/code/v1/real_mem.py:15, in step"]),
        (["memory/oom.snapshot.pickle.gz"], ["/home/user/code/v1/real_oom.py:14, in <module>"]),
    ],
)
def test_what_recorders_of_stacks_say_is_the_line_itself(files: list[str], lines: list[str]) -> None:
    told = [each.at.told for each in findings(*(FIXTURES / file for file in files)) if each.at is not None]
    assert [line for line in lines if line in told] == lines


def test_ranks_that_call_different_collectives_name_the_odd_call() -> None:
    (first, *_) = findings(*(FIXTURES / f"flight/mismatch.rank{rank}.pickle" for rank in range(3)))
    assert first.at is not None
    source = (FIXTURES / "flight" / "mismatch.py").read_text().splitlines()
    assert first.at.file.endswith("mismatch.py")
    assert "broadcast" in source[first.at.line - 1]


@pytest.mark.parametrize(
    ("frame", "is_own"),
    [
        ("train.py(12): step", True),
        ("model/net.py(40): forward", True),
        ("/home/me/run/train.py(3): <module>", True),
        ("transformers/models/bert/modeling_bert.py(238): forward", False),
        ("/usr/lib/python3.11/site-packages/mine/x.py(3): f", False),
        ("torch/nn/modules/module.py(1500): _call_impl", False),
        ("/tmp/torchinductor_root/ov/abc.py(2533): call", False),
        ("nn.Module: Linear_0", False),
        ("<built-in method item of Tensor object at 0x7f>", False),
        ("load (program)", False),
    ],
)
def test_whose_frame_it_is(frame: str, is_own: bool) -> None:
    assert is_program_frame(frame) is is_own


def launching(*frames: str) -> list[Event]:
    """Steps of short kernels that one thread launches slowly, below these frames."""
    events: list[Event] = []
    for step in range(4):
        at = step * 1000
        events.append(complete(f"ProfilerStep#{step}", at, 990, "user_annotation"))
        events += [
            complete(frame, at + depth, 980 - 2 * depth, "python_function")
            for depth, frame in enumerate(frames, 1)
        ]
        for number in range(20):
            correlation = step * 20 + number + 1
            events.append(complete("aten::add", at + 20 + number * 45, 40))
            events.append(launch(at + 30 + number * 45, correlation, "cudaLaunchKernel"))
            events.append(kernel("add_kernel", at + 42 + number * 45, 3, correlation))
    return events


def first_line(tmp_path: Path, *frames: str) -> SourceLine | None:
    path = tmp_path / "trace.json"
    path.write_text(text_of(launching(*frames)))
    (first, *_) = findings(path)
    return first.at


def test_the_deepest_own_frame_is_named_and_not_the_library_below_it(tmp_path: Path) -> None:
    frames = (
        "train.py(80): <module>",
        "train.py(60): step",
        "model/net.py(40): forward",
        "torch/nn/functional.py(9): gelu",
    )
    at = first_line(tmp_path, *frames)
    assert at == SourceLine("model/net.py", 40, "forward", is_call=False)
    assert at.told == "forward, which begins at model/net.py:40"


def test_where_files_have_no_folders_only_the_script_is_known_to_be_the_programs(tmp_path: Path) -> None:
    at = first_line(tmp_path, "train.py(60): step", "ad.py(299): backward_pass", "dispatch.py(81): apply")
    assert at == SourceLine("train.py", 60, "step", is_call=False)


def test_a_library_whose_file_has_no_folder_is_no_line_though_it_is_the_culprit(tmp_path: Path) -> None:
    events = launching("train.py(60): step")
    events.append(complete("dispatch.py(81): apply", 0, 900, "python_function", tid=2))
    path = tmp_path / "trace.json"
    path.write_text(text_of(events))
    analysis = Analysis(open_trace([path]))
    (first, *_) = diagnosis_of(analysis).findings
    for name, line in (("dispatch.py(81): apply", None), ("train.py(60): step", 60)):
        blamed = replace(first, culprit=Culprit(CulpritKind.FRAME, name), evidence=())
        at = source_line_of(analysis, blamed)
        assert (at.line if at is not None else None) == line


@pytest.mark.parametrize(
    "frames",
    [
        (),
        ("train.py(80): <module>",),
        (
            "profiler.py(417): wrapper",
            "core.py(932): check_scalar_conversion",
        ),  # JAX, recorded from inside a loop
        ("transformers/trainer.py(9): train", "vllm/worker.py(5): run"),
    ],
)
def test_nothing_is_said_where_no_function_of_the_program_is_known(
    tmp_path: Path, frames: tuple[str, ...]
) -> None:
    assert first_line(tmp_path, *frames) is None


def test_a_finding_keeps_its_line_when_another_process_found_it_out(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(text_of(launching("train.py(60): step")))
    analysis = Analysis(open_trace([path]))
    for each in diagnosis_of(analysis).findings:
        assert each.at == source_line_of(analysis, each)


def noted_line(tmp_path: Path, name: str, *places: tuple[str, int, int]) -> SourceLine | None:
    """The line of the first finding where all work is in a range of this name; places are ranges, lines, counts."""
    events = launching()
    events += [complete(name, step * 1000 + 1, 985, "user_annotation") for step in range(4)]
    listed = [[range, "/run/train.py", line, "main", count] for range, line, count in places]
    path = tmp_path / "trace.json"
    path.write_text(text_of(events, stallscopePlaces=listed))
    (first, *_) = findings(path)
    return first.at


@pytest.mark.parametrize("name", ["optimizer", "forward: Net"])
def test_without_stacks_the_line_is_that_of_the_call_the_recorder_saw(tmp_path: Path, name: str) -> None:
    at = noted_line(tmp_path, name, (name, 40, 4), ("data", 38, 4))
    assert at == SourceLine("/run/train.py", 40, "main")
    assert at.told == "/run/train.py:40, in main"


@pytest.mark.parametrize(("elsewhere", "line"), [(10, 40), (11, None)])
def test_a_line_stands_for_nearly_all_calls_or_none_does(
    tmp_path: Path, elsewhere: int, line: int | None
) -> None:
    at = noted_line(tmp_path, "optimizer", ("optimizer", 40, 100 - elsewhere), ("optimizer", 50, elsewhere))
    assert (at.line if at is not None else None) == line


def test_a_place_of_something_else_is_no_line(tmp_path: Path) -> None:
    assert noted_line(tmp_path, "optimizer", ("data", 38, 4)) is None


def test_torchs_own_range_of_a_loader_is_found_by_the_range_around_it(tmp_path: Path) -> None:
    events: list[Event] = []
    for step in range(4):
        at, first = step * 1000, step * 2 + 1
        events.append(complete(f"ProfilerStep#{step}", at, 990, "user_annotation"))
        events.append(complete("data", at + 5, 800, "user_annotation"))
        loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events.append(complete(loader, at + 6, 798, "user_annotation"))
        for number in range(2):
            events.append(launch(at + 820 + 60 * number, first + number))
            events.append(kernel("add_kernel", at + 825 + 60 * number, 50, first + number))
    path = tmp_path / "trace.json"
    path.write_text(text_of(events, stallscopePlaces=[["data", "/run/train.py", 38, "main", 4]]))
    (first_finding, *_) = findings(path)
    assert first_finding.rule == "waiting-for-data"
    assert first_finding.at == SourceLine("/run/train.py", 38, "main")
