"""Answers the search field: hits of actions, findings, tabs, lanes and event names; walks found events."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from PySide6.QtCore import QObject

from parsers.model import Progress
from parsers.model.units import how_many
from viewer.documents.document import Document
from viewer.panels.dock import BottomPanels
from viewer.statistics.event_search import (
    NameMatch,
    Walk,
    events_named,
    match_score,
    matching_names,
    similarity,
)
from viewer.timeline.kinds.base import lane_words
from viewer.window.commands import Commands, keys_text
from viewer.window.palette import Hit, Mode, SearchField

MAX_NAMES = 60
_SLOT = "search"


class Searching(QObject):
    """Connects a search field with a document and the window's commands."""

    def __init__(
        self,
        field: SearchField,
        document: Document,
        show_lane: Callable[[int], object],
        view_start: Callable[[], int],
        panels: BottomPanels,
        tell: Callable[[str, str], object],
    ) -> None:
        super().__init__(field)
        self._field, self._document = field, document
        self._panels, self._tell = panels, tell
        self._show_lane, self._view_start = show_lane, view_start
        self.commands: Commands | None = None
        self.walk: Walk | None = None
        field.asked.connect(self.answer)
        field.walk_wanted.connect(self.move)
        document.trace_changed.connect(self._forget)

    def _forget(self, _: object) -> None:
        self.walk = None
        self._document.jobs.forget(_SLOT)  # names and events of another recording
        if not self._field.hasFocus():
            self._field.clear()
        self._field.say("")
        self._field.ask_again()

    def answer(self, text: str, mode: Mode, regex: bool) -> None:
        """Show hits for a text; event names are searched off the GUI thread."""
        query = text.strip()
        at_once = (
            []
            if mode is Mode.EVENTS
            else self._actions(query) + self._findings(query) + self._tabs(query) + self._lanes(query)
        )
        trace = self._document.trace
        if trace is None or not query:
            self._document.jobs.forget(_SLOT)
            self._show(at_once, None, mode)
            return

        def work(progress: Progress) -> NameMatch:
            return matching_names(trace, query, regex=regex, progress=progress)

        def failed(error: Exception) -> None:
            if isinstance(error, re.error):
                self._field.show_hits([], f"Invalid regular expression: {error}")
            else:
                raise error

        self._document.jobs.ask(_SLOT, work, lambda match: self._show(at_once, match, mode), failed)

    def _show(self, hits: list[tuple[float, Hit]], match: NameMatch | None, mode: Mode) -> None:
        rows = list(hits)
        note = "Enter to run, arrows to choose, Esc to close"
        if match is not None:
            rows += self._names(match)
            if match.names:
                names = how_many(len(match.names), "name")
                events = how_many(match.events, "event")
                note = f"{events} of {names}.  F3 and Shift+F3 go from one to the next"
            elif match.similar:
                note = "No matching events, but some have similar names"
            else:
                note = "No matching events" if rows or mode is Mode.EVENTS else "Nothing matches"
        elif mode is Mode.EVENTS:
            note = "Type a part of an event's name"
        rows.sort(key=lambda row: -row[0])
        self._field.show_hits([hit for _, hit in rows], note)

    def _actions(self, query: str) -> list[tuple[float, Hit]]:
        found = []
        for command in self.commands.all if self.commands is not None else ():
            action = self.commands[command.id]  # type: ignore[index]
            score = _score(query, command.text)
            if score > 0 and action.isEnabled():
                title = command.text.rstrip(" .")
                found.append((score + 8, Hit("action", title, keys_text(action), action.trigger)))
        return found

    def _findings(self, query: str) -> list[tuple[float, Hit]]:
        from rules.verdict.promises import gain

        diagnosis = self._document.diagnosis
        found = []
        for finding in diagnosis.findings if diagnosis is not None else ():
            score = _score(query, f"{finding.title} {finding.category.value} {finding.culprit.text}")
            if score > 0:
                run = _bound(self._document.select_finding, finding)
                found.append(
                    (
                        score + 12,
                        Hit("finding", finding.title, gain(finding, self._document.plan, short=True), run),
                    )
                )
        return found

    def _tabs(self, query: str) -> list[tuple[float, Hit]]:
        """Those without data say what is missing."""
        if self._document.trace is None or not query:
            return []
        shown = self._panels.titles()
        found = []
        for panel in self._panels.panels:
            score = _score(query, panel.title)
            if score <= 0 or not (panel.title in shown or panel.lacks):
                continue
            if panel.title in shown:
                hit = Hit("tab", panel.title, "", _bound(self._panels.enter, panel.title))
            else:
                said = f"The tab {panel.title} is empty.", panel.lacks
                hit = Hit("tab", panel.title, "not recorded", _bound(self._tell, *said))
            found.append((score + 4, hit))
        return found

    def _lanes(self, query: str) -> list[tuple[float, Hit]]:
        trace = self._document.trace
        if trace is None or not query:
            return []
        found = []
        for index, lane in enumerate(trace.lanes):
            called = lane_words(lane, trace)
            score = max(match_score(query.lower(), each) for each in (called, lane.name))
            if score > 0:
                where = "" if lane.rank is None else f"rank {lane.rank}"
                found.append((score, Hit("lane", called, where, _bound(self._show_lane, index))))
        return sorted(found, key=lambda each: -each[0])[:20]

    def _names(self, match: NameMatch) -> list[tuple[float, Hit]]:
        trace = self._document.trace
        if trace is None:
            return []
        rows: list[tuple[float, Hit]] = []
        if len(match.names) > 1:
            title = f"All {match.events:,} events that match"
            rows.append((90.0, Hit("events", title, "", _bound(self.start_walk, match.names, title))))
        for place, (name, count) in enumerate(zip(match.names[:MAX_NAMES], match.counts, strict=False)):
            text = trace.strings[name]
            hit = Hit("event", text, f"{count:,}", _bound(self.start_walk, (name,), text))
            rows.append((80.0 - place / 100, hit))
        for place, name in enumerate(match.similar):
            text = trace.strings[name]
            rows.append((-1.0 - place, Hit("similar", text, "", _bound(self.start_walk, (name,), text))))
        return rows

    def start_walk(self, names: Sequence[int], title: str) -> None:
        """Select the first event with one of these names that begins in the view, or else the next after it."""
        trace = self._document.trace
        if trace is None:
            return
        events = events_named(trace, names)
        if len(events):
            self.walk = Walk(trace, events, title)
            self._document.show_event(self.walk.start_at(self._view_start()))
            self._field.say(self.walk.text)

    def move(self, by: int) -> None:
        """The next or the previous event of the walk."""
        if self.walk is not None:
            self._document.show_event(self.walk.move(by))
            self._field.say(self.walk.text)


def _score(query: str, text: str) -> float:
    """How well something that is not counted matches; what is only similar comes after everything else."""
    return match_score(query.lower(), text) or similarity(query.lower(), text) / 100


def _bound(function: Callable[..., object], *values: object) -> Callable[[], object]:
    return lambda: function(*values)
