"""What the window remembers between starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from PySide6.QtCore import QByteArray, QSettings

from rules.terms import Thresholds

T = TypeVar("T")
ORGANISATION: Final = "stallscope"
THEMES: Final = {
    "system": "Same as the system",
    "dark": "Dark",
    "light": "Light",
    "contrast": "High contrast",
}
LETTERS: Final = {"90": "Small", "100": "Normal", "115": "Large", "130": "Very large"}  # percent
COLOR_MODES: Final = {
    "family": "Kind of kernel",
    "name": "Name",
    "category": "Category",
    "stream": "Stream",
    "duration": "Duration",
}
MAX_PRICE: Final = 1e6  # of a GPU-hour; more is a slip
WHEELS: Final = {
    "maps": "Zooms, as on a map",
    "perfetto": "Scrolls; Ctrl zooms, as in Perfetto and Nsight Systems",
    "chrome": "Scrolls; Alt zooms, as in Chrome's tracing",
}
FIRST_VIEWS: Final = {"worst": "The worst place", "step": "One step", "all": "The whole run"}


class _Setting(Generic[T]):
    """One value of the settings file, under its own name."""

    def __init__(self, parsed: Callable[[str], T]) -> None:
        self._parsed = parsed
        self._key = ""

    def __set_name__(self, _: type, name: str) -> None:
        self._key = name

    def __get__(self, owner: Preferences, _: type) -> T:
        return self._parsed(str(owner._settings.value(self._key, "")))

    def __set__(self, owner: Preferences, value: T) -> None:
        owner._settings.setValue(self._key, "" if value is None else value)


def _choice(allowed: Mapping[str, str], default: str) -> _Setting[str]:
    return _Setting(lambda text: text if text in allowed else default)


def _on_by_default() -> _Setting[bool]:
    return _Setting(lambda text: text.lower() in ("", "true", "1"))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _price(text: str) -> float | None:
    price = _number(text)
    return price if price is not None and 0.0 < price < MAX_PRICE else None


class Preferences:
    """Typed access to the settings file in the user's settings folder."""

    theme = _choice(THEMES, "system")
    letters = _choice(LETTERS, "100")  # percent of the usual size
    color_mode = _choice(COLOR_MODES, "family")
    first_view = _choice(FIRST_VIEWS, "worst")  # what the timeline shows after loading
    wheel = _choice(WHEELS, "maps")  # the habit of the wheel on the timeline
    animate = _on_by_default()  # whether the timeline flies to places
    keep_recent = _on_by_default()  # whether opened files are remembered
    cost_per_hour = _Setting(_price)  # of one GPU, in the user's currency; None where it is not set
    editor = _Setting(str)  # opens a line: "code --goto {file}:{line}"; empty for the one that is found
    # where folders of recordings made elsewhere lie here, as lines of "RECORDED=HERE"
    folders = _Setting(str)

    def __init__(self) -> None:
        self._settings = QSettings(
            QSettings.Format.IniFormat, QSettings.Scope.UserScope, ORGANISATION, "stallscope"
        )

    @property
    def thresholds(self) -> Thresholds:
        self._settings.beginGroup("thresholds")
        stored = {key: str(self._settings.value(key)) for key in self._settings.childKeys()}
        self._settings.endGroup()
        return Thresholds(
            {key: value for key, text in stored.items() if (value := _number(text)) is not None}
        )

    @thresholds.setter
    def thresholds(self, value: Thresholds) -> None:
        self._settings.remove("thresholds")
        for key, number in value.chosen.items():
            self._settings.setValue(f"thresholds/{key}", number)

    def bytes_of(self, key: str) -> QByteArray | None:
        value = self._settings.value(f"layout/{key}")
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None

    def keep_bytes(self, key: str, value: QByteArray) -> None:
        self._settings.setValue(f"layout/{key}", value)

    def forget_layout(self) -> None:
        self._settings.remove("layout")

    def flush(self) -> None:
        self._settings.sync()
