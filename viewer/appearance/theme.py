"""The colours and fonts of the window, light and dark, and the one place that switches between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from string import Template

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication, QStyleFactory

import resources
from parsers.collecting import without_garbage_collection
from parsers.model.late import dataclass
from rules.analysis.idle.causes import Cause
from rules.findings.base import Category, Severity
from viewer.appearance import palette


def stylesheet(colors: Mapping[str, str]) -> str:
    """The sheet with every ``$name`` replaced by its colour, and the folder of the small pictures."""
    sheet = Template(resources.path("stylesheet.qss").read_text("utf-8"))
    return sheet.substitute(colors, controls=resources.path("icons/controls").as_posix())


BODY_PX = 13
SECONDARY_PX = 11
VERDICT_PX = 16
BUNDLED_FONTS = ("Inter-Regular.ttf", "Inter-SemiBold.ttf")
MIN_CONTRAST = 4.5
_INK = (QColor("#101218"), QColor("#ffffff"), QColor("#000000"))


@dataclass(frozen=True, slots=True)
class Theme:
    """One set of colours. ``families`` is keyed by kernel family, ``regions`` by well-known region words."""

    name: str  # "dark", "light" or "contrast"
    dark: bool
    window: QColor  # canvas, toolbar, cards
    panel: QColor  # docks, verdict strip, status bar
    strip: QColor  # overview, groove of a bar, group header
    hover: QColor
    selection: QColor  # selected row, selected area
    line: QColor  # between panels and lanes
    line_strong: QColor  # border of a control
    text: QColor
    text_secondary: QColor
    text_faint: QColor  # not checked, disabled, placeholder; still readable
    accent: QColor
    accent_fill: QColor  # primary button
    step: QColor
    families: Mapping[str, QColor]
    causes: Mapping[Cause, QColor]
    severities: Mapping[Severity, QColor]
    regions: Mapping[str, QColor]
    series: tuple[QColor, ...]  # colours that can be told apart, for names, threads, ranks and counters
    good: QColor
    warning: QColor
    error: QColor

    def family(self, name: str) -> QColor:
        """The colour of a kernel family; that of "other" for one it does not know."""
        return self.families.get(name.lower(), self.families["other"])

    def cause(self, cause: Cause | int) -> QColor:
        return self.causes[Cause(cause)]

    def named(self, index: int) -> QColor:
        """One of the series colours, for things told apart only by their number."""
        return self.series[index % len(self.series)]

    def category(self, category: Category) -> QColor:
        """The colour of a finding: that of the cause or kernel family it speaks of."""
        if isinstance(category.about, Cause):
            return self.cause(category.about)
        return self.family("other" if category.about is None else category.about.label)

    def part(self, key: str) -> QColor:
        """The colour of a part of the budget, by the key of ``budget_parts``."""
        cause = next((cause for cause in Cause if cause.key == key), None)
        return self.cause(cause) if cause is not None else self.family(palette.PARTS.get(key, "other"))

    @property
    def grid(self) -> QColor:
        """The lines of time behind lanes: half as loud as those between lanes where these are loud."""
        return mixed(self.line, self.window, 0.5) if self.name == "contrast" else self.line

    @property
    def grey(self) -> QColor:
        return self.families["other"]

    def plain(self, value: str) -> QColor:
        return QColor(value)

    def muted(self, color: QColor, share: float) -> QColor:
        """A colour of which only ``share`` is left in grey."""
        return mixed(color, self.grey, share)

    def shaded(self, color: QColor, step: int) -> QColor:
        """``color`` moved ``step`` small steps away from the ground, so that neighbours can be told apart."""
        if not step:
            return color
        factor = 100 + 9 * abs(step)
        return color.lighter(factor) if (step > 0) == self.dark else color.darker(factor)


def luminance(color: QColor) -> float:
    """Relative luminance, 0 to 1, as WCAG defines it."""

    def linear(channel: float) -> float:
        return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF())


def contrast(one: QColor, other: QColor) -> float:
    """Contrast ratio of two opaque colours, 1 to 21."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def text_on(fill: QColor) -> QColor:
    """A text colour that can be read on ``fill``: at least 4.5 to 1, whatever the fill."""
    return next((ink for ink in _INK if contrast(ink, fill) >= MIN_CONTRAST), _INK[-1])


