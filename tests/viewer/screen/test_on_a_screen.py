"""One session on a real screen: a real program, a real mouse, a real keyboard, and a look from outside."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import resources
from parsers.model import EventKind

from .virtual_screen import WHEEL_UP, Observation, Point, Program, Screen, missing_tools, program, screen

pytestmark = [
    pytest.mark.skipif(
        bool(missing_tools()),
        reason=f"needs {' and '.join(missing_tools())} (Debian, Ubuntu: apt-get install xvfb xdotool)",
    ),
    pytest.mark.timeout(300),  # a few seconds on an idle machine
]

TRIES = 3


@pytest.fixture
def display(tmp_path: Path) -> Iterator[Screen]:
    """An empty screen, large enough for the window at twice its size."""
    with screen(tmp_path, 2880, 1800) as made:
        yield made


def place(seen: Observation, name: str, x: float = 0.5, y: float = 0.5) -> Point:
    """A point of something on the screen, by its shares of width and height."""
    found = next((key for key in seen["places"] if key.startswith(name)), None)
    assert found is not None, f"{name!r} is not one of {sorted(seen['places'])}"
    left, top, width, height = seen["places"][found]
    return round(left + x * width), round(top + y * height)


def at_time(seen: Observation, name: str, when: float) -> Point:
    """The point of a lane or the ruler that stands for a time (ns)."""
    t0, t1 = seen["view"]
    return place(seen, name, (when - t0) / (t1 - t0))


def time_of_a_pixel(seen: Observation) -> float:
    """ns; no hand is steadier."""
    t0, t1 = seen["view"]
    return float((t1 - t0) / seen["places"]["ruler"][2])


def picture(display: Screen, seen: Observation, name: str) -> npt.NDArray[np.uint8]:
    """What the screen shows where something is, (height, width, 3)."""
    left, top, width, height = seen["places"][name]
    return display.pixels()[top : top + height, left : left + width]


def bookmarks_on_disk(home: Path) -> list[tuple[int, int]]:
    """What the session file in the user's data folder holds."""
    (file,) = home.rglob("*.stallscope")
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT start, end FROM bookmarks").fetchall()


def open_with_the_dialog(display: Screen, running: Program, recording: Path) -> None:
    running.wait_until("the start page", lambda seen: seen["stage"] == "EMPTY")
    display.focus("Stallscope")
    running.wait_until("the focus of the window", lambda seen: seen["active"] == "Stallscope")
    display.key("ctrl+o")
    for _ in range(TRIES):  # the dialog may open so slowly that the keys reach nobody
        display.focus("Open recordings")
        running.wait_until("the dialog that asks for files", lambda seen: seen["active"].startswith("Open"))
        display.key("ctrl+a")
        display.type(str(recording))
        if running.comes_to(lambda seen: seen["typed"] == str(recording)):
            break
    display.key("Return")


def test_from_the_worst_gap_to_a_bookmark_that_is_there_tomorrow(
    display: Screen, repository: Path, tmp_path: Path, fresh_home: Path
) -> None:
    recording = tmp_path / "training.pt.trace.json.gz"
    recording.write_bytes(resources.path("samples/cpu_python.pt.trace.json.gz").read_bytes())
    stream = "lane GPU 0"

    with program(display, repository) as running:
        open_with_the_dialog(display, running, recording)
        seen = running.wait_until("the diagnosis", lambda seen: seen["stage"] == "READY" and seen["worst"])
        assert display.titles() == ["training.pt.trace.json.gz - Stallscope"]
        display.focus("Stallscope")

        # The finding leads to its longest gap, and the gap can be clicked on the lane of the GPU.
        display.click(place(seen, "card 0", 0.1, 0.1))
        seen = running.wait_until("the first finding", lambda seen: seen["finding"])
        assert "Python" in seen["finding"]
        worst = max(seen["worst"], key=lambda span: span[1] - span[0])
        assert worst[1] - worst[0] > 20_000_000
        assert seen["view"][0] <= worst[0] < worst[1] <= seen["view"][1]
        display.click(at_time(seen, stream, sum(worst) / 2))
        seen = running.wait_until("the gap", lambda seen: seen["gap"])
        assert seen["gap"][0] <= worst[0] < worst[1] <= seen["gap"][1]
        gap, around = seen["gap"], seen["view"]

        # From the gap to the kernel that ended it, and from the kernel to its launch.
        display.click(place(seen, "Ended by: "))
        seen = running.wait_until("the kernel after the gap", lambda seen: seen["event"])
        kernel = seen["event"]
        assert kernel["kind"] in (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
        assert gap[1] <= kernel["start"] < around[1]
        display.click(place(seen, "Launched by: "))
        seen = running.wait_until("the launch", lambda seen: seen["event"]["kind"] == EventKind.API)
        assert seen["event"]["start"] <= kernel["start"]

        # Back to the kernel, and to the gap as a whole; there the wheel keeps the time under the cursor in its place.
        display.key("alt+Left")
        seen = running.wait_until("the kernel again", lambda seen: seen["event"] == kernel)
        display.key("alt+Left")
        seen = running.wait_until("the view before", lambda seen: seen["view"] == around)
        middle = at_time(seen, stream, sum(gap) / 2)
        display.click(middle, WHEEL_UP)
        seen = running.wait_until("a closer view", lambda seen: seen["view"] != around)
        t0, t1 = seen["view"]
        assert t1 - t0 < around[1] - around[0]
        assert t0 < gap[0] < gap[1] < t1
        assert at_time(seen, stream, sum(gap) / 2)[0] == pytest.approx(middle[0], abs=1)

        # Measured on the ruler, the gap is as long as it is said to be, and the ruler shows it.
        ruler_before = picture(display, seen, "ruler")
        start, end = (at_time(seen, "ruler", when) for when in gap)
        display.drag(start, end)
        seen = running.wait_until("the measured area", lambda seen: seen["area"])
        assert seen["area"] == pytest.approx(gap, abs=2 * time_of_a_pixel(seen))
        assert seen["view"] == [t0, t1]
        changed = (picture(display, seen, "ruler") != ruler_before).any(axis=(0, 2))
        left = seen["places"]["ruler"][0]
        assert changed[start[0] - left + 2 : end[0] - left - 2].all()

        # Bookmarked, it is on the disk at once; the window closes and the program ends.
        area = seen["area"]
        display.key("ctrl+b")
        seen = running.wait_until("the bookmark", lambda seen: seen["bookmarks"])
        assert seen["bookmarks"] == [[*area, "selected area"]]
        assert bookmarks_on_disk(fresh_home) == [tuple(area)]
        display.key("ctrl+w")
        assert running.wait_until_ended() == 0

    with program(display, repository, recording) as running:
        seen = running.wait_until("the diagnosis", lambda seen: seen["stage"] == "READY" and seen["worst"])
        assert seen["bookmarks"] == [[*area, "selected area"]]
        assert seen["worst"] != [area]
        display.focus("Stallscope")
        display.click(place(seen, "tab Bookmarks"))
        seen = running.wait_until("the list of bookmarks", lambda seen: "first bookmark" in seen["places"])
        display.click(place(seen, "first bookmark", 0.1))
        seen = running.wait_until("the place that was kept", lambda seen: seen["worst"] == [area])
        assert seen["view"][0] <= area[0] < area[1] <= seen["view"][1]
