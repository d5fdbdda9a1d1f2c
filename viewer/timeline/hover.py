"""The card that appears beside a resting cursor: plain text about the event, gap, counter or lane under it."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QWidget

from parsers.model.names.kernels import kernel_name
from parsers.model.units import capital, duration, size
from rules.analysis.idle.causes import Cause
from viewer.appearance import theme
from viewer.appearance.widgets import vertical
from viewer.timeline.geometry.scale import exact
from viewer.timeline.geometry.tracks import Track
from viewer.timeline.kinds.base import lane_words, shown_value, style_of
from viewer.timeline.scene import Scene
from viewer.timeline.state import TimelineState

DELAY_MS = 250
WIDEST = 440
MAX_LENGTH = 360


class HoverCard(QWidget):
    """A small window without frame; shows text exactly as it is."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.ToolTip | Qt.WindowType.FramelessWindowHint)
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground, False)
        layout = vertical(self, (10, 8, 10, 8), 3)
        self._title, self._body = QLabel(), QLabel()
        self._title.setFont(theme.font(theme.BODY_PX, QFont.Weight.DemiBold))
        for label in (self._title, self._body):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            label.setMaximumWidth(WIDEST)
            layout.addWidget(label)
        self._body.setProperty("role", "secondary")

    @property
    def text(self) -> str:
        return f"{self._title.text()}\n{self._body.text()}"

    def tell(self, title: str, body: str, at: QPoint) -> None:
        """Show two paragraphs beside a point of the screen."""
        for label, text in ((self._title, title), (self._body, body)):
            shown = text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + " …"
            label.setText(_breakable(shown))
            label.setVisible(bool(text))
            label.setMinimumWidth(
                min(label.fontMetrics().horizontalAdvance(max(shown.split("\n"), key=len)) + 4, WIDEST)
            )
        self.adjustSize()
        place = at + QPoint(14, 18)
        screen = QGuiApplication.screenAt(at)
        if screen is not None:
            area = screen.availableGeometry()
            if place.x() + self.width() > area.right():
                place.setX(max(at.x() - self.width() - 10, area.left()))
            if place.y() + self.height() > area.bottom():
                place.setY(max(at.y() - self.height() - 10, area.top()))
        self.move(place)
        self.show()

    def paintEvent(self, _: QPaintEvent) -> None:
        painter = QPainter(self)
        colors = theme.current()
        painter.fillRect(self.rect(), colors.strip)
        painter.setPen(QPen(QColor(colors.line_strong), 1))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))


def _breakable(text: str) -> str:
    """Lets long names without spaces wrap, at brackets and colons."""
    for mark in ("::", "<", ",", "_"):
        text = text.replace(mark, mark + "\u200b")
    return text


def event_text(scene: Scene, event: int, origin: float) -> tuple[str, str]:
    """Title and body of an event's card."""
    trace = scene.trace
    start, end = int(trace.events.start[event]), int(trace.events.end[event])
    lane = trace.lanes[int(trace.events.lane[event])]
    lines = [f"{duration(end - start)}   at {exact(start - origin, max((end - start) / 100, 1))}"]
    name, style = trace.name(event), style_of(lane.kind)
    lines[0] += f"   {style.told(name)}".rstrip()
    lines.append(lane_words(lane, trace))
    title = style.shown(name)
    if title != name:
        lines += ["", name]
    return title, "\n".join(lines).strip()


def gap_text(scene: Scene, row: int) -> tuple[str, str]:
    """Title and body of a gap's card."""
    assert scene.idle is not None
    cause = Cause(int(scene.idle.cause[row]))
    culprit, label = scene.idle.culprit_of(row).text, scene.idle.label(cause)
    taken = duration(int(scene.idle.end[row] - scene.idle.start[row]))
    lines = [f"{taken} idle" + (f", because of {culprit}" if culprit and culprit != label else "")]
    following = int(scene.idle.next_operation[row])
    if following >= 0:
        lines.append(f"then {kernel_name(scene.trace.name(following))}")
    return capital(label), "\n".join(lines)


def counter_text(scene: Scene, track: Track, when: float) -> tuple[str, str]:
    """Title and body of a counter's card; empty for a track of anything else."""
    if (stack := scene.stacks.get(track.counter)) is not None:
        held = {kind: count for kind, count in stack.at(round(when)).items() if count}
        kinds = "\n".join(f"{kind} {size(count)}" for kind, count in reversed(held.items()))
        return f"{size(sum(held.values()))} allocated", kinds
    counter = scene.counter_of(track)
    return ("", "") if counter is None else (counter.name, shown_value(counter.at(round(when)), counter.unit))


def card_text(state: TimelineState, event: int, gap: int, track: Track, when: float) -> tuple[str, str]:
    """What to say about the thing under the cursor; empty where there is nothing."""
    scene = state.scene
    if scene is None:
        return "", ""
    if event >= 0:
        return event_text(scene, event, state.origin)
    if gap >= 0 and scene.idle is not None:
        return gap_text(scene, gap)
    return counter_text(scene, track, when)
