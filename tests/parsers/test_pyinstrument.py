"""pyinstrument's profiles: the printed tree of calls, its JSON and its pages, as nested calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import LaneKind, Malformed, Trace, UnknownFormat
from rules.analysis.analysis import Analysis
from rules.diagnosis import diagnosis_of
from rules.verdict.verdict import verdict

MS = 1_000_000
LOGO = """
  _     ._   __/__   _ _  _  _ _/_   Recorded: 12:43:42  Samples:  676
 /_//_/// /_\\ / //_// / //_'/ //     Duration: 12.5     CPU time: 12.5
/   _/                      v5.0.1

Program: train.py

"""
TREE = """12.000 <module>  train.py:1
├─ 8.000 load  train.py:20
│  ├─ 5.000 read_csv  pandas/io/parsers.py:912
│  │     [41 frames hidden]  pandas, <built-in>
│  │        3.000 read  pandas/io/parsers.py:1400
│  └─ 2.000 [self]  train.py
└─ 4.000 fit  train.py:40
   └─ 1.500 sleep  <built-in>
"""


def opened(folder: Path, content: str) -> Trace:
    path = folder / "profile"
    path.write_text(content)
    return open_trace([path])


def calls(trace: Trace) -> list[tuple[str, int, int, int]]:
    """Name, depth, start and end of every call, in ms."""
    table = trace.events
    rows = zip(table.depth.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    return [(trace.name(n), depth, start // MS, end // MS) for n, (depth, start, end) in enumerate(rows)]


def test_a_printed_tree_is_calls_one_after_another_inside_their_callers(tmp_path: Path) -> None:
    trace = opened(tmp_path, f"a line of the program\n{LOGO}{TREE}\nanother line\n99.0 other  other.py:1\n")
    assert calls(trace) == [
        ("train.py(1): <module>", 0, 0, 12_000),
        ("train.py(20): load", 1, 0, 8_000),
        ("train.py(40): fit", 1, 8_000, 12_000),
        ("lib/site-packages/pandas/io/parsers.py(912): read_csv", 2, 0, 5_000),
        ("sleep", 2, 8_000, 9_500),
        ("lib/site-packages/pandas/io/parsers.py(1400): read", 3, 0, 3_000),
    ]
    assert [lane.kind for lane in trace.lanes] == [LaneKind.SAMPLED_STACKS]


def test_time_inside_a_package_is_its_callers(tmp_path: Path) -> None:
    analysis = Analysis(opened(tmp_path, LOGO + TREE))
    assert verdict(analysis, diagnosis_of(analysis)) == "67 % of the CPU's time is in load (train.py:20)"


@pytest.mark.parametrize("name", ["feed.pyinstrument.txt", "feed.pyinstrument.json"])
def test_text_and_json_of_a_program_tell_the_same(name: str, fixtures: Path) -> None:
    trace = open_trace([fixtures / "stacks" / name])
    assert trace.inputs[0].producer == "pyinstrument"
    assert len(trace.events) == 12
    analysis = Analysis(trace)
    assert "% of the CPU's time is in <listcomp> (feed.py:9)" in verdict(analysis, diagnosis_of(analysis))


def frame(name: str, seconds: float, *children: dict[str, object]) -> dict[str, object]:
    return {"identifier": name, "time": seconds, "attributes": {}, "children": list(children)}


def page(session: object) -> str:
    return (
        "<!DOCTYPE html><script>var pyinstrumentHTMLRenderer=function(){};</script>"
        f"<script>const sessionData = {json.dumps(session)};\n"
        "  pyinstrumentHTMLRenderer.render(document.getElementById('app'), sessionData);</script></html>"
    )


def test_a_page_holds_the_same_tree(tmp_path: Path) -> None:
    inner = frame("step\0/home/me/train.py\x0012", 2.0, frame("[self]", 0.5))
    tree = frame("main\0/home/me/train.py\x003", 3.0, inner, frame("wait\0<built-in>\x000", 9.0))
    assert calls(opened(tmp_path, page({"session": {"duration": 3.0}, "frame_tree": tree}))) == [
        ("/home/me/train.py(3): main", 0, 0, 3_000),
        ("/home/me/train.py(12): step", 1, 0, 2_000),
        ("wait", 1, 2_000, 3_000),  # what does not fit into its caller is cut
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_an_older_page_is_read_also_as_powershell_saves_it(encoding: str, tmp_path: Path) -> None:
    own = {"function": "[self]", "file_path": "/home/me/train.py", "line_no": 3, "time": 1.0, "children": []}
    step = {"function": "step", "file_path": "/home/me/train.py", "line_no": 12, "time": 2.0, "children": []}
    main = {
        "function": "main",
        "file_path": "/home/me/train.py",
        "line_no": 3,
        "time": 3.0,
        "children": [step, own],
    }
    session = json.dumps({"start_time": 1.0, "duration": 3.0, "sample_count": 9, "root_frame": main})
    path = tmp_path / "profile.html"
    path.write_text(
        f"<html><script>window.profileSession = {session}\n</script><script>1;</script>", encoding
    )
    assert calls(open_trace([path])) == [
        ("/home/me/train.py(3): main", 0, 0, 3_000),
        ("/home/me/train.py(12): step", 1, 0, 2_000),
    ]


@pytest.mark.parametrize(
    "content",
    [
        LOGO,
        LOGO + "100% main  train.py:1\n",
        page({"frame_tree": None}),
        page({"frame_tree": [1]}),
        page({})[:150],
        page({"frame_tree": {"time": "long"}}),
    ],
)
def test_a_profile_without_calls_is_refused(content: str, tmp_path: Path) -> None:
    with pytest.raises(Malformed, match="calls"):
        opened(tmp_path, content)


def test_a_tree_of_calls_may_be_very_deep(tmp_path: Path) -> None:
    tree = "".join(f"{' ' * depth}1.000 f  f.py:{depth + 1}\n" for depth in range(6_000))
    assert len(opened(tmp_path, LOGO + tree).events) == 4_000


@pytest.mark.parametrize("content", ["pyinstrument -r html\n", '{"start_time": 1.0, "duration": 2.0}'])
def test_what_only_speaks_of_it_is_no_profile(content: str, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, content)
