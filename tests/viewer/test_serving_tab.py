"""The serving tab: latencies against typed times, steps by kind and batch, and its flights to the timeline."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from parsers import open_trace
from parsers.model import Trace
from rules.analysis.inference.engine_steps import engine_steps
from rules.analysis.inference.phases import Phase
from rules.analysis.inference.requests import AllowedTimes, requests_of
from rules.analysis.names.serving_steps import StepKind
from tests.rules.builder import TinyTrace, ns
from tests.viewer.timeline.mouse import drag
from viewer.appearance import theme
from viewer.panels.tables.table_view import TableView
from viewer.panels.tabs.serving import ServingPanel
from viewer.statistics.serving import places_of_steps, serving_tables
from viewer.statistics.serving_lanes import DECODE_SHADES, KEY, MAX_ROWS, phase_colors, request_lanes
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.window.main_window import MainWindow

from .conftest import show_tab, wait_until_ready

LOG = Path(__file__).parents[1] / "fixtures" / "results" / "requests.jsonl"
PREFILL, DECODE = "execute_context_1(5)_generation_0(0)", "execute_context_0(0)_generation_{0}({0})"
LIT = 1 + len(DECODE_SHADES)  # the last colour of steps that are not pale
PREFILL_US, DECODE_US, BETWEEN_US = 4_000.0, 1_000.0, 100.0


def engine() -> Trace:
    """Two prompts, then decode steps of both and three of the one that is left; the second request arrives late."""
    tiny, now, ends = TinyTrace(), 0.0, []
    for name in [PREFILL, PREFILL, DECODE.format(2), *[DECODE.format(1)] * 3]:
        taken = PREFILL_US if name == PREFILL else DECODE_US
        tiny.region(now, now + taken, name)
        ends.append(now + taken)
        now += taken + BETWEEN_US
    tiny.region(0, ends[-1], "request_0", thread=7)
    tiny.region(PREFILL_US, ends[2], "request_1", thread=8)
    return tiny.build()


@pytest.fixture(scope="session")
def served() -> Trace:
    """The engine, made once."""
    return engine()


def test_rows_hold_the_time_of_a_kind_and_of_a_batch_size_and_lead_to_their_steps(served: Trace) -> None:
    tables = serving_tables(served)
    assert tables is not None
    rows = tables.steps.set_index("name")
    assert rows["count"].to_dict() == {
        "prefill steps": 2,
        "decode steps": 4,
        "decode of 1": 3,
        "decode of 2": 1,
    }
    assert rows["p50"]["decode of 2"] == ns(DECODE_US)
    assert rows["rate"]["prefill steps"] == pytest.approx(10 / (2 * PREFILL_US * 1e-6))
    assert rows["rate"]["decode of 2"] == pytest.approx(2 / (DECODE_US * 1e-6))
    assert rows["between"]["decode steps"] == ns(BETWEEN_US)
    assert rows["share"]["prefill steps"] == pytest.approx(2 / 3)
    places = places_of_steps(served, tables, rows.index.get_loc("decode of 1"))
    assert [place.name for place in places] == [DECODE.format(1)] * 3
    assert [place.start for place in places] == tables.engine.of_kind(StepKind.DECODE).start[1:].tolist()


def test_requests_that_the_recording_cut_are_neither_late_nor_in_time(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    whole = '{"id": 1, "arrival": 1000, "first": 2000, "end": 6000, "prompt": 4, "out": 5}'
    single = '{"id": 2, "arrival": 1000, "first": 4000, "end": 4000, "prompt": 4, "out": 1}'
    waiting = '{"id": "c", "arrival": 3000, "first": null, "end": null, "prompt": 4, "out": 0}'
    log.write_text("\n".join([whole, single, waiting]))
    trace = open_trace([log])
    requests = requests_of(trace, engine_steps(trace))
    assert requests is not None
    assert [requests.name_of(row) for row in range(3)] == ["1", "2", "c"]
    for allowed, late, judged in (
        (AllowedTimes(), 0, 0),
        (AllowedTimes(ttft_ns=1000), 1, 2),
        (AllowedTimes(ttft_ns=3000), 0, 2),
        (AllowedTimes(tpot_ns=999), 1, 2),
        (AllowedTimes(tpot_ns=1000), 0, 2),
        (AllowedTimes(ttft_ns=1000, tpot_ns=999), 2, 2),
    ):
        found = requests.lateness(allowed)
        assert (found.late.sum(), found.judged.sum()) == (late, judged)


@pytest.mark.parametrize(("moved_ns", "placed"), [(0, True), (ns(PREFILL_US) // 2, False)])
def test_a_log_of_another_clock_leads_to_the_step_of_the_first_token_where_no_other_fits(
    moved_ns: int, placed: bool, served: Trace, tmp_path: Path
) -> None:
    steps = engine_steps(served)
    firsts = (steps.end[:2] + 7_000_000_000 + [0, moved_ns]).tolist()
    line = '{{"id": {}, "arrival": {}, "first": {}, "end": {}, "prompt": 5, "out": 2}}'
    log = tmp_path / "log.jsonl"
    log.write_text("\n".join(line.format(each, each - 9, each, each + 9) for each in reversed(firsts)))
    requests = requests_of(replace(served, tables=open_trace([log]).tables), steps)
    assert requests is not None
    assert requests.event.tolist() == (steps.event[:2].tolist() if placed else [-1, -1])


def test_typed_times_say_who_is_late_and_rows_fly_to_what_they_speak_of(
    window: MainWindow, served: Trace, qtbot: QtBot
) -> None:
    assert "Serving" not in window.panels.titles()
    window.document.show(served)
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Serving")
    panel = window.panels.findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    assert panel.steps.isVisible()
    assert not panel.costs.text()
    assert not panel.verdict.isVisible()
    roles = [label.property("role") for label in panel.ttft.figures]
    assert "error" not in roles

    _press(panel.steps, row=3)
    t0, t1 = window.timeline.visible_interval
    step = engine_steps(served).of_kind(StepKind.DECODE)
    assert t0 <= step.start[0] < step.end[0] <= t1
    assert t1 - t0 < served.duration

    panel.ttft.allowed.setFocus()
    panel.ttft.allowed.selectAll()
    QTest.keyClicks(panel.ttft.allowed, "4.02")
    assert panel.verdict.isVisible()
    assert panel.verdict.text() == "50 % in time, 1 of 2 late"
    assert [label.property("role") for label in panel.ttft.figures] == ["error"] * 3
    assert "error" not in [label.property("role") for label in panel.tpot.figures]

    panel.choice.setFocus()
    QTest.keyClick(panel.choice, Qt.Key.Key_Down)
    assert panel.requests.isVisible()
    assert panel.requests.rows.value(1, "name") == "request_1"
    assert [panel.requests.rows.value(row, "late_ttft") for row in (0, 1)] == [0, 1]
    times = {
        key: panel.requests.rows.value(0, key) / 1e3 for key in ("waits", "prefill", "decode", "held_up")
    }
    assert times == {
        "waits": 0,
        "prefill": PREFILL_US,
        "decode": 4 * DECODE_US + 5 * BETWEEN_US,
        "held_up": PREFILL_US,
    }
    shown = window.width()
    window.resize(2200, window.height())
    window.panels.adjustSize()
    bar = _shades(panel.requests)
    assert all(bar[color.name()] > 20 for color in phase_colors(theme.current())[1:])
    window.resize(shown, window.height())
    _press(panel.requests, row=1)
    t0, t1 = window.timeline.visible_interval
    assert t0 <= ns(PREFILL_US)
    assert t1 >= step.end[0]

    window.document.show(open_trace([LOG]))
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Serving")
    assert panel.requests.isVisible()
    assert [panel.choice.itemText(row) for row in range(panel.choice.count())] == ["Requests", "Latencies"]
    assert panel.with_lanes.isHidden()
    assert panel.requests.rows.rowCount() == 41
    assert not window.timeline.isVisible()
    assert window.panels.height() > window.height() / 2
    assert window.verdict.sentence.text().startswith(
        "41 requests: the median time to the first token is 436 ms"
    )
    assert panel.verdict.text() == "0 % in time, 41 of 41 late"


def test_requests_lie_on_the_timeline_until_one_does_not_want_them(
    window: MainWindow, served: Trace, qtbot: QtBot
) -> None:
    window.document.show(served)
    wait_until_ready(qtbot, window)
    state = window.timeline.state
    assert state.scene is not None
    assert KEY in state.scene.derived  # before anybody looked at the tab
    show_tab(window, qtbot, "Serving")
    panel = window.panels.findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    lane = state.scene.derived[KEY]
    assert [row.name.tolist() for row in lane.rows] == [
        [Phase.PREFILL, Phase.DECODE, Phase.HELD_UP, Phase.DECODE],
        [Phase.WAITS, Phase.PREFILL, Phase.DECODE],
    ]
    title, body = lane.told(0, 2)
    assert title == "request_0; 5 out; TTFT 4.00 ms; TPOT 2.12 ms; held up 4.00 ms"
    assert body == "held up here for 4.00 ms"
    assert lane.track.subtitle == "2, by arrival"
    placed = state.layout.find(KEY)
    assert placed is not None
    assert len(placed.rows) == 2
    lanes = [each.track.title for each in state.layout.scrolled if each.track.derived]
    assert lanes == ["Engine steps", "Batch size", "Tokens/s", "Waiting", "Requests"]
    window.timeline.show_interval(0, served.duration, animate=False)
    for title, us, told in (("Engine steps", 9_000.0, "2 decoded"), ("Batch size", 9_000.0, "2")):
        (lane_of,) = (each for each in state.layout.scrolled if each.track.title == title)
        canvas = window.timeline.canvas
        middle = canvas.top_of(lane_of) + lane_of.height // 2
        QTest.mouseMove(canvas, QPoint(round(NAMES_WIDTH + state.scale.x(ns(us))), middle))
        card = window.timeline.gestures.card
        qtbot.waitUntil(lambda card=card, told=told: card.isVisible() and told in card.text)
    assert lane.outline is None
    requests = state.layout.find(KEY)
    assert requests is not None
    row = requests.rows[1]
    in_prefill = round(NAMES_WIDTH + state.scale.x(ns(6_000.0)))
    y = canvas.top_of(requests) + row.top + row.height // 2
    QTest.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=QPoint(in_prefill, y))
    wait_until_ready(qtbot, window)
    assert panel.requests.selected_rows() == [1]
    assert state.scene.derived[KEY].outline == (1, ns(PREFILL_US), engine_steps(served).end[2])
    pale = state.scene.derived[f"{KEY}steps"].rows[0].name > LIT
    assert pale.tolist() == [True, False, False, True, True, True]
    steps = state.layout.find(f"{KEY}steps")
    assert steps is not None
    y = canvas.top_of(steps) + steps.height // 2
    QTest.mouseClick(canvas, Qt.MouseButton.LeftButton, pos=QPoint(in_prefill, y))
    assert window.document.selected_event == engine_steps(served).event[1]
    show_tab(window, qtbot, "Serving")
    QTest.mouseClick(
        panel.with_lanes, Qt.MouseButton.LeftButton, pos=QPoint(8, panel.with_lanes.height() // 2)
    )
    assert not state.scene.derived
    assert state.layout.find(KEY) is None
    panel.with_lanes.toggle()
    wait_until_ready(qtbot, window)
    assert KEY in state.scene.derived
    panel.requests.setFocus()
    for words, first in (("end", "request_1"), ("time per token", "request_0"), ("arrival", "request_0")):
        QTest.keyClick(panel.requests, Qt.Key.Key_R)
        wait_until_ready(qtbot, window)
        lane = state.scene.derived[KEY]
        assert lane.track.subtitle == f"2, by {words}"
        assert lane.told(0, 0)[0].startswith(first)
    window.document.show(open_trace([LOG]))
    wait_until_ready(qtbot, window)
    assert not window.document.request_lanes


@pytest.mark.parametrize("many", [MAX_ROWS + 10, 12_000])
def test_as_many_rows_as_requests_that_are_there_at_once(many: int, served: Trace) -> None:
    steps = engine_steps(served)
    found = requests_of(served, steps)
    assert found is not None
    columns = {name: np.tile(getattr(found, name), many // 2) for name in ("arrival", "first", "end", "out")}
    for later, shown in ((ns(10_000.0), many), (0, MAX_ROWS)):
        moved = {name: values + later * (np.arange(many) // 2) for name, values in columns.items()}
        moved["out"] = columns["out"]
        requests = replace(found, **moved, prompt=moved["out"], event=np.full(many, -1))
        longer = replace(
            steps, start=np.append(steps.start[:-1], 10**12), end=np.append(steps.end[:-1], 10**12 + 1)
        )
        (lane,) = request_lanes(requests, longer, np.full(many, np.nan))
        assert len(lane.rows) <= MAX_ROWS
        told = f"{shown} of {many:,}" if shown < many else f"{shown:,}"
        assert lane.track.subtitle == f"{told}, where there is room"
        assert all((row.start[1:] >= row.end[:-1]).all() for row in lane.rows)


def test_bars_and_dots_beyond_the_allowed_times_are_told_apart(
    window: MainWindow, served: Trace, qtbot: QtBot
) -> None:
    window.document.show(served)
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Serving")
    panel = window.panels.findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    panel.choice.setFocus()
    for _ in range(2):
        QTest.keyClick(panel.choice, Qt.Key.Key_Down)
    assert panel.latencies.isVisible()
    chart = panel.latencies.ttft
    assert (chart.counts.sum(), chart.limit) == (2, None)
    assert _shades(chart)[theme.current().error.name()] == 0
    panel.ttft.allowed.setFocus()
    QTest.keyClicks(panel.ttft.allowed, "4.02")
    assert chart.limit == pytest.approx(4_020_000)
    assert _shades(chart)[theme.current().error.name()] > 100
    bar = chart.bar(int(np.flatnonzero(chart.counts)[-1])).center().toPoint()
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=bar)
    (place,) = window.timeline.state.evidence
    assert place.name == "request_1"
    in_time = panel.latencies.in_time
    assert (chart.late.sum(), in_time.late.tolist()) == (1, [0, 0, 0, 0, 1])
    first = in_time.bar(0).center().toPoint()
    QTest.mouseMove(in_time, first)
    assert "1 request that arrived from 0 ns to 1.00 ms, 0 of them late" in in_time.toolTip()
    QTest.mouseClick(in_time, Qt.MouseButton.LeftButton, pos=first)
    assert window.timeline.state.evidence[0].name == "request_0"
    QTest.mouseClick(panel.ttft.figures[2], Qt.MouseButton.LeftButton)  # the requests beyond p99
    assert window.timeline.state.evidence[0].name == "request_1"
    assert panel.requests.isVisible()
    assert panel.requests.selected_rows() == [1]
    panel.choice.setFocus()
    QTest.keyClick(panel.choice, Qt.Key.Key_Down)

    panel.choice.setFocus()
    QTest.keyClick(panel.choice, Qt.Key.Key_Down)
    assert panel.capacity.isVisible()
    assert [(each.size, each.count, each.ns) for each in panel.capacity.batches] == [
        (1, 3, ns(DECODE_US)),
        (2, 1, ns(DECODE_US)),
    ]
    one, two = (panel.capacity.place(each.size, each.rate) for each in panel.capacity.batches)
    assert one.x() < two.x() < panel.capacity.width()
    assert one.y() > two.y() > 0
    assert _shades(panel.capacity)[theme.current().error.name()] == 0
    panel.tpot.allowed.setFocus()
    QTest.keyClicks(panel.tpot.allowed, "0.9")
    assert all(panel.capacity.is_late(each) for each in panel.capacity.batches)
    assert _shades(panel.capacity)[theme.current().error.name()] > 5
    drag(panel.capacity, two.toPoint(), one.toPoint())
    assert "1 request: 1,000 tokens/s" in panel.capacity.toolTip()


def _shades(widget: QWidget) -> Counter[str]:
    """How many pixels of which colour a widget shows."""
    image = widget.grab().toImage()
    return Counter(
        image.pixelColor(x, y).name() for x in range(0, image.width(), 2) for y in range(0, image.height(), 2)
    )


def _press(table: TableView, row: int) -> None:
    where = table.visualRect(table.rows.index(row, 1)).center()
    QTest.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, where)


@pytest.mark.parametrize(
    ("kernel", "said"),
    [("reshape_and_cache_kernel", "KV cache"), ("vectorized_gather_kernel", "indexed reads and writes")],
)
def test_what_is_only_taken_for_a_cache_is_not_called_one(
    kernel: str, said: str, window: MainWindow, qtbot: QtBot
) -> None:
    tiny = TinyTrace()
    for number in range(3):
        tiny.region(number * 100, number * 100 + 90, PREFILL if not number else DECODE.format(1))
        tiny.operation(number * 100 + 10, number * 100 + 30, kernel, number * 100 + 5)
    window.document.show(tiny.build())
    wait_until_ready(qtbot, window)
    show_tab(window, qtbot, "Serving")
    panel = window.panels.findChild(ServingPanel)
    assert isinstance(panel, ServingPanel)
    assert panel.costs.text() == f"Between steps 6.9 % of the time, {said} 100 % of the kernels."
    assert "its queue is empty" in panel.costs.toolTip()
    assert panel.about.text().startswith("No requests are marked: open a request log with the recording")
    assert not panel.ttft.allowed.isEnabled()
    lanes = [each.track.title for each in window.timeline.state.layout.scrolled if each.track.derived]
    assert lanes == ["Engine steps", "Batch size", "Tokens/s"]