def mixed(color: QColor, ground: QColor, share: float) -> QColor:
    """``color`` painted over ``ground`` with an opacity of ``share``, as an opaque colour."""
    return QColor(
        round(color.red() * share + ground.red() * (1 - share)),
        round(color.green() * share + ground.green() * (1 - share)),
        round(color.blue() * share + ground.blue() * (1 - share)),
    )


def _colors(table: Mapping[str, str], aliases: Mapping[str, str] | None = None) -> dict[str, QColor]:
    colors = {name: QColor(value) for name, value in table.items()}
    for alias, name in (aliases or {}).items():
        colors[alias] = colors[name]
    return colors


DARK = Theme(
    name="dark",
    dark=True,
    window=QColor("#191c22"),
    panel=QColor("#1b1e25"),
    strip=QColor("#20242d"),
    hover=QColor("#262b35"),
    selection=QColor("#29374e"),
    line=QColor("#2a2e38"),
    line_strong=QColor("#3a4150"),
    text=QColor("#e6e8ee"),
    text_secondary=QColor("#9aa2b3"),
    text_faint=QColor("#8a92a4"),
    accent=QColor("#5b9dff"),
    accent_fill=QColor("#2f6fdb"),
    step=QColor(palette.STEP_ON_DARK),
    families=_colors(palette.FAMILIES, palette.FAMILY_ALIASES),
    causes={cause: QColor(value) for cause, value in palette.CAUSES.items()},
    severities={
        Severity.HIGH: QColor("#e4572e"),
        Severity.MEDIUM: QColor("#e9b44c"),
        Severity.LOW: QColor("#5b9dff"),
        Severity.INFO: QColor("#8b94a7"),
    },
    regions=_colors(palette.REGIONS),
    series=tuple(QColor(value) for value in palette.SERIES),
    good=QColor("#4fc3a1"),
    warning=QColor("#e9b44c"),
    error=QColor("#ff6b5e"),
)
LIGHT = replace(
    DARK,
    name="light",
    dark=False,
    window=QColor("#fbfcfd"),
    panel=QColor("#ffffff"),
    strip=QColor("#eef1f6"),
    hover=QColor("#e8edf5"),
    selection=QColor("#d7e4f7"),
    line=QColor("#dfe3ea"),
    line_strong=QColor("#cfd6e2"),
    text=QColor("#1d2330"),
    text_secondary=QColor("#5d667c"),
    text_faint=QColor("#636c81"),
    accent=QColor("#1f5fd0"),
    accent_fill=QColor("#1f5fd0"),
    step=QColor(palette.STEP_ON_LIGHT),
    causes={**DARK.causes, Cause.UNKNOWN: QColor("#8b94a7")},
    severities={**DARK.severities, Severity.LOW: QColor("#1f5fd0")},
    good=QColor("#1b775a"),
    warning=QColor("#8d6100"),
    error=QColor("#ba342a"),
)
CONTRAST = replace(
    DARK,
    name="contrast",
    window=QColor("#000000"),
    panel=QColor("#000000"),
    strip=QColor("#1a1a1a"),
    hover=QColor("#333333"),
    selection=QColor("#1f4a8a"),
    line=QColor("#8a8a8a"),
    line_strong=QColor("#ffffff"),
    text=QColor("#ffffff"),
    text_secondary=QColor("#e6e6e6"),
    text_faint=QColor("#d0d0d0"),
    accent=QColor("#8fc1ff"),
    accent_fill=QColor("#1f5fd0"),
    step=QColor("#4a4a4a"),
    error=QColor("#ff9a90"),
)
_BY_NAME = {"dark": DARK, "light": LIGHT, "contrast": CONTRAST}


class _Notifier(QObject):
    """Carries the signal; ``changed`` hands over the new theme."""

    changed = Signal(object)


_notifier = _Notifier()
changed = _notifier.changed
_letters = 1.0  # of their usual size
_current: Theme = DARK
_mode = "system"


def current() -> Theme:
    """The theme in use."""
    return _current


def mode() -> str:
    """What was asked for: "dark", "light", "contrast" or "system"."""
    return _mode


