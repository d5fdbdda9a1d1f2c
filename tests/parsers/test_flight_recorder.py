"""Dumps of flight recorders: what torch wrote of real hangs, other layouts, and files that mean harm."""

from __future__ import annotations

import json
import os
import pickle  # noqa: TID251 - to write what is read as data, and what must be refused
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.flight.dump import EntryReader
from parsers.model import Attribute, CollectiveState, LaneKind, Trace, TraceError
from tests.examples import any_text
from tests.parsers.flight_dumps import FRAMES, START, as_json, dump, entry, open_entry, pickled
from viewer.cli import main

MS = 1_000_000


def opened(folder: Path, content: bytes, name: str = "nccl_trace_rank_3") -> Trace:
    path = folder / name
    path.write_bytes(content)
    return open_trace([path])


def texts(trace: Trace, which: Attribute) -> list[str]:
    return [trace.text_attribute(which, event) for event in range(len(trace.events))]


def numbers(trace: Trace, which: Attribute) -> list[int]:
    return trace.attribute(which, np.arange(len(trace.events)), -1).tolist()


def test_what_torch_wrote_of_a_rank_that_waits_is_read(fixtures: Path) -> None:
    trace = open_trace([fixtures / "flight" / "early_end.rank0.pickle"])
    assert [lane.name for lane in trace.lanes] == ["pair (group 1)", "default_pg (group 0)"]
    assert {lane.kind for lane in trace.lanes} == {LaneKind.FLIGHT_RECORDER}
    assert [rank.rank for rank in trace.ranks] == [0]
    assert numbers(trace, Attribute.COLLECTIVE_SEQUENCE) == [*range(1, 5), *range(1, 11)]
    assert texts(trace, Attribute.COLLECTIVE) == ["broadcast"] * 4 + ["all_reduce"] * 10
    assert numbers(trace, Attribute.SENT_ELEMENTS)[:8] == [*[10] * 4, 1000, 2000, 3000, 1000]
    states = numbers(trace, Attribute.COLLECTIVE_STATE)
    assert states.count(CollectiveState.COMPLETED.value) == 13
    assert states[13] == CollectiveState.SCHEDULED.value
    assert trace.name(13) == "all_reduce (unfinished)"
    assert trace.events.duration[13] == 60_000 * MS  # its time-out
    assert trace.text_attribute(Attribute.CALLED_FROM, 13).endswith("train.py:21")
    assert trace.arguments(13)["stack"][2].startswith("step (")


def test_json_says_the_same_but_for_stacks(fixtures: Path) -> None:
    written, as_text = (
        open_trace([fixtures / "flight" / f"early_end.rank0.{suffix}"]) for suffix in ("pickle", "json")
    )
    assert as_text.epoch_ns == written.epoch_ns
    for column in ("start", "end", "lane", "depth"):
        assert getattr(as_text.events, column).tolist() == getattr(written.events, column).tolist()
    for which in (Attribute.SENT_ELEMENTS, Attribute.COLLECTIVE_STATE, Attribute.COLLECTIVE_SEQUENCE):
        assert numbers(as_text, which) == numbers(written, which)
    assert set(texts(as_text, Attribute.CALLED_FROM)) == {""}


@pytest.mark.parametrize("written", [pickled, as_json])
def test_a_dump_of_nccl_has_ends_members_and_places(written: Any, tmp_path: Path) -> None:
    trace = opened(tmp_path, written(entry(811), open_entry(812, 5.0)))
    assert trace.epoch_ns == START
    assert trace.events.start.tolist() == [0, 5 * MS]
    assert trace.events.end.tolist()[0] == MS
    assert trace.ranks[0].rank == 3
    assert trace.ranks[0].world_size == 3
    assert trace.ranks[0].groups[0].ranks == (0, 1, 2)
    assert numbers(trace, Attribute.COLLECTIVE_STATE) == [
        CollectiveState.COMPLETED.value,
        CollectiveState.STARTED.value,
    ]
    assert texts(trace, Attribute.CALLED_FROM) == ["/home/me/train.py:21"] * 2


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("nccl_trace_rank_12", 12),
        ("fr_trace_7", 7),
        ("dump.rank2.pickle", 2),
        ("nccl_trace_rank_4.json", 4),
        ("dump.pickle", None),
    ],
)
def test_the_rank_is_that_of_the_files_name(name: str, rank: int | None, tmp_path: Path) -> None:
    trace = opened(tmp_path, pickled(entry(1)), name)
    assert trace.inputs[0].rank == rank
    assert [each.rank for each in trace.ranks] == ([] if rank is None else [rank])


