"""Two recordings in one window, on a real screen: one timeline follows the other, and counterparts are marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .test_on_a_screen import display, picture, place, pytestmark
from .virtual_screen import MIDDLE, WHEEL_UP, Observation, Point, Program, Screen, program

__all__ = ["display", "pytestmark"]


def at(seen: Observation, side: int, when: float) -> Point:
    """Where a moment of a recording (ns) lies on its GPU lane."""
    t0, t1 = seen["compared"]["views"][side]
    return place(seen, ("before", "after")[side], (when - t0) / (t1 - t0))


def spans(seen: Observation) -> tuple[float, float]:
    (b0, b1), (a0, a1) = seen["compared"]["views"]
    return b1 - b0, a1 - a0


def offset(seen: Observation) -> float:
    """How far the beginnings of both views lie apart (ns): the same as long as they move together."""
    (b0, _), (a0, _) = seen["compared"]["views"]
    return float(a0 - b0)


def compared(display: Screen, running: Program, after: Path) -> Observation:
    running.wait_until("the diagnosis", lambda seen: seen["stage"] == "READY" and seen["worst"])
    display.focus("Stallscope")
    display.key("ctrl+d")
    display.focus("Compare with")
    running.wait_until("the dialog that asks for files", lambda seen: seen["active"].startswith("Compare"))
    display.type(str(after))
    display.key("Return")
    seen = running.wait_until("both timelines", lambda seen: seen["compared"] and "after" in seen["places"])
    display.focus("Comparison")
    return seen


@pytest.mark.thorough
def test_zoom_and_pan_go_to_the_other_side_and_counterparts_are_marked(
    display: Screen, repository: Path, fixtures: Path
) -> None:
    recordings = fixtures / "programs"
    with program(display, repository, recordings / "moderate.pt.trace.json.gz") as running:
        seen = compared(display, running, recordings / "moderate.fixed.pt.trace.json.gz")
        assert "faster: a step takes" in seen["compared"]["sentence"]
        both, apart = spans(seen), offset(seen)

        # The wheel over the lane below: both come closer, and still lie as they did.
        display.click(at(seen, 1, seen["compared"]["longest_pair"][1][1]), WHEEL_UP)
        seen = running.wait_until("a closer view", lambda seen: spans(seen)[1] < both[1])
        assert spans(seen)[0] == pytest.approx(spans(seen)[1], rel=1e-3)
        assert offset(seen) == pytest.approx(apart, abs=0.01 * spans(seen)[0])

        # Pulled with the mouse above, and walked with a key below: neither goes alone.
        begun = seen["compared"]["views"]
        display.drag(place(seen, "before", 0.6), place(seen, "before", 0.5), MIDDLE)
        seen = running.wait_until("a moved view", lambda seen: seen["compared"]["views"] != begun)
        assert seen["compared"]["views"][0][0] > begun[0][0]
        assert offset(seen) == pytest.approx(apart, abs=0.01 * spans(seen)[0])
        begun = seen["compared"]["views"]
        display.key("a")
        seen = running.wait_until("a view moved back", lambda seen: seen["compared"]["views"] != begun)
        assert offset(seen) == pytest.approx(apart, abs=0.01 * spans(seen)[0])

        # A kernel that is clicked above is marked below, too, where somebody can see it.
        display.key("f")
        seen = running.wait_until("everything", lambda seen: spans(seen)[0] > both[0])
        (event, start, end), (other, _, _) = seen["compared"]["longest_pair"]
        below = picture(display, seen, "after")
        display.click(at(seen, 0, (start + end) / 2))
        seen = running.wait_until("the kernel", lambda seen: seen["compared"]["selected"][0] == event)
        assert seen["compared"]["selected"] == [event, other]
        assert np.any(picture(display, seen, "after") != below)

        # A bar of the bridge marks its kernels on both sides; Escape takes the marks away.
        display.click(place(seen, "bar matrix product"))
        seen = running.wait_until("the kernels of a bar", lambda seen: all(seen["compared"]["marked"]))
        display.key("Escape")
        running.wait_until("no mark", lambda seen: seen["compared"]["marked"] == [0, 0])

        # With the link cut the wheel moves one side alone.
        display.key("shift+l")
        seen = running.wait_until("both sides", lambda seen: seen["compared"])
        begun = seen["compared"]["views"]
        display.click(place(seen, "after"), WHEEL_UP)
        seen = running.wait_until("a view of its own", lambda seen: seen["compared"]["views"] != begun)
        assert seen["compared"]["views"][0] == begun[0]
