"""How much of names, stacks, threads and clocks is told, each with a case on either side."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.formats.amd import amd_smi_log
from parsers.model import QualityNote
from parsers.model.builder import TraceBuilder
from parsers.model.errors import Excessive
from parsers.model.names.kernels import distinct_names, kernel_name
from parsers.model.names.mangled import spelled_out
from parsers.model.quality import Effect
from parsers.nccl_messages import _of_the_start
from parsers.perfetto.packets import _Reading
from parsers.proton import records
from parsers.proton.kernel_timeline import _Stacks
from parsers.proton.records import ProtonRecords
from parsers.ranks.log_alignment import ASSUMED_ZONE, _half_hours
from parsers.ranks.rank_clocks import Collectives, _of_few
from parsers.rocm.sdk_records import ProcessRecords
from parsers.rocm.timeline import streams_or_queues
from parsers.stacks.firefox import _index, depth_shown
from parsers.stacks.timeline import allow_threads, stacks_of
from parsers.xprof.call_threads import _levels, owners_of_calls
from tests.parsers.claimed import ClaimedDict, ClaimedList

S = 1_000_000_000


# --- names of the model


@pytest.mark.parametrize(("length", "is_shortened"), [(8_192, False), (8_193, True)])
def test_a_builder_keeps_names_of_8192_characters(length: int, is_shortened: bool) -> None:
    builder = TraceBuilder()
    number = builder.string("n" * length)
    kept = builder._strings_with_bearable_names(np.array([number], np.int32))[number]
    assert len(kept) == 8_192
    assert kept.endswith("…") is is_shortened


def test_counters_are_below_ten_to_the_eighteenth() -> None:
    cells = ["900000000000000000", "1000000000000000000"]
    table = SimpleNamespace(texts=lambda *_: (cells, np.arange(2)))
    assert np.isfinite(amd_smi_log._numbers(cast(Any, table))).tolist() == [True, False]


def test_names_of_kernels_are_looked_at_for_400_characters() -> None:
    assert kernel_name("k" * 401) == "k" * 400


def test_names_of_kernels_tell_three_arguments_apart() -> None:
    assert distinct_names(["k<1, 1, 1, 1>()", "k<2, 2, 2, 2>()"]) == ["k <1, 1, 1>", "k <2, 2, 2>"]


@pytest.mark.parametrize(("length", "told"), [(1_000, "f<abc>"), (1_001, "f")])
def test_mangled_names_are_looked_at_for_1000_characters(length: int, told: str) -> None:
    assert spelled_out("_Z1fI".ljust(length - 4, "x") + "3abc") == told


@pytest.mark.parametrize(("count", "said"), [(8, "5, 6, 7 of 16"), (9, "6, 7, ... of 16")])
def test_nccl_messages_name_eight_ranks(count: int, said: str) -> None:
    assert said in _of_the_start("NCCL", list(range(count)), 16).title


# --- ranks


@pytest.mark.parametrize(("hours", "moved"), [(14, -28), (14.5, None)])
def test_the_alignment_of_a_log_moves_it_by_14_hours(hours: float, moved: int | None) -> None:
    note = QualityNote(ASSUMED_ZONE, 1, Effect.NOTED, "")
    start = round(hours * 3_600) * S
    log = SimpleNamespace(epoch_ns=start, duration=10 * S, quality=SimpleNamespace(notes=(note,)))
    assert _half_hours(cast(Any, log), 2 * S, 3 * S) == moved


@pytest.mark.parametrize(("count", "is_known"), [(2, True), (1, False)])
def test_rank_clocks_of_recordings_that_lie_apart_are_known_from_two_collectives(
    count: int, is_known: bool
) -> None:
    ends, none = np.arange(count) * 1_000, np.zeros(count, np.int64)
    found = _of_few(Collectives(ends, none, none), Collectives(ends + 5 * S, none, none))
    assert (found is not None and found.median_ns == 5 * S) is is_known


# --- other profilers


@pytest.mark.parametrize(("count", "is_read"), [(1_000_000, True), (1_000_001, False)])
def test_the_records_of_proton_hold_a_million_stacks(count: int, is_read: bool) -> None:
    read = ProtonRecords(cast(Any, SimpleNamespace(read=lambda _: None, note=lambda *_: None)))
    read._stacks = ClaimedDict(count)
    piece = cast(Any, SimpleNamespace(text=b"[]"))
    if is_read:
        read.add(piece)
    else:
        with pytest.raises(Excessive):
            read.add(piece)


@pytest.mark.parametrize(("count", "is_read"), [(8_000_000, True), (8_000_001, False)])
def test_the_records_of_proton_hold_eight_million_frames(
    count: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "_STACK", SimpleNamespace(decode=lambda _: ClaimedList(count)))
    read = ProtonRecords(cast(Any, SimpleNamespace(read=lambda _: None, note=lambda *_: None)))
    read._stacks = {b"": 0}
    if is_read:
        assert read._decoded_stacks() == [()]
    else:
        with pytest.raises(Excessive):
            read._decoded_stacks()


def test_a_kernel_timeline_shows_16_million_scopes() -> None:
    events = SimpleNamespace(stacks=[("ROOT", *(f"s{number}" for number in range(64)), "k")])
    assert _Stacks.of(TraceBuilder(), cast(Any, events), 500_000).length.tolist() == [32]


@pytest.mark.parametrize(("streams", "are_told"), [(64, True), (65, False)])
def test_a_rocm_timeline_shows_64_streams_of_a_device(streams: int, are_told: bool) -> None:
    none, stream = np.zeros(streams, np.int64), np.arange(streams)
    assert streams_or_queues(none, stream, none).tolist() == (stream if are_told else none).tolist()


def test_the_first_thread_of_sdk_records_has_the_number_of_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for each in ("kernels", "copies", "calls"):
        monkeypatch.setattr(ProcessRecords, f"_finish_{each}", lambda *_: None)
    read = ProcessRecords(cast(Any, None))
    read._keep("hip_api", lambda thread: (1, 2, thread, 4), [9, 8])
    read.finish()
    assert read.process == 8


@pytest.mark.parametrize(("clock", "times"), [(63, [5, 5]), (64, [5, 10])])
def test_packets_of_perfetto_have_clocks_of_their_own_from_64_on(clock: int, times: list[int]) -> None:
    stated = {8: np.array([5, 5]), 58: np.array([clock, clock])}
    packets = SimpleNamespace(
        _numbers=lambda number, _=0: stated[number].copy(), _own_clocks=lambda _: ({}, {(0, clock)})
    )
    assert _Reading._times(cast(Any, packets), np.zeros(2, np.int64), {}).tolist() == times


@pytest.mark.parametrize(("count", "are_told"), [(1_000, True), (1_001, False)])
def test_call_threads_are_told_of_a_thousand_pairs(count: int, are_told: bool) -> None:
    """One thread that works, and so many that call."""
    start = np.concatenate((np.zeros(1, np.int64), 10 + 10 * np.arange(count)))
    end = np.concatenate((np.array([10 * count + 20]), 12 + 10 * np.arange(count)))
    is_call = np.arange(count + 1) > 0
    assert bool(owners_of_calls(start, end, np.arange(count + 1), is_call, ~is_call)) is are_told


def test_call_threads_are_told_by_200_levels() -> None:
    start = np.arange(201)
    assert len(_levels(start, 1_000 - start)) == 200


def test_the_timeline_of_stacks_is_4000_deep() -> None:
    assert stacks_of([[0] * 4_001])[0].tolist() == [0, 4_000]


def test_the_timeline_of_stacks_has_20000_threads() -> None:
    allow_threads(20_000)
    with pytest.raises(Excessive):
        allow_threads(20_001)


def test_a_firefox_profile_shows_eight_million_frames() -> None:
    assert [depth_shown(stacks) for stacks in (2_000, 8_000)] == [4_000, 1_000]


def test_a_firefox_profile_has_numbers_below_two_to_the_31st() -> None:
    assert [_index((1 << 31) - 1), _index(1 << 31)] == [(1 << 31) - 1, -1]
