"""Quantities are written as people read them, and read as people write them."""

from __future__ import annotations

import pytest

from parsers.model.units import duration, parse_duration, percent, rate, size, three_digits


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
    ],
)
def test_quantities_have_a_space_before_their_unit(written: str, text: str) -> None:
    assert written == text
