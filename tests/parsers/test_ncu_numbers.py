"""Numbers and units as Nsight Compute prints them, in every style seen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parsers.model.units import base_unit
from parsers.ncu.labels import derived_metrics
from parsers.ncu.numbers import NumberStyle, is_missing, metric_value, style_of
from parsers.ncu.results import unit_of_metric
from tests.examples import any_text

DOT, COMMA = NumberStyle("."), NumberStyle(",")


@pytest.mark.parametrize(
    ("text", "style", "value"),
    [
        ("1,491,586", DOT, 1491586),
        ("1,234.5", DOT, 1234.5),
        ("5,443,677,824.00", DOT, 5443677824.0),
        ("1,234", DOT, 1234),
        ("1,234", COMMA, 1.234),
        ("1.234", COMMA, 1234),
        ("1.234.567,89", COMMA, 1234567.89),
        ("12,5", COMMA, 12.5),
        ("1\u202f234\u202f567,5", COMMA, 1234567.5),
        ("1’234.5", DOT, 1234.5),
        ("-0.5", DOT, -0.5),
        ("1e+06", DOT, 1e6),
        ("0", DOT, 0),
        ("PolicySpread", DOT, None),
        ("", DOT, None),
        ("12.19 us", DOT, None),
    ],
)
def test_numbers_of_every_style(text: str, style: NumberStyle, value: float | None) -> None:
    number = style.number(text)
    assert number == value
    assert type(number) is type(value)


@pytest.mark.parametrize(
    ("cells", "decimal"),
    [
        (["1,234", "0.50", "12.5"], "."),
        (["1.234", "0,50", "12,5"], ","),
        (["1,234", "5,678"], "."),
        (["1,234,567.25"], "."),
        (["1.234.567,25"], ","),
        (["text", "", "42"], "."),
        (["3,205125", "1,981331"], ","),
    ],
)
def test_the_style_is_told_by_the_cells_that_can_be_read_one_way_only(cells: list[str], decimal: str) -> None:
    assert style_of(cells).decimal == decimal


@pytest.mark.parametrize("text", ["", "nan", "n/a", "(!) nan", "(!) n/a", "no data", "-nan", "N/A"])
def test_words_for_no_value(text: str) -> None:
    assert is_missing(text)
    assert metric_value(text, DOT) == (None, ())


def test_a_total_with_its_instances() -> None:
    assert metric_value("2338 (8; 8; 16)", DOT) == (2338, ((0, 8.0), (1, 8.0), (2, 16.0)))
    assert metric_value("1,096 (FADD: 96; FFMA: 1,000)", DOT) == (1096, (("FADD", 96.0), ("FFMA", 1000.0)))
    assert metric_value("20 (nan; 16)", DOT) == (20, ((1, 16.0),))
    assert metric_value("(32, 1, 1)", DOT) == ("(32, 1, 1)", ())
    assert metric_value("none (none)", DOT) == ("none (none)", ())


@pytest.mark.parametrize(
    ("unit", "factor", "name"),
    [
        ("ms", 1e6, "ns"),
        ("usecond", 1e3, "ns"),
        ("nsecond", 1.0, "ns"),
        ("second", 1e9, "ns"),
        ("Ghz", 1e9, "hz"),
        ("cycle/nsecond", 1e9, "cycle/s"),
        ("cycle/second", 1.0, "cycle/s"),
        ("Gbyte/second", 1e9, "byte/s"),
        ("Tbyte/s", 1e12, "byte/s"),
        ("Kbyte/block", 1e3, "byte/block"),
        ("sector/us", 1e6, "sector/s"),
        ("Kibyte", 1024.0, "byte"),
        ("%", 1.0, "%"),
        ("register/thread", 1.0, "register/thread"),
        ("", 1.0, ""),
        ("furlong", 1.0, "furlong"),
    ],
)
def test_units_become_base_units(unit: str, factor: float, name: str) -> None:
    assert base_unit(unit) == (pytest.approx(factor), name)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("gpu__time_duration.sum", "ns"),
        ("dram__bytes.sum.per_second", "byte/s"),
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "%"),
        ("gpc__cycles_elapsed.max", "cycle"),
        ("gpc__cycles_elapsed.avg.per_second", "hz"),
        ("dram__bytes.sum.peak_sustained", "byte/cycle"),
        ("lts__t_sectors.sum.per_cycle_elapsed", "sector/cycle"),
        ("sm__cycles_active.avg.per_cycle_elapsed", ""),
        ("launch__shared_mem_per_block_dynamic", "byte/block"),
        ("lts__t_sectors.sum", "sector"),
        ("device__attribute_l2_cache_size", ""),
    ],
)
def test_reports_state_no_units_but_names_imply_them(metric: str, unit: str) -> None:
    assert unit_of_metric(metric) == unit


@given(st.integers(min_value=0, max_value=10**15))
def test_grouping_thousands_changes_no_number(value: int) -> None:
    assert DOT.number(f"{value:,}") == value
    assert COMMA.number(f"{value:,}".replace(",", ".")) == value


@given(any_text(40))
def test_no_cell_breaks_the_reading(text: str) -> None:
    value, instances = metric_value(text, style_of([text]))
    assert value is None or isinstance(value, (int, float, str))
    assert all(isinstance(each, float) for _, each in instances)


@pytest.mark.parametrize("odd", [math.inf, math.nan, -math.inf, 0.0, 1e-320, -5.0])
def test_warps_are_not_derived_from_impossible_counts(odd: float) -> None:
    stated = {"sm__maximum_warps_avg_per_active_cycle": 64.0, "sm__maximum_warps_per_active_cycle_pct": 100.0}
    for name in stated:
        found = derived_metrics({**stated, name: odd})
        assert all(math.isfinite(value) and value >= 0 for value in found.values())
    assert derived_metrics(dict(stated))["smsp__warps_active.avg.peak_sustained"] == 16
