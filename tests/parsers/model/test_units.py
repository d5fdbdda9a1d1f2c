"""Quantities are written as people read them, and read as people write them."""

from __future__ import annotations

import pytest

from parsers.model.units import (
    duration,
    operations,
    parse_duration,
    parse_size,
    percent,
    quantity,
    rate,
    size,
    three_digits,
)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("31.2", 31_200_000),  # milliseconds where no unit is given
        ("0.5", 500_000),
        ("7ns", 7),
        ("31.2 us", 31_200),
        ("31.2µs", 31_200),
        ("31.2MS", 31_200_000),
        (" -2 s ", -2_000_000_000),
        ("", None),
        ("ms", None),
        ("1e3", None),
        ("5 min", None),
    ],
)
def test_a_written_time_is_read_with_its_unit(text: str, ns: int | None) -> None:
    assert parse_duration(text) == ns


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.2345, "1.23"), (26.54, "26.5"), (99.94, "99.9"), (99.95, "100"), (1234, "1,234"), (0.0456, "0.0456")],
)  # fmt: skip
def test_three_digits_are_shown(value: float, text: str) -> None:
    assert three_digits(value) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (duration(999), "999 ns"),
        (duration(999.6), "1.00 us"),
        (duration(26_540_000), "26.5 ms"),
        (duration(-1_240_000_000), "-1.24 s"),
        (size(999), "999 B"),
        (size(1_240_000_000), "1.24 GB"),
        (rate(3.35e12), "3.35 TB/s"),
        (percent(0.0949), "9.5 %"),
        (percent(0.0995), "10 %"),
        (percent(0.574), "57 %"),
        (percent(0), "0 %"),
        (percent(0.0005), "0.1 %"),
        (percent(0.0004), "0.04 %"),
        (percent(-0.0004), "-0.04 %"),
        (percent(0.00004), "<0.01 %"),
    ],
)
def test_quantities_have_a_space_before_their_unit(written: str, text: str) -> None:
    assert written == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "ns", "–"),
        (1500.0, "ns", "1.50 us"),
        (2e9, "byte", "2.00 GB"),
        (2e9, "B", "2.00 GB"),
        (3.35e12, "byte/s", "3.35 TB/s"),
        (57.34, "%", "57.3 %"),
        (3.0, "", "3.00"),
    ],
)
def test_a_value_in_a_base_unit_is_written_as_what_it_is(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.parametrize(
    ("text", "size_in_bytes"),
    [("2 MB", 2e6), ("2mb", 2e6), ("1.5 k", 1500.0), ("20", 20.0), ("2 MW", None), ("-1", None)],
)  # fmt: skip
def test_a_written_size_is_read_with_its_unit(text: str, size_in_bytes: float | None) -> None:
    assert parse_size(text) == size_in_bytes


def test_operations_a_second_have_decimal_units() -> None:
    assert (operations(66.9e12), operations(400.0)) == ("66.9 Tflop/s", "400 flop/s")