def apply(app: QApplication, wanted: str = "system") -> Theme:
    """Give the application the theme "dark", "light", "contrast", or that of the system, now and when it changes."""
    global _mode
    first = app.property("stallscope_themed") is None
    _mode = wanted
    hints = app.styleHints()
    scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark, "contrast": Qt.ColorScheme.Dark}
    hints.setColorScheme(scheme.get(wanted, Qt.ColorScheme.Unknown))
    if first:
        app.setProperty("stallscope_themed", True)
        app.setStyle(QStyleFactory.create("Fusion"))
        app.setFont(font())
        hints.colorSchemeChanged.connect(lambda _: _follow_system(app))
    return _switch(app, _wanted_theme(app))


def font(
    pixels: int = BODY_PX, weight: QFont.Weight = QFont.Weight.Normal, *, tabular: bool = False
) -> QFont:
    """The interface font; ``tabular`` gives every digit the same width."""
    chosen = QFont(_family())
    chosen.setPixelSize(max(1, round(pixels * _letters)))
    chosen.setWeight(weight)
    if tabular:
        chosen.setFeature(QFont.Tag("tnum"), 1)
    return chosen


def use_letters(share: float) -> None:
    """Letters of all windows made from now on: ``share`` of their usual size."""
    global _letters
    _letters = share


@cache
def _family() -> str:
    """The bundled font, or the system's where it cannot be loaded."""
    added = [QFontDatabase.addApplicationFont(str(resources.path(f"fonts/{name}"))) for name in BUNDLED_FONTS]
    families = [
        family for number in added if number >= 0 for family in QFontDatabase.applicationFontFamilies(number)
    ]
    return (
        families[0] if families else QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).family()
    )


def _wanted_theme(app: QApplication) -> Theme:
    if _mode in _BY_NAME:
        return _BY_NAME[_mode]
    return LIGHT if app.styleHints().colorScheme() is Qt.ColorScheme.Light else DARK


def _follow_system(app: QApplication) -> None:
    if _mode == "system":
        _switch(app, _wanted_theme(app))


def _switch(app: QApplication, theme: Theme) -> Theme:
    global _current
    _current = theme
    sheet = stylesheet(_sheet_colors(theme))
    if app.styleSheet() != sheet:  # giving it again would style every widget anew
        with without_garbage_collection():  # Qt has a list of all widgets: none may be deleted meanwhile
            app.setPalette(qt_palette(theme))
            app.setStyleSheet(sheet)
        changed.emit(theme)
    return theme


def qt_palette(theme: Theme) -> QPalette:
    """The Qt palette of a theme, for everything that the style sheet does not name."""
    roles = QPalette.ColorRole
    made = QPalette()
    for role, color in (
        (roles.Window, theme.panel),
        (roles.WindowText, theme.text),
        (roles.Base, theme.window),
        (roles.AlternateBase, theme.panel),
        (roles.Text, theme.text),
        (roles.PlaceholderText, theme.text_faint),
        (roles.Button, theme.window),
        (roles.ButtonText, theme.text),
        (roles.BrightText, theme.error),
        (roles.Highlight, theme.selection),
        (roles.HighlightedText, theme.text),
        (roles.Link, theme.accent),
        (roles.LinkVisited, theme.accent),
        (roles.ToolTipBase, theme.strip),
        (roles.ToolTipText, theme.text),
        (roles.Light, theme.hover),
        (roles.Midlight, theme.hover),
        (roles.Mid, theme.line_strong),
        (roles.Dark, theme.line),
        (roles.Shadow, theme.line),
        (roles.Accent, theme.accent),
    ):
        made.setColor(role, color)
    for role in (roles.WindowText, roles.Text, roles.ButtonText):
        made.setColor(QPalette.ColorGroup.Disabled, role, theme.text_faint)
    return made


def _sheet_colors(theme: Theme) -> dict[str, str]:
    names = (
        "window", "panel", "strip", "hover", "selection", "line", "line_strong",
        "text", "text_secondary", "text_faint", "accent", "accent_fill", "error",
    )  # fmt: skip
    return {name: getattr(theme, name).name() for name in names}