def test_the_first_layouts_call_times_and_numbers_otherwise(tmp_path: Path) -> None:
    old = {
        "seq_id": 7,
        "pg_id": 2,
        "profiling_name": "nccl:broadcast",
        "time_created_us": START // 1000,
        "time_discovered_completed_us": START // 1000 + 5,
        "input_sizes": ((3,),),
        "state": "completed",
    }
    trace = opened(tmp_path, pickled(old))
    assert trace.epoch_ns == START
    assert trace.events.end.tolist() == [5_000]
    assert numbers(trace, Attribute.COLLECTIVE_SEQUENCE) == [7]
    assert numbers(trace, Attribute.SENT_ELEMENTS) == [3]
    assert [lane.name for lane in trace.lanes] == ["group 2"]


def test_what_did_not_end_goes_on_until_the_file_was_written(tmp_path: Path) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(pickled(entry(1), open_entry(2, 5.0)))
    for written_ns, end in ((30_000 * MS, 30_000 * MS), (700_000 * MS, 600_005 * MS), (-MS, 600_005 * MS)):
        os.utime(path, ns=(START + written_ns, START + written_ns))
        assert open_trace([path]).events.end.tolist()[1] == end


def test_a_dump_joins_the_timeline_of_its_rank(fixtures: Path, tmp_path: Path) -> None:
    timelines = [fixtures / "ddp" / f"no_overlap.rank{rank}.pt.trace.json.gz" for rank in range(2)]
    run = open_trace(timelines)
    assert run.epoch_ns is not None
    files = []
    for rank in range(2):
        files.append(tmp_path / f"nccl_trace_rank_{rank}")
        files[-1].write_bytes(pickled(entry(1, (run.epoch_ns - START) / 1e6 + 2)))
    joined = open_trace([*timelines, *files])
    assert [rank.rank for rank in joined.ranks] == [0, 1]
    assert len(joined.events) == len(run.events) + 2
    recorder = [index for index, lane in enumerate(joined.lanes) if lane.kind is LaneKind.FLIGHT_RECORDER]
    assert [joined.lanes[index].rank for index in recorder] == [0, 1]
    start = [int(joined.events.start[joined.events.lane_slice(index)][0]) for index in recorder]
    assert start == pytest.approx([2 * MS] * 2, abs=1000)


def test_entries_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    trace = opened(tmp_path, pickled(entry(1), None, {"state": "completed"}, [], entry(2)))
    assert len(trace.events) == 2
    assert trace.quality.quarantined == 3
    assert trace.quality.events_read == 5


class Harm:
    """Would print if it were unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return print, ("harm",)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (pickled(entry(1))[:-40], "ends in the middle"),
        (as_json(entry(1))[:-40], "cannot be read"),
        (pickle.dumps(dump(entry(1)) | {"harm": Harm()}, 2), "GLOBAL would run code"),
        (pickle.dumps(dump() | {"entries": {"1": entry(1)}}, 2), "no flight recorder entries"),
        (json.dumps({"nccl_version": "2", "entries": 7}).encode(), "no flight recorder entries"),
        (b'{"entries": ' + b"[" * 200_000, "cannot be read"),
        (pickle.dumps(dump(*[entry(1)] * 1) | {"entries": [{}] * 30_000}, 2), "more than 20,000 entries"),
    ],
)
def test_a_bad_dump_is_refused_in_one_sentence(
    content: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nccl_trace_rank_0"
    path.write_bytes(content)
    parser = parser_of(identify(path))
    assert parser is not None
    assert parser.format == "flight-recorder"
    assert main(["diagnose", str(path)]) == 2
    said = capsys.readouterr()
    assert says in said.err
    assert "harm" not in said.out
    assert "Traceback" not in said.err


def test_lists_that_many_entries_share_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes, frames = [[2] * 60] * 1000, [*FRAMES[:1] * 1000, FRAMES[1]]
    dumped = dump(*(entry(number, input_sizes=shapes, frames=frames) for number in range(50)))
    reader = EntryReader(dumped)
    looked: list[Any] = []
    whole = EntryReader._elements_of_shape
    monkeypatch.setattr(
        EntryReader, "_elements_of_shape", lambda self, shape: looked.append(shape) or whole(self, shape)
    )
    entries = [reader.read(each) for each in dumped["entries"]]
    assert {each.sent for each in entries if each} == {(2**60 * 1000) if 2**60 * 1000 < 2**62 else 2**62}
    assert {each.called_from for each in entries if each} == {"/home/me/train.py:21"}
    assert len(looked) == 1000 + 50  # and the sizes of what each entry gets


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | any_text(8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text(6), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(entry(1))), values, max_size=8), values)
def test_whatever_a_dump_states_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, stated: dict[str, Any], config: Any
) -> None:
    path = tmp_path_factory.mktemp("dumps") / "nccl_trace_rank_0"
    path.write_bytes(pickle.dumps(dump(entry(1), open_entry(2) | stated) | {"pg_config": config}, 2))
    try:
        trace = open_trace([path])
    except TraceError:
        return
    assert trace.quality.events_read == trace.quality.events_kept + trace.quality.quarantined
