"""Colours of both themes: readable, and told apart by people who do not see red or green."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from PySide6.QtCore import QEvent
from PySide6.QtGui import QColor
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QCheckBox,
    QComboBox,
    QFileDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QRadioButton,
    QToolButton,
)
from pytestqt.qtbot import QtBot

from rules.analysis.idle.causes import Cause
from rules.analysis.names.families import Family
from rules.findings.base import Severity
from viewer.appearance import theme
from viewer.appearance.theme import CONTRAST, DARK, LIGHT, Theme
from viewer.timeline.geometry.gaps import hatching

EACH = pytest.mark.parametrize("colors", [DARK, LIGHT, CONTRAST], ids=["dark", "light", "contrast"])
# Viénot, Brettel and Mollon 1999: how linear RGB looks without one kind of cone.
DEUTERANOPE = ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0))
NORMAL = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
TRITANOPE = ((1.0, 0.1461, -0.1461), (0.0, 0.8574, 0.1426), (0.0, 0.8574, 0.1426))
PROTANOPE = ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0))


def linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def seen(color: QColor, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    channels = [linear(value) for value in (color.redF(), color.greenF(), color.blueF())]
    mixed = (sum(weight * value for weight, value in zip(row, channels, strict=True)) for row in matrix)
    return tuple(max(value, 0.0) ** (1 / 2.2) for value in mixed)


@EACH
def test_text_can_be_read_on_every_ground(colors: Theme) -> None:
    for ground in (colors.window, colors.panel, colors.strip):
        for text in (colors.text, colors.text_secondary, colors.text_faint, colors.accent):
            assert theme.contrast(text, ground) >= theme.MIN_CONTRAST
    assert theme.contrast(colors.text, colors.step) >= theme.MIN_CONTRAST


@EACH
def test_better_and_worse_can_be_read_also_in_a_badge(colors: Theme) -> None:
    for color in (colors.good, colors.warning, colors.error, colors.accent):
        for ground in (colors.window, colors.panel, theme.mixed(color, colors.panel, 0.14)):
            assert theme.contrast(color, ground) >= theme.MIN_CONTRAST, (color.name(), ground.name())


@EACH
def test_text_on_a_fill_can_be_read(colors: Theme) -> None:
    fills = [*colors.families.values(), *colors.causes.values(), *colors.regions.values(), *colors.series]
    fills += [
        *colors.severities.values(),
        colors.accent_fill,
        QColor("#777777"),
        QColor("#ffffff"),
        QColor("#000000"),
    ]
    for fill in fills:
        assert theme.contrast(theme.text_on(fill), fill) >= theme.MIN_CONTRAST


@EACH
@pytest.mark.parametrize(
    "matrix",
    [NORMAL, DEUTERANOPE, PROTANOPE, TRITANOPE],
    ids=["normal", "deuteranope", "protanope", "tritanope"],
)
def test_two_causes_of_similar_colour_are_hatched_differently(
    colors: Theme, matrix: tuple[tuple[float, ...], ...]
) -> None:
    tiles = hatching(1)
    for one, other in itertools.combinations(Cause, 2):
        pairs = zip(seen(colors.cause(one), matrix), seen(colors.cause(other), matrix), strict=True)
        if max(abs(a - b) for a, b in pairs) < 0.15:
            assert np.mean(tiles[one] != tiles[other]) > 0.05, (one, other)


@EACH
def test_every_family_cause_and_severity_has_a_colour(colors: Theme) -> None:
    for family in Family:
        if family is not Family.OTHER:
            assert colors.family(family.label) != colors.families["other"], family
    assert colors.family("never heard of") == colors.families["other"]
    assert all(colors.cause(cause).isValid() for cause in Cause)
    assert all(colors.severities[severity].isValid() for severity in Severity)


def test_high_contrast_is_higher_than_the_others() -> None:
    for ground in (CONTRAST.window, CONTRAST.panel, CONTRAST.strip):
        for text in (CONTRAST.text, CONTRAST.text_secondary, CONTRAST.text_faint, CONTRAST.accent):
            assert theme.contrast(text, ground) >= 7


def test_mixing_gives_the_ends_and_the_middle() -> None:
    black, white = QColor("#000000"), QColor("#ffffff")
    assert theme.mixed(white, black, 1.0) == white
    assert theme.mixed(white, black, 0.0) == black
    assert theme.mixed(white, black, 0.5).red() == 128


def test_changing_the_theme_tells_everybody(qtbot: QtBot) -> None:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    theme.apply(app, "dark")
    try:
        with qtbot.waitSignal(theme.changed) as told:
            theme.apply(app, "light")
        assert told.args == [LIGHT]
        assert theme.current() is LIGHT
        assert theme.mode() == "light"
        assert "$" not in app.styleSheet()
    finally:
        theme.apply(app, "dark")


class Listening(QLabel):
    """Notes whether garbage may be collected while Qt styles it."""

    def changeEvent(self, event: QEvent) -> None:
        self.seen = {*getattr(self, "seen", ()), (event.type(), gc.isenabled())}
        super().changeEvent(event)


def test_no_widget_can_vanish_while_qt_styles_all_of_them(qtbot: QtBot, qapp: QApplication) -> None:
    label = Listening("x")
    qtbot.addWidget(label)
    label.show()
    theme.apply(qapp, "dark")
    try:
        label.seen = set()
        theme.apply(qapp, "light")
        assert (QEvent.Type.StyleChange, False) in label.seen
        assert not any(collecting for _, collecting in label.seen)
    finally:
        theme.apply(qapp, "dark")
    assert gc.isenabled()


@pytest.fixture(params=["dark", "light", "contrast"])
def themed(request: pytest.FixtureRequest, qapp: QApplication) -> Iterator[Theme]:
    """Each theme once; the dark one afterwards."""
    theme.apply(qapp, request.param)
    yield theme.current()
    theme.apply(qapp, "dark")


@pytest.mark.parametrize("make", [QCheckBox, QRadioButton])
def test_an_empty_box_can_be_seen(themed: Theme, make: type[QAbstractButton], qtbot: QtBot) -> None:
    button = make()
    qtbot.addWidget(button)
    button.resize(40, 30)
    button.show()
    picture = button.grab().toImage()
    across = [picture.pixelColor(x, picture.height() // 2) for x in range(picture.width())]
    assert max(theme.contrast(color, themed.panel) for color in across) >= 3


def test_a_list_to_choose_from_has_an_arrow(themed: Theme, qtbot: QtBot) -> None:
    choice = QComboBox()
    qtbot.addWidget(choice)
    choice.resize(120, 30)
    choice.show()
    picture = choice.grab().toImage()
    inside = [picture.pixelColor(x, y) for x in range(98, 116) for y in range(8, 22)]
    assert max(theme.contrast(color, themed.window) for color in inside) >= 2.5


@pytest.mark.parametrize("make", [QLineEdit, QPlainTextEdit])
def test_what_a_field_invites_to_can_be_read(
    themed: Theme, make: type[QLineEdit | QPlainTextEdit], qtbot: QtBot
) -> None:
    field = make()
    qtbot.addWidget(field)
    field.show()
    assert field.palette().placeholderText().color() == themed.text_faint


def test_the_buttons_of_a_file_dialog_have_room_for_their_icons(themed: Theme, qtbot: QtBot) -> None:
    dialog = QFileDialog(options=QFileDialog.Option.DontUseNativeDialog)
    qtbot.addWidget(dialog)
    dialog.show()
    for name in ("newFolderButton", "listModeButton", "detailModeButton"):
        picture = dialog.findChild(QToolButton, name).grab().toImage()
        across = [picture.pixelColor(x, picture.height() // 2) for x in range(6, picture.width() - 6)]
        assert len({color.rgb() for color in across}) > 3, name


def test_the_grid_is_half_as_loud_as_the_lines_between_lanes_in_high_contrast() -> None:
    loud, half = (theme.contrast(each, CONTRAST.window) for each in (CONTRAST.line, CONTRAST.grid))
    assert 1.5 < half < 0.6 * loud
    assert DARK.grid == DARK.line
    assert LIGHT.grid == LIGHT.line
