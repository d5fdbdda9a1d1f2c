"""Scale, ticks and history."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewer.timeline.geometry.history import History
from viewer.timeline.geometry.scale import MARGIN, MIN_SPAN_NS, Scale, exact, fitted, nice_step, ticks

scales = st.builds(
    lambda t0, span, width: Scale(t0, t0 + span, width),
    st.floats(-1e6, 1e12),
    st.floats(MIN_SPAN_NS, 1e12),
    st.integers(50, 4000).map(float),
)


@given(scales, st.floats(0, 1), st.floats(0.2, 5))
def test_zooming_keeps_what_is_under_the_cursor(scale: Scale, share: float, factor: float) -> None:
    x = share * scale.width
    zoomed = scale.zoomed(x, factor)
    assert zoomed.x(scale.time(x)) == pytest.approx(x, abs=1e-3 * scale.width)


@given(scales, st.integers(-500, 500))
def test_panning_moves_every_time_by_the_same_pixels(scale: Scale, pixels: int) -> None:
    moved = scale.panned(pixels)
    assert moved.x(scale.time(10)) == pytest.approx(10 - pixels, abs=1e-2)
    assert moved.span == pytest.approx(scale.span)


@given(scales, st.floats(1, 1e12))
def test_a_view_stays_on_the_recording(scale: Scale, end: float) -> None:
    view = scale.within(end)
    whole = max(end, MIN_SPAN_NS)
    slack = whole * MARGIN + 1e-6 * whole
    assert view.t0 >= -slack
    assert view.t1 <= whole + slack
    assert view.span >= MIN_SPAN_NS * 0.999


@given(scales, scales)
def test_a_flight_begins_here_and_ends_there(here: Scale, there: Scale) -> None:
    there = there.resized(here.width)
    assert here.between(there, 0.0).t0 == pytest.approx(here.t0, rel=1e-6, abs=1e-3)
    end = here.between(there, 1.0)
    assert end.span == pytest.approx(there.span, rel=1e-6)
    assert end.t0 == pytest.approx(there.t0, rel=1e-3, abs=1e-3 * max(here.span, there.span))


def test_fitting_leaves_air_on_both_sides() -> None:
    view = fitted(100, 200, 500, air=0.1)
    assert (view.t0, view.t1) == (90, 210)


@given(st.floats(1, 1e12))
def test_a_step_of_the_ruler_is_one_two_or_five_times_a_power_of_ten(least: float) -> None:
    step = nice_step(least)
    assert step >= least * (1 - 1e-9)
    assert step / least < 2.6
    assert f"{step:.0e}"[0] in "125"


@given(scales, st.floats(0, 1e9))
def test_ruler_marks_are_inside_far_enough_apart_and_differ(scale: Scale, origin: float) -> None:
    marks = ticks(scale, origin)
    assert len(set(marks.labels)) == len(marks.labels)
    for before, after in zip(marks.times, marks.times[1:], strict=False):
        assert (after - before) / scale.ns_per_pixel >= 87
    for when in marks.times:
        assert scale.t0 - marks.step * 0.01 <= when <= scale.t1 + marks.step * 0.01


@pytest.mark.parametrize(
    ("t0", "t1", "labels"),
    [
        (0, 50e6, ["0 ms", "5 ms", "10 ms"]),
        (0, 5e6, ["0.0 ms", "0.5 ms", "1.0 ms"]),
        (0, 20e9, ["0 s", "2 s", "4 s"]),
    ],
)
def test_marks_are_written_in_the_unit_of_their_distance(t0: float, t1: float, labels: list[str]) -> None:
    assert list(ticks(Scale(t0, t1, 900)).labels[:3]) == labels


def test_far_from_the_origin_marks_count_from_an_anchor() -> None:
    marks = ticks(Scale(375_120_000_000, 375_120_000_400, 900))
    assert marks.anchor.startswith("375.12")
    assert all(label.startswith("+") for label in marks.labels)
    assert len(set(marks.labels)) == len(marks.labels)


def test_a_time_has_as_many_digits_as_its_resolution_needs() -> None:
    assert exact(31_204_000, 1000) == "31.204 ms"
    assert exact(31_204_000, 100_000) == "31.2 ms"
    assert exact(950, 1) == "950 ns"


def test_history_goes_back_and_forward_and_forgets_the_other_branch() -> None:
    history = History()
    history.record((0, 10))
    history.record((2, 4))
    assert history.back((3, 3.5)) == (2, 4)
    assert history.back((2, 4)) == (0, 10)
    assert history.back((0, 10)) is None
    assert history.forward((0, 10)) == (2, 4)
    history.record((2, 4))
    assert history.forward((9, 9)) is None


@given(scales, st.integers(-3000, 3000), st.floats(0, 1))
def test_a_flight_to_the_side_goes_by_whole_pixels(here: Scale, pixels: int, share: float) -> None:
    moved = here.between(here.panned(pixels), share).t0 - here.t0
    slack = 1e-6 + 1e-12 * abs(here.t0) / here.ns_per_pixel
    assert moved / here.ns_per_pixel == pytest.approx(round(moved / here.ns_per_pixel), abs=slack)
