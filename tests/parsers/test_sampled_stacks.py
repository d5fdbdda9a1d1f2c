"""Samples of the CPU's stacks as nested calls: what py-spy and perf wrote, other layouts, and files that mean harm."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.files import unpacking_limit
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.model import EventKind, LaneKind, Trace, TraceError
from parsers.model.builder import TraceBuilder
from parsers.model.names.source_files import is_own_file
from parsers.stacks import timeline
from parsers.stacks.timeline import SampledThread, add_thread, stacks_of
from rules import diagnose
from viewer.cli import main

MS = 1_000_000


def opened(folder: Path, content: str | bytes, name: str = "samples") -> Trace:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_trace([path])


def calls(trace: Trace) -> list[tuple[str, int, int, int]]:
    """Name, depth, start and end of every call, in ms."""
    table = trace.events
    rows = zip(table.depth.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    return [(trace.name(n), depth, start // MS, end // MS) for n, (depth, start, end) in enumerate(rows)]


def speedscope(*profiles: dict[str, Any], frames: str = "abc", **more: Any) -> str:
    stated = {"$schema": "https://www.speedscope.app/file-format-schema.json", "profiles": list(profiles)}
    return json.dumps(stated | {"shared": {"frames": [{"name": each} for each in frames]}} | more)


def sampled(*samples: list[int], unit: str = "milliseconds", **more: Any) -> dict[str, Any]:
    weights = [10.0] * len(samples)
    return {"type": "sampled", "name": "main", "unit": unit, "samples": samples, "weights": weights} | more


def test_a_profile_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    nested = sampled([0], [1]) | {"samples": [[[0]], [[1]]]}
    trace = opened(tmp_path, speedscope(sampled([0, 1], [0]), nested, sampled([2])))
    assert {trace.name(each) for each in range(len(trace.events))} == {"a", "b", "c"}
    (note,) = (each for each in trace.quality.notes if each.kind == "profile")
    assert (note.count, "not lists of frames" in note.reason) == (1, True)
    assert trace.quality.events_read == trace.quality.events_kept + note.count
    with pytest.raises(TraceError, match="cannot be read"):
        opened(tmp_path, speedscope(nested))


def test_what_py_spy_wrote_is_nested_calls_of_each_thread(fixtures: Path) -> None:
    trace = open_trace([fixtures / "stacks" / "feed.speedscope.json"])
    assert {lane.kind for lane in trace.lanes} == {LaneKind.SAMPLED_STACKS}
    assert [lane.name for lane in trace.lanes] == ['Thread 10497 ""', 'Thread 10507 "compressor"']
    assert set(trace.events.kind.tolist()) == {EventKind.SAMPLED_FRAME}
    assert trace.duration == pytest.approx(4.02e9, rel=0.01)
    roots = [end - start for _, depth, start, end in calls(trace) if depth == 0]
    assert sum(roots) == pytest.approx(5740, abs=10)
    stated = json.loads((fixtures / "stacks" / "feed.speedscope.json").read_text())
    seen = sum(len(profile["samples"]) for profile in stated["profiles"])
    assert sum(roots) == pytest.approx(seen * 20, abs=10)


def test_the_same_program_gives_the_same_shares_in_every_format(fixtures: Path) -> None:
    for name in ("feed.speedscope.json", "feed.collapsed.txt"):
        trace = open_trace([fixtures / "stacks" / name])
        spent: Counter[str] = Counter()
        for called, _, start, end in calls(trace):
            spent[called.rpartition(" ")[2]] += end - start
        whole = sum(end - start for _, depth, start, end in calls(trace) if depth == 0)
        assert spent["compress"] / whole == pytest.approx(0.3, abs=0.02)
        assert spent["JSONDecoder.raw_decode"] / whole == pytest.approx(0.43, abs=0.03)


def test_what_neighbouring_samples_share_is_one_call(tmp_path: Path) -> None:
    trace = opened(tmp_path, speedscope(sampled([0, 1], [0, 1, 2], [0, 2], [1], [], [1])))
    assert calls(trace) == [
        ("a", 0, 0, 30),
        ("b", 0, 30, 40),
        ("b", 0, 50, 60),
        ("b", 1, 0, 20),
        ("c", 1, 20, 30),
        ("c", 2, 10, 20),
    ]


def test_calls_with_beginnings_and_ends_are_read_as_they_are(tmp_path: Path) -> None:
    events = [("O", 0, 0), ("O", 1, 0), ("C", 1, 5), ("C", 2, 6), ("O", 7, 6), ("C", 0, 4), ("O", 2, 8)]
    profile = {
        "type": "evented",
        "name": "main",
        "unit": "milliseconds",
        "events": [{"type": kind, "frame": frame, "at": at} for kind, frame, at in events],
    }
    trace = opened(tmp_path, speedscope(profile))
    assert calls(trace) == [("a", 0, 0, 8), ("c", 0, 8, 8), ("b", 1, 0, 5)]
    assert trace.quality.quarantined == 3


def test_counts_without_a_unit_stand_for_ten_milliseconds_each_and_it_says_so(tmp_path: Path) -> None:
    trace = opened(tmp_path, speedscope(sampled([0], [0, 1], unit="none", weights=[3, 1])))
    assert calls(trace) == [("a", 0, 0, 40), ("b", 1, 30, 40)]
    assert any("10 ms" in note.reason for note in trace.quality.notes)


@pytest.mark.parametrize(("period", "told"), [(1_000, "1 ns"), (999, "10 ms")])
def test_weights_without_a_unit_that_are_periods_of_events_are_no_seconds(
    period: int, told: str, tmp_path: Path
) -> None:
    profile = sampled([0], [0, 1], unit="none", weights=[3 * period, period])
    trace = opened(tmp_path, speedscope(profile))
    assert trace.duration == 4 * period * (1 if told == "1 ns" else 10 * MS)
    assert any(told in note.reason for note in trace.quality.notes)


def test_samples_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    weights = [10.0, -1.0, 10.0, 1e300, 10.0]
    trace = opened(tmp_path, speedscope(sampled([0], [0], [0, 9], [0], [1], [2], weights=weights)))
    assert calls(trace) == [("a", 0, 0, 10), ("b", 0, 10, 20)]
    assert trace.quality.quarantined == 4


def test_collapsed_stacks_are_told_by_thread_with_equal_beginnings_together(tmp_path: Path) -> None:
    text = "process 7:train.py;thread (1): main;run (a.py:3);go (b.py:4) 2\nthread (2);x 1\n"
    text += "process 7:train.py;thread (1): main;run (a.py:3) 1\nno count\nthread (1): idle 3\n"
    trace = opened(tmp_path, text.replace("no count\n", ""))
    assert [lane.name for lane in trace.lanes] == [
        "process 7:train.py, thread (1): main",
        "thread (2)",
        "thread (1): idle",
    ]
    assert calls(trace)[:2] == [("a.py(3): run", 0, 0, 30), ("b.py(4): go", 1, 10, 30)]


def test_command_lines_of_processes_may_hold_semicolons(tmp_path: Path) -> None:
    first = 'process 7:"python serve.py"'
    second = 'process 8:"python -c from a import main; main(4) --fork"'
    trace = opened(
        tmp_path, f'{first};{second};run (a.py:3) 2\n{first};go (b.py:4) 1\nprocess 9:"cut;run (a.py:3) 1\n'
    )
    assert [lane.name for lane in trace.lanes] == [f"{first}, {second}", first, 'process 9:"cut']
    assert [name for name, *_ in calls(trace)] == ["a.py(3): run", "b.py(4): go", "a.py(3): run"]


def test_binaries_in_collapsed_stacks_are_no_source_files(tmp_path: Path) -> None:
    trace = opened(
        tmp_path, "run (a.py);copy ([kernel.kallsyms]) 1\nrun (a.py);deflate (/usr/lib/libz.so.1) 1\n"
    )
    assert [name for name, *_ in calls(trace)] == [
        "a.py(0): run",
        "copy ([kernel.kallsyms])",
        "deflate (/usr/lib/libz.so.1)",
    ]


def test_lines_that_are_no_stacks_are_counted(tmp_path: Path) -> None:
    stacks = "".join(f"main;f{number} 1\n" for number in range(60))
    trace = opened(tmp_path, stacks + "main;g\n; 4\nmain;h 0\n")
    assert trace.quality.quarantined == 3


@pytest.mark.parametrize(
    ("counts", "each_ms"),
    [
        ([10_000] * 19 + [10_003], 10),
        ([10_001] * 20, 0),
        ([10_001] * 18 + [10_003], 10),
        ([1_000] * 4, 0),  # one sample each
        ([999] * 4, 10),
        ([1] * 19 + [100_000], 10),
        ([30 * 24 * 3600 * 100], 10),
        ([30 * 24 * 3600 * 100 + 1], 0),
        ([1_000, 8_000, 3_000], 0),
        ([999, 8 * 999, 3 * 999], 10),
        ([1_000, 8_001, 3_000], 10),
        ([250_000], 10),
    ],
)
def test_weights_that_are_no_counts_of_samples_are_not_told_as_seconds(
    counts: list[int], each_ms: int, tmp_path: Path
) -> None:
    trace = opened(
        tmp_path, "".join(f"main;f{number} {count}\n" for number, count in enumerate(counts)), "samples"
    )
    assert trace.duration == sum(counts) * (each_ms * MS or 1)
    assert any("cannot be numbers of samples" in note.reason for note in trace.quality.notes) is (
        each_ms == 0
    )
    assert trace.quality.quarantined == 0


PERF = """# captured on: today
python  7/8 [001] R 100.000000:   10101010 cpu-clock:pppH:
\t    55d0 leaf+0x1f (/home/me/app)
\t    55d1 py::load:/home/me/train.py (/tmp/perf-7.map)
\t    55d2 main+0x1 (/home/me/app)

