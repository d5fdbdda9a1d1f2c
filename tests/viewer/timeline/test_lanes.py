"""Lanes by mouse, menu and command; colours; what is drawn of a selection."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from parsers.model import EventKind, LaneKind, Trace
from rules.analysis.analysis import Analysis
from rules.findings.base import Evidence
from tests.viewer.timeline.mouse import LEFT, MS, NONE, drag, kernel
from tests.viewer.timeline.test_layout import several_ranks
from viewer.appearance import theme
from viewer.timeline.geometry.arrangement import GroupState
from viewer.timeline.geometry.layout import Placed
from viewer.timeline.gestures import NOT_THERE
from viewer.timeline.kinds.base import style_of
from viewer.timeline.legend import Entry, arranged, entries, top_of_legend
from viewer.timeline.names_column import NAMES_WIDTH
from viewer.timeline.scene import COLOR_MODES, DURATION_COLORS, EventColors, Scene
from viewer.timeline.view import TimelineView


def color_of(scene: Scene, event: int) -> QColor:
    lane, depth = int(scene.trace.events.lane[event]), int(scene.trace.events.depth[event])
    row = scene.index.rows[lane][depth]
    kind = int(scene.colors.classes(lane, row, np.array([event - row.first]))[0])
    return scene.colors.palette(lane, depth)[kind]


def shown(qtbot: QtBot, trace: Trace, height: int = 600) -> TimelineView:
    timeline = TimelineView()
    qtbot.addWidget(timeline)
    timeline.set_animated(False)
    timeline.resize(1000, height)
    timeline.show()
    qtbot.waitExposed(timeline)
    timeline.set_trace(trace)
    timeline.set_analysis(Analysis(trace))
    return timeline


@pytest.fixture
def view(qtbot: QtBot, small_run: Trace) -> Iterator[TimelineView]:
    timeline = shown(qtbot, small_run)
    yield timeline
    timeline.close()


def titles(view: TimelineView) -> list[str]:
    return [placed.track.title for placed in view.state.layout.scrolled]


def placed(view: TimelineView, title: str) -> Placed:
    return next(each for each in view.state.layout.scrolled if each.track.title == title)


def name_at(view: TimelineView, title: str) -> QPoint:
    each = placed(view, title)
    return QPoint(60, view.canvas.top_of(each) + each.height // 2)


def pixels(image: QImage) -> np.ndarray:
    image = image.convertToFormat(QImage.Format.Format_RGB32)
    flat = np.frombuffer(image.constBits(), np.uint32)
    return flat.reshape(image.height(), image.bytesPerLine() // 4)[:, : image.width()] & 0xFFFFFF


def picture(view: TimelineView) -> np.ndarray:
    return pixels(view.picture())


def rgb(color: QColor) -> int:
    return color.rgb() & 0xFFFFFF


def test_a_click_on_a_name_folds_and_unfolds_the_lane(view: TimelineView) -> None:
    QTest.mouseClick(view.canvas, LEFT, NONE, name_at(view, "Main thread"))
    assert placed(view, "Main thread").collapsed
    QTest.mouseClick(view.canvas, LEFT, NONE, name_at(view, "Main thread"))
    assert not placed(view, "Main thread").collapsed


def test_dragging_a_name_moves_the_lane(view: TimelineView) -> None:
    drag(view.canvas, name_at(view, "GPU 0 · stream 7"), name_at(view, "Regions"))
    assert titles(view)[:2] == ["GPU 0", "GPU 0 · stream 7"]


def test_a_lane_dragged_to_another_rank_stays_and_it_is_said_why(qtbot: QtBot) -> None:
    view = shown(qtbot, several_ranks(2), 900)
    before = titles(view)
    lanes = [
        each for each in view.state.layout.scrolled if not each.track.is_heading and not each.track.is_made
    ]
    other = next(place for place, each in enumerate(lanes) if each.track.group != lanes[0].track.group)
    here, there = (
        QPoint(60, view.canvas.top_of(each) + each.height // 2) for each in (lanes[other - 1], lanes[other])
    )
    drag(view.canvas, here, there)
    assert titles(view) == before
    assert QToolTip.text() == NOT_THERE
    view.close()


def test_dragging_the_lower_edge_of_a_name_resizes_the_lane(view: TimelineView) -> None:
    lane = placed(view, "Main thread")
    edge = QPoint(60, view.canvas.top_of(lane) + lane.height - 1)
    drag(view.canvas, edge, edge + QPoint(0, 80))
    assert placed(view, "Main thread").height == lane.height + 80


def test_the_menu_pins_hides_and_shows_again(view: TimelineView) -> None:
    def choose(title: str, text: str) -> None:
        menu = view.lane_commands.menu(placed(view, title), view)
        action = next(action for action in menu.actions() if action.text().startswith(text))
        assert action.isEnabled()
        action.trigger()

    choose("GPU 0 · stream 7", "Pin")
    assert [each.track.title for each in view.state.layout.pinned] == ["GPU 0 · stream 7"]
    choose("Main thread", "Hide")
    assert "Main thread" not in titles(view)
    choose("Regions", "Show hidden")
    assert "Main thread" in titles(view)
    choose("Regions", "Reset")
    assert view.state.layout.pinned == ()


def test_a_pinned_lane_stays_on_top_and_can_be_clicked_there(qtbot: QtBot, small_run: Trace) -> None:
    view = shown(qtbot, small_run, 300)
    view.lane_commands.pin(placed(view, "GPU 0 · stream 7"))
    view.canvas.scroll_to(1000)
    assert view.canvas.offset > 0
    row = view.state.layout.pinned[0].rows[0]
    x = round(NAMES_WIDTH + view.state.scale.x(6.7 * MS))
    QTest.mouseClick(view.canvas, LEFT, NONE, QPoint(x, row.top + row.height // 2))
    assert view.state.selected == kernel(small_run, 0)
    assert not view.picture().isNull()


def test_an_arrangement_is_kept_and_restored(view: TimelineView, small_run: Trace, qtbot: QtBot) -> None:
    view.set_calls_inside(False)
    view.lane_commands.pin(placed(view, "CUDA API"))
    view.lane_commands.toggle(placed(view, "Main thread"))
    kept = view.arrangement()
    other = shown(qtbot, small_run)
    other.set_arrangement(kept)
    assert titles(other) == titles(view)
    assert placed(other, "Main thread").collapsed


def test_filtering_shows_matching_lanes(view: TimelineView) -> None:
    view.filter_bar.set_text("cuda")
    assert titles(view) == ["CUDA API"]
    view.filter_bar.set_text("")
    assert len(titles(view)) == 6


def test_a_click_on_a_rank_opens_it(qtbot: QtBot) -> None:
    view = shown(qtbot, several_ranks(6))
    assert titles(view) == (folded := [f"Rank {rank}" for rank in range(6)])
    QTest.mouseClick(view.canvas, LEFT, NONE, name_at(view, "Rank 2"))
    assert "Main thread" in titles(view)
    view.lane_history.undo()
    assert titles(view) == folded
    view.lane_commands.set_all_groups(GroupState.BRIEF)
    assert titles(view).count("Communication") == 6
    view.state.set_compact(True)
    assert len(titles(view)) == 6


def test_evidence_in_a_folded_rank_is_uncovered(qtbot: QtBot) -> None:
    trace = several_ranks(6)
    view = shown(qtbot, trace)
    lane = next(
        n for n, each in enumerate(trace.lanes) if each.rank == 4 and each.kind is LaneKind.CPU_THREAD
    )
    view.highlight([Evidence(lane, 0, 100, "op", trace.events.lane_slice(lane).start)])
    assert view.state.layout.of_lane(lane) is not None
    view.state.highlight(())
    assert view.state.evidence == ()


def test_idle_time_is_painted_in_the_colour_of_its_cause_and_can_be_turned_off(
    view: TimelineView, small_run: Trace
) -> None:
    idle = Analysis(small_run).idle
    color = rgb(theme.current().cause(int(idle.cause[np.argmax(idle.end - idle.start)])))
    view.show_interval(9.6 * MS, 16.2 * MS)
    lane = placed(view, "GPU 0 · stream 7")
    bottom = view.canvas.mapTo(view, QPoint(0, view.canvas.top_of(lane) + lane.height)).y()
    assert (picture(view)[bottom - 3, NAMES_WIDTH + 40 : -40] == color).mean() > 0.9
    view.set_gaps_visible(False)
    assert not (picture(view)[bottom - 3, NAMES_WIDTH + 40 : -40] == color).any()


def test_a_wide_gap_names_its_cause(view: TimelineView) -> None:
    view.show_interval(9.6 * MS, 16.2 * MS)
    labelled = picture(view)
    view.set_gaps_visible(False)
    assert (labelled != picture(view)).any()


@pytest.mark.parametrize("mode", COLOR_MODES)
def test_every_colour_mode_paints_and_other_names_fall_back(view: TimelineView, mode: str) -> None:
    view.set_colour_mode(mode)
    assert view.state.scene is not None
    assert view.state.scene.color_mode == mode
    picture(view)
    view.set_colour_mode("nonsense")
    assert view.state.scene.color_mode == COLOR_MODES[0]


def test_kernels_of_one_family_have_the_colour_of_the_family(view: TimelineView, small_run: Trace) -> None:
    assert view.state.scene is not None
    color = color_of(view.state.scene, kernel(small_run, 0))
    assert color == theme.current().family("gemm")


@pytest.mark.parametrize("name", ["dark", "light"])
def test_a_theme_changes_every_part(view: TimelineView, name: str, qtbot: QtBot) -> None:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    try:
        theme.apply(app, name)
        seen = picture(view)
        ground = rgb((theme.DARK if name == "dark" else theme.LIGHT).window)
        assert seen[-3, NAMES_WIDTH + 300] == ground
        assert seen[-3, 30] == ground
    finally:
        theme.apply(app, "dark")


def test_a_selected_kernel_is_joined_to_its_launch_from_either_side(
    view: TimelineView, small_run: Trace
) -> None:
    view.show_interval(6 * MS, 10 * MS)
    plain = picture(view)
    accent = rgb(theme.current().accent)
    assert not (plain[100:] == accent).any()
    view.select_event(kernel(small_run, 3), reveal=False)
    from_kernel = (picture(view)[100:] == accent).sum()
    launch = int(small_run.links.launch_of(np.array([kernel(small_run, 3)]))[0])
    view.select_event(launch, reveal=False)
    assert from_kernel > 20
    assert (picture(view)[100:] == accent).sum() > 20


def test_a_lane_that_is_revealed_leaves_the_first_one_whole(view: TimelineView) -> None:
    for height in (150, 190, 230):
        view.resize(view.width(), height)
        QApplication.processEvents()
        tops = {each.top for each in view.state.layout.scrolled}
        for lane in view.state.layout.scrolled:
            view.canvas.scroll_to(0)
            assert view.canvas.reveal_track(lane.track.key)
            offset = view.canvas.offset
            assert offset in tops or offset == view.canvas.most_offset
            assert lane.bottom <= offset + view.canvas.room or lane.top == offset


def test_the_arrow_begins_where_the_call_begins(view: TimelineView, small_run: Trace) -> None:
    operation = kernel(small_run, 3)
    launch = int(small_run.links.launch_of(np.array([operation]))[0])
    start, end = (int(column[launch]) for column in (small_run.events.start, small_run.events.end))
    view.show_interval(start - 4 * (end - start), start + 8 * (end - start))
    plain = picture(view)
    view.select_event(operation, reveal=False)
    drawn = (picture(view) == rgb(theme.current().accent)) & (plain != rgb(theme.current().accent))
    left, right = (round(NAMES_WIDTH + view.state.scale.x(when)) for when in (start, end))
    edges = np.flatnonzero(drawn[:, left:right].mean(axis=1) > 0.8)  # of the frame around the call
    below = int(np.flatnonzero(drawn[edges[-1] + 1])[0])
    assert right - left > 40
    assert abs(below - left) <= 8


def test_every_kind_of_lane_has_a_style_and_its_colours_can_be_read() -> None:
    for kind in LaneKind:
        style = style_of(kind)
        key = style.key("some name")
        from parsers.model import Lane
        from viewer.timeline.kinds.base import StyledRow

        color = style.color(key, StyledRow(Lane(kind, "x"), 0, 0), theme.DARK)
        assert theme.contrast(theme.text_on(color), color) >= theme.MIN_CONTRAST
        assert style.shown("a\nb") in ("a b", "a\nb", "b", "a")


def test_steps_differ_by_number_only_and_have_one_colour() -> None:
    style = style_of(LaneKind.REGION)
    assert style.key("step_1") == style.key("step_27") == "step"
    assert style.key("layer 3") == style.key("layer 12")


def test_an_empty_recording_is_drawn(qtbot: QtBot) -> None:
    from parsers.model.builder import TraceBuilder

    view = shown(qtbot, TraceBuilder().build())
    assert not view.picture().isNull()
    for key in "wasdf.,[]m":
        QTest.keyClicks(view, key)
    QTest.keyClick(view, Qt.Key.Key_Escape)


def test_an_operation_without_a_launch_can_be_selected(qtbot: QtBot) -> None:
    from parsers.model import Device, Lane
    from parsers.model.builder import TraceBuilder

    builder = TraceBuilder()
    lane = builder.lane(Lane(LaneKind.GPU_STREAM, "s", device=builder.device(Device(0)), stream=1))
    builder.add(np.array([0, 50]), np.array([40, 90]), builder.string("k"), lane, EventKind.KERNEL)
    view = shown(qtbot, builder.build())
    view.select_event(1)
    assert not view.picture().isNull()


def test_l_shows_and_hides_the_legend_of_what_occurs(view: TimelineView) -> None:
    plain = picture(view)
    QTest.keyClicks(view, "l")
    assert (picture(view) != plain).any()
    QTest.keyClicks(view, "l")
    assert (picture(view) == plain).all()
    assert view.state.scene is not None
    told = entries(view.state.scene)
    assert [entry.label for entry in told["GPU operations"]] == ["matrix product"]
    assert [entry.label for entry in told["GPU API calls"]] == ["launch"]
    assert [entry.label for entry in told["CPU threads"]] == ["a colour a thread"]
    drawn = {each.kind for each in view.state.scene.trace.lanes if style_of(each.kind).is_drawn}
    assert {style_of(kind).heading for kind in drawn} - {""} <= told.keys(), "every colour is explained"
    assert all(entry.cause is not None for entry in told["Idle GPU"])
    view.set_colour_mode("duration")
    assert len(entries(view.state.scene)["Duration"]) == 8


@pytest.mark.parametrize(
    ("lanes", "top"),
    [
        ([], 290.0),  # at the bottom
        ([(320.0, 380.0)], 10.0),  # where the GPU is shown at the bottom, at the top
        ([(0.0, 60.0)], 290.0),
        ([(0.0, 60.0), (320.0, 340.0)], 290.0),  # where both hide something, the lesser part
    ],
)
def test_the_legend_keeps_off_the_lanes_of_the_gpu(lanes: list[tuple[float, float]], top: float) -> None:
    assert top_of_legend(100.0, 400.0, lanes) == top


def test_a_legend_that_does_not_fit_flows_into_columns_and_says_what_is_missing() -> None:
    color = QColor("red")
    groups = {heading: [Entry(f"{heading}{n}", color) for n in range(4)] for heading in ("a", "b", "c")}
    assert [len(column) for column in arranged(groups, 3, 5)] == [5, 5, 5]
    flowing = arranged(groups, 4, 4)
    assert [len(column) for column in flowing] == [4, 4, 4, 3]
    assert flowing[1][1] == "b"
    kept = arranged({"a": groups["a"][:3], "b": groups["b"][:3], "c": groups["c"][:1]}, 2, 6)
    assert [column[0] for column in kept] == ["a", "b"], "a heading stays with its entries"
    cut = arranged(groups, 2, 4)
    assert [len(column) for column in cut] == [4, 4]
    assert cut[1][-1] == "and 7 more (enlarge)"
    assert arranged(groups, 0, 4) == arranged(groups, 2, 1) == []


def test_colours_by_duration_are_decades(view: TimelineView, small_run: Trace) -> None:
    view.set_colour_mode("duration")
    assert view.state.scene is not None
    assert color_of(view.state.scene, kernel(small_run, 0)) == QColor(DURATION_COLORS[3])  # 700 us


def test_names_are_classified_when_they_are_first_seen(view: TimelineView, small_run: Trace) -> None:
    assert view.state.scene is not None
    colors = EventColors(small_run, view.state.scene.index)
    lane = next(n for n, each in enumerate(small_run.lanes) if each.kind is LaneKind.REGION)
    row = view.state.scene.index.rows[lane][0]
    before = len(colors.shades(lane, 0).inks)
    colors.classes(lane, row, np.array([0]))
    assert len(colors.shades(lane, 0).inks) == before + 1
    colors.classes(lane, row, np.array([0, 1]))
    assert len(colors.shades(lane, 0).inks) == before + 2


def test_a_fine_screen_gets_finer_pixels_and_the_same_layout(view: TimelineView) -> None:
    from viewer.timeline.frame import FramePainter, Options

    assert view.state.scene is not None
    images = {}
    for ratio in (1.0, 1.5, 2.0):
        image = FramePainter().paint(
            view.state.scene, view.state.scale, view.canvas.shown(), [], 300, ratio, Options(0.0, True)
        )
        assert image.devicePixelRatio() == ratio
        assert image.width() == round(view.state.scale.width * ratio)
        images[ratio] = pixels(image).copy()
    lane = placed(view, "GPU 0 · stream 7")
    y, x = view.canvas.top_of(lane) + lane.rows[0].top + 20, round(view.state.scale.x(6.7 * MS))
    color = rgb(theme.current().family("gemm"))
    assert {int(image[round(y * ratio), round(x * ratio)]) for ratio, image in images.items()} == {color}


def test_animations_respect_the_system(view: TimelineView, monkeypatch: pytest.MonkeyPatch) -> None:
    from PySide6.QtWidgets import QApplication, QStyle

    view.set_animated(True)
    monkeypatch.setattr(type(QApplication.style()), "styleHint", lambda *_: 0, raising=False)
    assert QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0
    view.show_interval(10 * MS, 14 * MS)
    assert not view.state.flying
    assert view.visible_interval == (10 * MS, 14 * MS)


def test_lanes_grow_where_there_is_room_and_leave_what_was_resized(qtbot: QtBot, small_run: Trace) -> None:
    view = shown(qtbot, small_run, 300)
    usual = placed(view, "GPU 0 · stream 7").height
    view.resize(1000, 900)
    QApplication.processEvents()
    grown = placed(view, "GPU 0 · stream 7")
    assert usual < grown.height <= 4 * usual
    assert view.canvas.most_offset == 0
    view.resize(1000, 1900)  # a very large screen
    QApplication.processEvents()
    assert placed(view, "GPU 0 · stream 7").rows[0].height > grown.rows[0].height
    view.lane_commands.resize(grown, usual)
    assert placed(view, "GPU 0 · stream 7").height == usual
    assert all(each.hidden_levels == 0 for each in view.state.layout.scrolled if not each.collapsed)
