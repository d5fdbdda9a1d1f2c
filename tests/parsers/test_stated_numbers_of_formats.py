"""Numbers by which formats are recognised and their fields are believed, each with a case on either side."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from msgspec import Raw

from parsers import open_trace
from parsers.chrome.build.quarantine import _judge
from parsers.chrome.decode.header import Header
from parsers.chrome.decode.recovery import _end_of_first_value
from parsers.chrome.decode.times import INVALID, nanoseconds
from parsers.compiler.log_lines import _local
from parsers.compiler.records import _line
from parsers.data_pickle import NotData, read_data
from parsers.files.base import Source
from parsers.formats.cpu_profilers.collapsed_stacks import CollapsedStacks
from parsers.formats.cpu_profilers.perf import PerfScript
from parsers.formats.nvidia.ncu import _some
from parsers.formats.proton_profiles import _Node
from parsers.model.names.mangled import readable_symbol
from parsers.nsys.nccl_payloads import _fields
from parsers.protobuf.wire import Damaged, fields

S = 1_000_000_000
DECADE_NS = 315_360_000_000_000_000


def headed(lines: list[str]) -> Source:
    return Source(Path("recording"), "".join(f"{line}\n" for line in lines).encode())


@pytest.mark.parametrize(
    ("lines", "recognised"),
    [
        (["main;work 3", "main 1"], True),
        (["main;work 3", "main 1", "idle 1"], False),  # a third of several frames
        (["main;work 3"] * 49 + ["no stack"] * 2, True),
        (["main;work 3"] * 48 + ["no stack"] * 2, False),
    ],
)
def test_collapsed_stacks_show_in_49_lines_of_which_half_have_several_frames(
    lines: list[str], recognised: bool
) -> None:
    assert CollapsedStacks().recognises(headed(lines)) is recognised


@pytest.mark.parametrize("length", [1_000, 1_001])
def test_a_frame_has_a_thousand_characters(length: int, tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    path.write_text(f"main;{'w' * length} 3\n")
    assert max(map(len, open_trace([path]).strings)) == 1_000


@pytest.mark.parametrize(("comments", "recognised"), [(59, True), (60, False)])
def test_samples_of_perf_show_in_60_lines(comments: int, recognised: bool, fixtures: Path) -> None:
    text = gzip.decompress((fixtures / "stacks" / "burn.perf.txt.gz").read_bytes()).decode()
    sample = [line for line in text.splitlines() if line and not line.startswith("#")][:1]
    lines = ["# comment"] * comments + sample
    assert PerfScript().recognises(headed(lines)) is recognised


@pytest.mark.parametrize(
    ("start_ms", "known"), [(1e12, True), (9.99e11, False), (3.99e12, True), (4e12, False)]
)
def test_a_firefox_profile_was_made_between_2001_and_2096(
    start_ms: float, known: bool, fixtures: Path, tmp_path: Path
) -> None:
    content = json.loads((fixtures / "stacks" / "feed.firefox.json").read_bytes())
    content["meta"]["startTime"] = start_ms
    content["threads"][0]["name"] = "t" * 250
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(content))
    trace = open_trace([path])
    assert (trace.epoch_ns is not None) is known
    assert max(len(lane.name) for lane in trace.lanes) == 200


@pytest.mark.parametrize(("seconds_before", "epoch"), [(1, None), (0, 0)])
def test_times_since_2000_are_of_the_wall_clock(seconds_before: int, epoch: int | None) -> None:
    first_ns = (946_684_800 - seconds_before) * 1_000_000_000
    assert header({}).epoch_ns(first_ns) == epoch


def header(keys: dict[str, Any]) -> Header:
    return Header(keys)


@pytest.mark.parametrize(("sms", "known"), [(4_096, True), (4_097, False)])
def test_no_gpu_has_more_than_4096_multiprocessors(sms: int, known: bool) -> None:
    (device,) = header({"deviceProperties": [{"id": 0, "name": "GPU", "numSms": sms}]}).devices()
    assert device.sm_count == (sms if known else None)


def test_a_rank_is_in_ten_thousand_groups_at_most() -> None:
    listed = [{"pg_name": str(number), "ranks": [0]} for number in range(10_001)]
    assert len(header({"distributedInfo": {"pg_config": listed}}).groups) == 10_000


@pytest.mark.parametrize(("duration", "usable"), [(DECADE_NS, True), (DECADE_NS + 1, False)])
def test_an_event_lasts_ten_years_at_most(duration: int, usable: bool) -> None:
    columns = (np.array([0, DECADE_NS // 10]), np.array([5, duration]), np.ones(2, bool), np.zeros(2, bool))
    assert bool(_judge(*columns).no_duration.any()) is not usable


@pytest.mark.parametrize(
    ("us", "known"),
    [("4611686018427387.0", True), ("4611686018427388.0", False), ("-4611686018427387.0", True)],
)
def test_times_are_believed_up_to_two_to_the_sixty_second(us: str, known: bool) -> None:
    assert bool(nanoseconds([Raw(us.encode())])[0] != INVALID) is known


@pytest.mark.parametrize(("depth", "ends"), [(4_095, True), (4_096, False)])
def test_a_value_is_4095_brackets_deep_at_most(depth: int, ends: bool) -> None:
    assert (_end_of_first_value(b"[" * depth + b"]" * depth) is not None) is ends


@pytest.mark.parametrize(("size", "ends"), [(4 << 20, True), ((4 << 20) + 1, False)])
def test_a_value_has_four_megabytes_at_most(size: int, ends: bool) -> None:
    assert (_end_of_first_value(b"[" + b" " * (size - 2) + b"]") is not None) is ends


@pytest.mark.parametrize(("value", "believed"), [(9.9e29, True), (1e30, False)])
def test_a_metric_is_below_ten_to_the_thirtieth(value: float, believed: bool) -> None:
    node = cast(Any, SimpleNamespace(metrics={"time": value}))
    assert bool(_Node.number(node, "time")) is believed


@pytest.mark.parametrize("length", [300, 301])
def test_a_reason_has_300_characters(length: int) -> None:
    assert len(_line("r" * length)) == 300


@pytest.mark.parametrize(("length", "is_read"), [(16, True), (17, False)])
def test_a_pickled_number_has_sixteen_bytes(length: int, is_read: bool) -> None:
    content = b"\x80\x02\x8a" + bytes([length]) + (1 << (8 * length - 2)).to_bytes(length, "little") + b"."
    if is_read:
        assert read_data(content) == 1 << 126
    else:
        with pytest.raises(NotData, match="a number of 17 bytes"):
            read_data(content)


@pytest.mark.parametrize(
    ("code", "shown"),
    [(f"{0x1F600:x}", "\U0001f600"), (f"{0xE0100:x}", "\U000e0100"), ("110000", "$u110000$")],
    ids=["a symbol", "the last that can be printed", "beyond all characters"],
)
def test_a_character_of_a_rust_name_is_one_of_unicode(code: str, shown: str) -> None:
    part = f"f$u{code}$"
    told = readable_symbol(f"_ZN{len(part)}{part}17h0123456789abcdefE")
    assert told == f"f{shown}"


@pytest.mark.parametrize(("length", "is_read"), [(4_096, True), (4_097, False)])
def test_what_is_stated_of_a_message_has_4096_characters(length: int, is_read: bool) -> None:
    assert _fields('{"bytes": 8}'.ljust(length)) == ({"bytes": 8} if is_read else {})


def test_three_messages_of_a_profiler_are_told() -> None:
    printed = cast(Any, SimpleNamespace(messages=[("ERROR", str(number)) for number in range(5)]))
    assert _some(printed, "ERROR") == ["0", "1", "2"]


@pytest.mark.parametrize(("length", "is_read"), [(10, True), (11, False)])
def test_a_number_of_a_protobuf_has_ten_bytes(length: int, is_read: bool) -> None:
    content = b"\x08" + b"\x80" * (length - 1) + b"\x01"
    if is_read:
        assert len(list(fields(content))) == 1
    else:
        with pytest.raises(Damaged):
            list(fields(content))


def test_a_log_without_years_has_the_29th_of_february() -> None:
    assert _local(b"0229 00:00:01.5") == (59 * 86_400 + 1) * S + S // 2
