"""Many messages decoded at once hold what each of them says; what is cut or garbled costs only what follows it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.model import Progress
from parsers.protobuf.columns import Spans, buffer_of, decode, parts_of
from parsers.protobuf.wire import BYTES, FIXED64, VARINT, fields
from tests.parsers.protobuf_messages import message, varint

# The cases lie on either side of these.
MAX_FIELDS = 4096


def spans_of(*messages: bytes) -> Spans:
    ends = np.cumsum([0, *(len(each) for each in messages)])
    return Spans(buffer_of(b"".join(messages)), ends[:-1].astype(np.int64), ends[1:].astype(np.int64))


Field = tuple[int, int | float | bytes]
FIELDS = st.tuples(
    st.integers(1, 40),
    st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.binary(max_size=9)),
)


@given(st.lists(st.lists(FIELDS, max_size=6), max_size=8))
def test_columns_hold_what_one_message_after_another_does(written: list[list[Field]]) -> None:
    spans = spans_of(*(message(*each) for each in written))
    found = decode(spans, Progress())
    assert found.damaged == 0
    expected = [
        (place, number, wire)
        for place, each in enumerate(written)
        for number, wire, _ in fields(message(*each))
    ]
    assert list(zip(found.message, found.number, found.wire, strict=True)) == expected
    values = [value for each in written for _, value in each]
    for row, value in enumerate(values):
        if found.wire[row] == VARINT:
            assert found.value[row : row + 1].view(np.int64)[0] == value
        elif found.wire[row] == FIXED64:
            assert found.value[row : row + 1].view(np.float64)[0] == value
        else:
            assert found.data[found.begin[row] : found.end[row]].tobytes() == value


@given(st.lists(st.binary(max_size=24), min_size=1, max_size=6))
def test_any_bytes_are_decoded_or_counted_and_never_read_beyond(garbage: list[bytes]) -> None:
    spans = spans_of(*garbage)
    found = decode(spans, Progress())
    assert np.all(found.end <= spans.end[found.message])
    for place, each in enumerate(garbage):
        parts = parts_of(memoryview(each), 0, Progress())
        begins = parts.of(1, buffer_of(each)).begin
        assert np.all(begins <= len(each)), place


def test_a_message_of_too_many_fields_ends_there_and_is_counted() -> None:
    found = decode(spans_of(message((1, 1)) * (MAX_FIELDS + 5), message((2, 7))), Progress())
    assert found.damaged == 1
    assert len(found.message) == MAX_FIELDS + 1
    assert found.numbers(2, 2, -1).tolist() == [-1, 7]


def test_the_last_of_repeated_numbers_counts_and_missing_ones_have_a_default() -> None:
    found = decode(spans_of(message((1, 4), (1, 5)), b"", message((1, -1))), Progress())
    assert found.numbers(1, 3, 9).tolist() == [5, 9, -1]
    assert found.of(1, BYTES).message.tolist() == []


@pytest.mark.parametrize("cut", range(1, 12))
def test_parts_of_a_cut_message_are_those_before_the_cut(cut: int) -> None:
    whole = message((4, b"abc"), (3, 1 << 40), (4, b"defg"))
    parts = parts_of(memoryview(whole[:-cut]), 100, Progress())
    assert not parts.whole or cut in (6,) or len(whole) - cut in (5, 12)
    found = parts.of(4, buffer_of(b""))
    assert found.begin.tolist() == [102][: len(found)]


def test_a_length_beyond_the_message_is_damage() -> None:
    found = decode(spans_of(varint(1 << 3 | 2) + varint(1 << 62) + b"x", message((1, b"y"))), Progress())
    assert (found.damaged, found.message.tolist()) == (1, [1])
