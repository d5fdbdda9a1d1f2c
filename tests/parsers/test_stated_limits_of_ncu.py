"""How much of what Nsight Compute writes is read, and how it is told, each with a case on either side."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from parsers.files.base import Source
from parsers.model import QualityRecorder
from parsers.ncu import report, results, tables
from parsers.ncu.blocks import MAGIC, Block, Session, _read_strings, read_blocks
from parsers.ncu.cubin import Cubin, _Program, read_cubin
from parsers.ncu.instructions import EXECUTED, Code, Counts, _Module
from parsers.ncu.labels import metric_of_label
from parsers.ncu.pages import Page, _dim3
from parsers.ncu.sections import PrintedSections
from parsers.ncu.source_page import _Kernel
from parsers.ncu.tables import _whole_rows, find_tables
from parsers.protobuf.wire import Damaged
from tests.parsers.claimed import ClaimedList

MB = 1 << 20


def damage_of(content: bytes) -> str:
    with pytest.raises(Damaged) as damaged:
        list(read_blocks(BytesIO(content), Session(), lambda _: None))
    return str(damaged.value)


def four(size: int) -> bytes:
    return size.to_bytes(4, "little")


@pytest.mark.parametrize(
    ("size", "damage"), [(64 * MB, "the file is cut"), (64 * MB + 1, "a block header is impossibly large")]
)
def test_the_header_of_one_of_the_blocks_has_64_megabytes(size: int, damage: str) -> None:
    assert damage_of(MAGIC + four(0) + four(size)) == damage


@pytest.mark.parametrize(
    ("size", "damage"), [(64 * MB, "the file is cut"), (64 * MB + 1, "a length is impossibly large")]
)
def test_the_header_before_all_blocks_has_64_megabytes(size: int, damage: str) -> None:
    assert damage_of(MAGIC + four(size)) == damage


def varint(value: int) -> bytes:
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


@pytest.mark.parametrize(
    ("size", "damage"), [(2 << 30, "the file is cut"), ((2 << 30) + 1, "a block is impossibly large")]
)
def test_one_of_the_blocks_has_two_gigabytes(size: int, damage: str) -> None:
    header = b"\x28" + varint(size)
    assert damage_of(MAGIC + four(0) + four(len(header)) + header) == damage


@pytest.mark.parametrize(("count", "is_read"), [(500_000, True), (500_001, False)])
def test_one_of_the_blocks_names_500000_things(count: int, is_read: bool) -> None:
    block = Block(strings=ClaimedList(count))
    if is_read:
        _read_strings(memoryview(b"\x0a\x01a"), block)
    else:
        with pytest.raises(Damaged, match="a table of names is impossibly long"):
            _read_strings(memoryview(b"\x0a\x01a"), block)


@pytest.mark.parametrize(("length", "named"), [(32_762, 32_762), (32_763, 32_762)])
def test_a_cubin_names_functions_in_32768_characters(length: int, named: int) -> None:
    words = b"\0.text." + b"f" * length + b"\0"
    sections = [(0, 64, len(words)), (1, 64, 16)]
    table = 64 + len(words)
    head = bytearray(b"\x7fELF\x02\x01".ljust(64, b"\0"))
    struct.pack_into("<Q", head, 0x28, table)
    struct.pack_into("<HH", head, 0x3C, len(sections), 0)
    listed = [struct.pack("<IIQQQQIIQQ", name, 0, 0, 0, at, size, 0, 0, 0, 0) for name, at, size in sections]
    assert [len(name) for name in read_cubin(bytes(head) + words + b"".join(listed)).code] == [named]


def lines_of(program: bytes) -> list[int]:
    data = bytes(8) + program
    return [row.line for row in _Program(data, 0, len(data), 1, 0, 1, [0] * 9, []).rows(0)]


def test_a_cubin_states_lines_up_to_two_to_the_31st() -> None:
    advance = b"\x03" + b"\xff\xff\xff\xff\x1f"  # by 2 ** 33 - 1
    assert lines_of(advance + b"\x01") == [(1 << 31) - 1]


@pytest.mark.parametrize(("before", "rows"), [(999_999, 1), (1_000_000, 0)])
def test_a_cubin_takes_a_million_steps_through_its_lines(before: int, rows: int) -> None:
    assert len(lines_of(b"\x08" * before + b"\x01")) == rows


@pytest.mark.parametrize(("size", "count"), [(MB, 1), (MB + 16, 0)])
def test_all_instructions_of_a_megabyte_of_code_are_told(size: int, count: int) -> None:
    module = _Module(cubin=Cubin(code={"k": (1, size)}), bases={"k": 0})
    assert len(list(module.functions())) == count


@pytest.mark.parametrize(("major", "told"), [(7, 2), (6, 1)])
def test_instructions_that_never_ran_are_told_since_volta(major: int, told: int) -> None:
    code = Code()
    code._modules[1] = _Module(
        major << 16, Cubin(code={"k": (1, 32)}), {"k": 0}, placed={"k": ((-1, -1), ())}
    )
    source = code.source_of(1, {EXECUTED: Counts(np.array([0]), np.array([5]))})
    assert source is not None
    assert len(source.address) == told


@pytest.mark.parametrize(("length", "named"), [(299, "a__bc"), (300, None)])
def test_labels_of_fewer_than_300_characters_are_looked_into(length: int, named: str | None) -> None:
    label = "what ".ljust(length - 5) + "a__bc"
    assert metric_of_label("", label) == (named or label)


@pytest.mark.parametrize(("before", "value"), [(299, 0.25), (300, 25)])
def test_the_first_300_rows_of_pages_show_how_numbers_are_written(before: int, value: float) -> None:
    page = Page(["ID", "Kernel Name", "m"], QualityRecorder())
    for number in range(before):
        page.add([str(number), "k", "5"])
    page.add(["300", "k", "0,25"])
    assert page.launches()[-1].metrics["m"] == value


@pytest.mark.parametrize(("spaces", "size"), [(195, (1, 2, 3)), (196, (0, 0, 0))])
def test_pages_state_a_size_in_200_characters(spaces: int, size: tuple[int, int, int]) -> None:
    assert _dim3(" " * spaces + "1x2x3") == size


def test_of_what_a_report_holds_so_much_is_free_and_the_rest_needs_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: dict[str, tuple[float, ...]] = {}
    profile = SimpleNamespace(source=SimpleNamespace(address=(0,)))
    result = SimpleNamespace(build=lambda *_: profile, damaged_parts=0)
    monkeypatch.setattr(report, "read_result", lambda *_: result)
    monkeypatch.setattr(report, "UnpackingLimit", lambda _: SimpleNamespace(share=0.0, make=make))

    def make(what: str, count: int, *limits: float) -> None:
        made[what] = limits

    reading = report._Reading(Source(Path("r"), b""), QualityRecorder(), Session())
    reading._take(Block(sources=1, results=1, payload=(four(1) + b"\0") * 2), cast(Any, None))
    assert reading.profiles() == [profile]
    assert made == {
        "names": (500_000, 1, 500_000),
        "pieces of code": (10_000, 64, 500_000),
        "launches": (10_000, 64, 500_000),
        "instructions": (500_000, 8, 4_000_000),
    }


def test_results_hold_a_metric_200000_times(monkeypatch: pytest.MonkeyPatch) -> None:
    element = [(2, 0, b"")]
    monkeypatch.setattr(
        results, "fields", lambda data: [(3, 0, b"")] * 200_001 if data == b"all" else element
    )
    monkeypatch.setattr(results, "message", lambda part: part)
    monkeypatch.setattr(results, "_value", lambda _: 1.0)
    assert len(results._metric(cast(Any, b"all"), [])[2]) == 200_000


def taken(line: str) -> bool:
    return PrintedSections(cast(Any, lambda _: None)).take(line)


@pytest.mark.parametrize(("length", "is_taken"), [(16_384, True), (16_385, False)])
def test_sections_have_lines_of_16384_characters(length: int, is_taken: bool) -> None:
    end = ", Context 1, Stream 7"
    assert taken(f"  {'k' * (length - 2 - len(end))}{end}") is is_taken


@pytest.mark.parametrize(("before", "rule"), [(387, "FPInstructions"), (388, "")])
def test_sections_tell_the_rule_of_a_result_in_400_characters(before: int, rule: str) -> None:
    sections = PrintedSections(cast(Any, lambda _: None))
    assert sections._rule("x" * before + " non-fused FP") == rule


@pytest.mark.parametrize(("before", "kept"), [(199_999, 1), (200_000, 0)])
def test_a_source_page_has_200000_instructions(before: int, kept: int) -> None:
    kernel = _Kernel("k", ["Address", "Source", "# Samples"], {}, text=ClaimedList(before))
    kernel.take(["0", "MOV", "1"])
    assert len(kernel.address) == kept


def test_tables_keep_a_thousand_messages() -> None:
    printed = find_tables(["==ERROR== no"] * 1_001, cast(Any, lambda _: None))
    assert len(printed.messages) == 1_000


@pytest.mark.parametrize(("lines", "rows"), [(200, 1), (201, 201)])
def test_tables_have_rows_of_200_lines(lines: int, rows: int) -> None:
    text = ['"1","begins', *["goes on"] * (lines - 2), 'ends"']
    assert len(list(_whole_rows(text))) == rows


def test_tables_have_lines_of_64_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Text:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __enter__(self) -> Text:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def readline(self, most: int) -> str:
            asked.append(most)
            return ""

    monkeypatch.setattr("parsers.ncu.tables.io.TextIOWrapper", Text)
    assert list(tables.text_lines(BytesIO(), b"")) == []
    assert asked == [64 * MB]