python  7/8 [001] 100.010000:   10101010 cpu-clock:pppH:
\t    55d2 main+0x2 (/home/me/app)

my worker   7/9 [002] 100.010000: cycles:u:      7f2a do_work+0x5 (/usr/lib/libz.so.1)
python  7/8 [001] 100.500000:   10101010 cpu-clock:pppH:
\t    55d2 main+0x3 (/home/me/app)
\t    [unknown]
"""


def test_perf_samples_last_until_the_next_one_unless_the_thread_did_not_run(tmp_path: Path) -> None:
    trace = opened(tmp_path, PERF)
    assert [(lane.name, lane.process, lane.thread) for lane in trace.lanes] == [
        ("python 8", 7, 8),
        ("my worker 9", 7, 9),
    ]
    usual = 250  # ms: the median of 10 and 490
    assert calls(trace) == [
        ("main (/home/me/app)", 0, 0, 10 + usual),
        ("main (/home/me/app)", 0, 500, 500 + usual),
        ("/home/me/train.py(0): load", 1, 0, 10),
        ("leaf (/home/me/app)", 2, 0, 10),
        ("do_work (/usr/lib/libz.so.1)", 0, 10, 10 + usual),
    ]
    assert trace.quality.quarantined == 1


UNTIMED = """java  7 cpu-clock:
\t    55d0 spin (/home/me/app)
\t    55d2 main (/home/me/app)

