"""For keyboards and screen readers: every control of every window has a name and a role, is reached, and shows it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QAccessible, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from viewer.appearance import theme
from viewer.appearance.tab_order import tell_roles

from .every_window import WINDOWS, controls, opened, pages

NAMELESS = (QAccessible.Role.NoRole, QAccessible.Role.Client, QAccessible.Role.Window)
EVERY_DAY = ("record", "open address", "preferences")
AROUND = 4  # pixels beside a control where it may show that it has the focus


@pytest.fixture(autouse=True)
def as_in_the_program(qapp: QApplication) -> Iterator[None]:
    """Roles are told; the theme is the dark one before and afterwards."""
    tell_roles(qapp)
    theme.apply(qapp, "dark")
    yield
    theme.apply(qapp, "dark")


def lacking_a_name_or_a_role(window: QWidget) -> set[str]:
    lacking = set()
    for page in pages(window):
        for widget in controls(window):
            told = QAccessible.queryAccessibleInterface(widget)
            said = told.text(QAccessible.Text.Name).strip() if told is not None else ""
            if told is None or not said or told.role() in NAMELESS:
                where = f"{page}/{type(widget.parentWidget()).__name__}"
                lacking.add(f"{where}: {type(widget).__name__} {said!r} {told and told.role()}")
    return lacking


def around(window: QWidget, widget: QWidget) -> QRect:
    corner = widget.mapTo(window, QPoint(0, 0))
    return QRect(corner, widget.size()).adjusted(-AROUND, -AROUND, AROUND, AROUND) & window.rect()


def picture(window: QWidget, place: QRect) -> QImage:
    return window.grab(place).toImage()


def by_tab(window: QWidget) -> Iterator[QWidget]:
    """Where the Tab key goes, up to where it has been."""
    visited: list[QWidget] = []
    while True:
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        reached = QApplication.focusWidget()
        if reached is None or reached in visited:
            return
        visited.append(reached)
        yield reached


@pytest.mark.parametrize(
    "themes",
    [("dark",), pytest.param(("light", "contrast"), marks=pytest.mark.thorough)],
    ids=lambda each: "-".join(each),
)
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in EVERY_DAY else pytest.mark.thorough) for each in WINDOWS]
)
def test_every_control_has_a_name_and_a_role_is_reached_by_tab_and_shows_it(
    name: str, themes: tuple[str, ...], qapp: QApplication
) -> None:
    unseen, missed = [], []
    with opened(WINDOWS[name]()) as window:
        for colors in themes:
            theme.apply(qapp, colors)
            QApplication.processEvents()
            reached = []
            for widget in by_tab(window):
                place = around(window, widget)
                with_focus = picture(window, place)
                widget.clearFocus()
                if picture(window, place) == with_focus:
                    unseen.append(f"{colors}: {told(widget)}")
                widget.setFocus(Qt.FocusReason.TabFocusReason)
                reached.append(widget)
            wanted = (each for each in controls(window) if each.focusPolicy() & Qt.FocusPolicy.TabFocus)
            missed += [told(each) for each in wanted if each.isEnabled() and each not in reached]
        lacking = lacking_a_name_or_a_role(window)
    assert not unseen, "\n".join(unseen)
    assert not missed, "\n".join(missed)
    assert not lacking, "\n".join(sorted(lacking))


def told(widget: QWidget) -> str:
    words = widget.accessibleName() or getattr(widget, "text", str)()
    return f"{type(widget).__name__} {words}"
