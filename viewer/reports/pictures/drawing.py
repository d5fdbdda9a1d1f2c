"""An SVG picture as it grows: rectangles, lines and texts, with names escaped."""

from __future__ import annotations

import html
from dataclasses import field

from parsers.model.late import dataclass
from viewer.appearance.plain_text import one_line

INK = "currentColor"  # follows the page, light or dark
LETTER = 6.1  # pixels that a letter of 11 pixels takes on average


@dataclass(slots=True)
class Drawing:
    """Pixels from the upper left corner; ``title`` is what a screen reader says."""

    width: float
    height: float
    title: str
    ink: str = INK
    _parts: list[str] = field(default_factory=list)

    def box(
        self, x: float, y: float, width: float, height: float, color: str, tip: str = "", opacity: float = 1.0
    ) -> None:
        """A filled rectangle; ``tip`` appears under the mouse."""
        inside = f"<title>{_escaped(tip)}</title>" if tip else ""
        self._parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.0):.2f}" height="{height:.2f}" '
            f'fill="{color}" fill-opacity="{opacity:g}">{inside}</rect>'
        )

    def hatched(self, x: float, y: float, width: float, height: float, color: str, tip: str = "") -> None:
        """A rectangle that stands for time in which nothing happens: a tint over a foot line."""
        inside = f"<title>{_escaped(tip)}</title>" if tip else ""
        self._parts.append(
            f'<g fill="{color}">{inside}<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill-opacity="0.25"/><rect x="{x:.2f}" y="{y + height - 3:.2f}" width="{width:.2f}" height="3"/></g>'
        )

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        color: str = "",
        dash: str = "",
        opacity: float = 1.0,
    ) -> None:
        """A thin line; of the ink's colour where none is given."""
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<line x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}" stroke="{color or self.ink}" '
            f'stroke-width="1" stroke-opacity="{opacity:g}"{dashed}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        color: str = "",
        room: float | None = None,
        size: int = 11,
    ) -> None:
        """A text on its baseline, cut to ``room`` pixels where that is given; nothing where not three letters fit."""
        if room is not None:
            most = int(room / LETTER * 11 / size)
            if most < 3:
                return
            text = text if len(text) <= most else f"{text[: most - 1]}…"
        self._parts.append(
            f'<text x="{x:.2f}" y="{y:.2f}" font-size="{size}" text-anchor="{anchor}" fill="{color or self.ink}">'
            f"{_escaped(text)}</text>"
        )

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:.0f} {self.height:.0f}" '
            f'width="{self.width:.0f}" height="{self.height:.0f}" role="img" aria-label="{_escaped(self.title)}" '
            f'font-family="sans-serif">{"".join(self._parts)}</svg>'
        )


def _escaped(text: str) -> str:
    return html.escape(one_line(text).encode("utf-8", "replace").decode("utf-8"), quote=True)