java  8 12 cpu-clock:
\t    55d2 main (/home/me/app)

java  7 cpu-clock:
\t    55d2 main (/home/me/app)
"""


def test_perf_samples_without_times_are_ten_milliseconds_each_and_it_says_so(tmp_path: Path) -> None:
    late = "\njava  7 100.000000: cpu-clock:\n\t    55d2 main (/home/me/app)\n"
    trace = opened(tmp_path, UNTIMED + late)
    assert [(lane.name, lane.thread) for lane in trace.lanes] == [("java 7", 7), ("java 8", 8)]
    assert calls(trace) == [
        ("main (/home/me/app)", 0, 0, 20),
        ("spin (/home/me/app)", 1, 0, 10),
        ("main (/home/me/app)", 0, 0, 10),
    ]
    assert any("10 ms" in note.reason for note in trace.quality.notes)
    assert trace.quality.quarantined == 2  # the sample with a time among those without, and its frame
    assert not any("10 ms" in note.reason for note in opened(tmp_path, PERF).quality.notes)


@pytest.mark.parametrize(
    "text", ["error 404 note: bad gateway\n", "epoch 3 loss:\n  12 batches\n", "a 3 b:\n"]
)
def test_lines_of_logs_are_no_perf_samples_without_times(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="not a recording"):
        opened(tmp_path, text)


def test_what_perf_printed_is_read(fixtures: Path) -> None:
    trace = open_trace([fixtures / "stacks" / "burn.perf.txt.gz"])
    assert len(trace.lanes) == 2
    assert trace.quality.quarantined == 0
    names = {trace.name(event).partition(" ")[0] for event in range(len(trace.events))}
    assert {"main", "integrate", "smooth", "work", "start_thread"} <= names
    assert any(trace.name(event) == "smooth (/tmp/cpu/burn)" for event in range(len(trace.events)))


def test_chrome_traces_of_py_spy_have_files_and_keep_callers_outside(fixtures: Path) -> None:
    trace = open_trace([fixtures / "stacks" / "feed.chrome.json"])
    assert trace.inputs[0].format == "py-spy-trace"
    found = {name: depth for name, depth, _, _ in calls(trace)}
    assert found["/tmp/cpu/feed.py(23): compress"] == 4
    assert trace.quality.quarantined == 0


@pytest.mark.parametrize(
    ("content", "format", "says"),
    [
        (speedscope(sampled([0]))[:-30], "speedscope", "cannot be read"),
        (speedscope(sampled([0], unit="bytes")), "speedscope", "measure bytes, not time"),
        (speedscope(sampled([0]), shared={"frames": {}}), "speedscope", "cannot be read"),
        (speedscope(sampled([7])), "speedscope", "no event"),
        (speedscope(sampled([1 << 31])), "speedscope", "cannot be read"),
        (speedscope(sampled([0], unit="seconds", weights=[1e308])), "speedscope", "no event"),
        (
            '{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":' + "[" * 99_999,
            "speedscope",
            "cannot be read",
        ),
        ("main;a 0\nmain;b 0\n", "collapsed-stacks", "None of its lines"),
        ("python 8 100.000000: 1 cpu-clock:\n", "perf-script", "contain no stacks"),
        ('[{"cat":"py-spy","name":"a","ph":"B"}]', "py-spy-trace", "cannot be read"),
        ('[{"cat":"py-spy","name":"a","ph":"E","ts":1}]', "py-spy-trace", "no event"),
    ],
)
def test_bad_samples_are_refused_in_one_sentence(
    content: str, format: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "samples"
    path.write_text(content)
    parser = parser_of(identify(path))
    assert parser is not None
    assert parser.format == format
    assert main(["diagnose", str(path)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "Traceback" not in said


def test_endless_stacks_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_DEPTH", 5)
    offset, frame = stacks_of([[1] * 9, [2] * 5, []])
    assert offset.tolist() == [0, 5, 10, 10]
    assert frame.tolist() == [1] * 5 + [2] * 5


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=5), st.integers(0, 2)), max_size=12))
def test_at_each_moment_the_open_calls_are_the_stack_of_the_sample(
    samples: list[tuple[list[int], int]],
) -> None:
    builder = TraceBuilder()
    names = [builder.string(each) for each in "abcd"]
    edges = np.append(0, np.cumsum([length for _, length in samples])).astype(np.int64)
    offset, frame = stacks_of([[names[each] for each in stack] for stack, _ in samples])
    add_thread(builder, SampledThread("main", edges[:-1], edges[1:], offset, frame))
    zero = min((int(start) for start, (stack, _) in zip(edges, samples, strict=False) if stack), default=0)
    trace = builder.build()
    for (stack, length), at in zip(samples, edges.tolist(), strict=False):
        for moment in range(at, at + length):
            shifted = moment - zero
            here = np.flatnonzero((trace.events.start <= shifted) & (trace.events.end > shifted))
            by_depth = here[np.argsort(trace.events.depth[here])]
            assert [trace.name(event) for event in by_depth.tolist()] == ["abcd"[each] for each in stack]


@given(st.binary(max_size=200))
def test_any_bytes_after_a_good_beginning_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes
) -> None:
    folder = tmp_path_factory.mktemp("stacks")
    for number, beginning in enumerate(
        (PERF.encode(), b"main;a (b.py:1) 3\n" * 60, speedscope(sampled([0])).encode())
    ):
        path = folder / str(number)
        path.write_bytes(beginning + noise)
        try:
            trace = open_trace([path])
        except TraceError:
            continue
        assert len(trace.events)


@pytest.mark.parametrize(
    "of_threads",
    [
        lambda count: "".join(f"thread ({n});a 1\n" for n in range(count)),
        lambda count: "".join(f"sh {n} 100.000000: 1 cycles: 55d0 a (/b)\n" for n in range(count)),
        lambda count: json.dumps(
            [
                {"cat": "py-spy", "name": "a", "ph": ph, "ts": n, "tid": n, "args": None}
                for n in range(count)
                for ph in "BE"
            ]
        ),
    ],
    ids=["collapsed", "perf", "py-spy"],
)
@pytest.mark.parametrize("too_many", [False, True])
def test_more_threads_than_programs_have_are_refused(
    of_threads: Callable[[int], str], too_many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "MAX_THREADS", 9)
    content = of_threads(9 + too_many)
    if too_many:
        with pytest.raises(TraceError, match="more than 9 threads"):
            opened(tmp_path, content)
    else:
        assert len(opened(tmp_path, content).lanes) == 9


def test_samples_that_need_more_memory_than_there_is_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking_limit, "available_bytes", lambda: 1_000)
    with pytest.raises(TraceError, match="of memory"):
        opened(tmp_path, speedscope(sampled([0], [1])))


EXPORTED = (
    "train.py(30):_<module>;train.py(12):_step;torch/nn/modules/conv.py(453):__conv_forward;"
    "<built-in_method_conv2d_of_type_object_at_0x7f51> 700\n"
    "train.py(30):_<module>;train.py(12):_step;nn.Module:_ReLU_0 300\n"
)


def test_stacks_that_pytorch_exports_are_operators_with_microseconds(tmp_path: Path) -> None:
    trace = opened(tmp_path, EXPORTED, "stacks.txt")
    assert {trace.name(n) for n in range(len(trace.events))} == {
        "train.py(30): <module>",
        "train.py(12): step",
        "torch/nn/modules/conv.py(453): _conv_forward",
        "<built-in method conv2d>",
        "nn.Module: ReLU_0",
    }
    assert int(trace.events.end.max() - trace.events.start.min()) == 1 * MS
    assert "does not say which" in next(
        each.reason for each in trace.quality.notes if each.kind == "operators"
    )


def test_times_of_operators_are_not_said_to_be_the_cpus(tmp_path: Path) -> None:
    (finding,) = diagnose(opened(tmp_path, EXPORTED, "stacks.txt")).findings
    assert str(finding.title) == "70 % of the operators' time is in step (train.py:12)"
    assert "PyTorch's operators take 1.00 ms" in str(finding.account)


def test_stacks_of_other_profilers_are_not_taken_for_pytorchs(tmp_path: Path) -> None:
    trace = opened(tmp_path, "main (train.py:30);step (train.py:12) 7\nmain (train.py:30);f(12):g 3\n")
    assert {each.kind for each in trace.quality.notes} == {"counted"}


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (r"C:\Users\me\AppData\Local\Programs\Python\Python311\Lib\json\decoder.py", False),
        (r"C:\Users\me\anaconda3\lib\json\decoder.py", False),
        (r"C:\Users\me\Miniforge3\envs\train\Lib\json\decoder.py", False),
        (r"C:\Users\me\project\lib\decoder.py", True),
        (r"C:\Users\me\python\decoder.py", True),
        ("/home/me/lib/decoder.py", True),
    ],
)
def test_pythons_own_library_is_known_on_windows(file: str, own: bool) -> None:
    assert is_own_file(file) is own
