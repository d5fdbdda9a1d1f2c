"""Texts that do not fit keep what tells them apart."""

from __future__ import annotations

from PySide6.QtGui import QFontMetricsF
from pytestqt.qtbot import QtBot

from viewer.appearance import theme
from viewer.appearance.painted_chart import TextCache
from viewer.appearance.widgets import elided_inside
from viewer.panels.tables.facts import LinkButton

LONG = "nvjet_sm90_tst_128x128_64x6_2x1_v_bz_bias_TNT"


def test_a_name_that_does_not_fit_keeps_both_of_its_ends(qapp: object) -> None:
    metrics = QFontMetricsF(theme.font())
    room = metrics.horizontalAdvance(LONG) * 2 // 3
    shown = elided_inside(LONG, metrics, room)
    assert shown.startswith("nvjet_sm90_tst_")
    assert shown.endswith("_TNT")
    assert shown.count("\u2026") == 1
    assert metrics.horizontalAdvance(shown) <= room


def test_a_name_that_fits_is_shown_as_it_is(qapp: object) -> None:
    metrics = QFontMetricsF(theme.font())
    assert elided_inside(LONG, metrics, metrics.horizontalAdvance(LONG)) == LONG


def test_in_no_room_at_all_there_is_hardly_more_than_an_ellipsis(qapp: object) -> None:
    metrics = QFontMetricsF(theme.font())
    assert len(elided_inside(LONG, metrics, 12)) <= 3


def test_a_label_is_whole_where_it_fits_and_else_ends_with_a_word_or_an_ellipsis(qapp: object) -> None:
    cache = TextCache(theme.font(11))

    def shown(text: str, room: float) -> str:
        fitted = cache.fitted(text, room)
        return fitted.text() if fitted is not None else ""

    assert shown("Div", cache.width("Div") + 1) == "Div"
    assert shown("Div", cache.width("Div") - 1) == ""
    assert shown("Divide (broadcast)", cache.width("Divide (br") + 1) == "Divide"
    assert shown("Mul · vectorized_kernel", cache.width("Mul · ve")) == "Mul"
    assert shown("tokenize and others", cache.width("tokenize …") + 6) == "tokenize…"
    assert shown("aten::addmm", cache.width("aten::addmm") + 1) == "aten::addmm"
    assert shown("aten::addmm", cache.width("addmm") + 6) == "addmm"
    assert shown("autograd::engine::evaluate", cache.width("engine::ev")).startswith("eva")
    cut = shown("tokenize", cache.width("tokeniz"))
    assert cut.startswith("tok")
    assert cut.endswith("…")


def test_a_link_to_a_finding_tells_one_share_whole_where_two_do_not_fit(qtbot: QtBot) -> None:
    link = LinkButton("The GPU waits: 40 %, 53 % with delays", sentence=True)
    qtbot.addWidget(link)
    link.show()
    metrics = QFontMetricsF(link.font())
    for text, shown in (
        ("The GPU waits: 40 %, 53 % with delays", "The GPU waits: 40 %, 53 % with delays"),
        ("The GPU waits: 40 %, 53 % with", "The GPU waits: 40 %"),
        ("The GPU waits: 40 %", "The GPU waits: 40 %"),
    ):
        link.resize(round(metrics.horizontalAdvance(text)) + 1, 20)
        assert link.text() == shown
