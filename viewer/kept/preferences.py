"""What the window remembers between starts."""

from __future__ import annotations

from typing import Final

from PySide6.QtCore import QByteArray, QSettings

from rules.terms.thresholds import Thresholds

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


class Preferences:
    """Typed access to the settings file in the user's settings folder."""

    def __init__(self) -> None:
        self._settings = QSettings(
            QSettings.Format.IniFormat, QSettings.Scope.UserScope, ORGANISATION, "stallscope"
        )

    def _choice(self, key: str, allowed: dict[str, str], default: str) -> str:
        value = str(self._settings.value(key, default))
        return value if value in allowed else default

    def _flag(self, key: str, default: bool) -> bool:
        return str(self._settings.value(key, default)).lower() in ("true", "1")

    @property
    def theme(self) -> str:
        """ "system", "dark", "light" or "contrast"."""
        return self._choice("theme", THEMES, "system")

    @theme.setter
    def theme(self, value: str) -> None:
        self._settings.setValue("theme", value)

    @property
    def letters(self) -> str:
        """The size of letters, percent of the usual one."""
        return self._choice("letters", LETTERS, "100")

    @letters.setter
    def letters(self, value: str) -> None:
        self._settings.setValue("letters", value)

    @property
    def color_mode(self) -> str:
        """What the colours of events tell."""
        return self._choice("color_mode", COLOR_MODES, "family")

    @color_mode.setter
    def color_mode(self, value: str) -> None:
        self._settings.setValue("color_mode", value)

    @property
    def first_view(self) -> str:
        """What the timeline shows after loading: "worst", "step" or "all"."""
        return self._choice("first_view", FIRST_VIEWS, "worst")

    @first_view.setter
    def first_view(self, value: str) -> None:
        self._settings.setValue("first_view", value)

    @property
    def wheel(self) -> str:
        """The habit of the wheel on the timeline: "maps", "perfetto" or "chrome"."""
        return self._choice("wheel", WHEELS, "maps")

    @wheel.setter
    def wheel(self, value: str) -> None:
        self._settings.setValue("wheel", value)

    @property
    def animate(self) -> bool:
        """Whether the timeline flies to places."""
        return self._flag("animate", True)

    @animate.setter
    def animate(self, value: bool) -> None:
        self._settings.setValue("animate", value)

    @property
    def keep_recent(self) -> bool:
        """Whether opened files are remembered."""
        return self._flag("keep_recent", True)

    @keep_recent.setter
    def keep_recent(self, value: bool) -> None:
        self._settings.setValue("keep_recent", value)

    @property
    def cost_per_hour(self) -> float | None:
        """What one GPU costs for an hour, in the user's currency; None where it is not set."""
        price = _number(str(self._settings.value("cost_per_hour", "")))
        return price if price is not None and 0.0 < price < MAX_PRICE else None

    @cost_per_hour.setter
    def cost_per_hour(self, value: float | None) -> None:
        self._settings.setValue("cost_per_hour", "" if value is None else value)

    @property
    def editor(self) -> str:
        """The command that opens a line, such as "code --goto {file}:{line}"; empty for the one that is found."""
        return str(self._settings.value("editor", ""))

    @editor.setter
    def editor(self, value: str) -> None:
        self._settings.setValue("editor", value)

    @property
    def folders(self) -> str:
        """Where folders of recordings made elsewhere lie here, as lines of "RECORDED=HERE"."""
        return str(self._settings.value("folders", ""))

    @folders.setter
    def folders(self, value: str) -> None:
        self._settings.setValue("folders", value)

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
        """A stored layout; None when there is none."""
        value = self._settings.value(f"layout/{key}")
        return value if isinstance(value, QByteArray) and not value.isEmpty() else None

    def keep_bytes(self, key: str, value: QByteArray) -> None:
        self._settings.setValue(f"layout/{key}", value)

    def forget_layout(self) -> None:
        self._settings.remove("layout")

    def flush(self) -> None:
        self._settings.sync()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
