"""Lines of the user's own code: the text around them in a finding, and the editor that opens them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from parsers.model.units import percent
from rules.source_lines import line_shares
from rules.terms import SourceLine
from viewer.desktop.editors import NoEditor, open_line
from viewer.desktop.source_files import excerpt, folders_of, found_here
from viewer.documents.document import Document
from viewer.user_data.preferences import Preferences

OF_LINES = (
    "The percentages say for how much of the analysed time a thread was at that line, or in what it calls."
)
OF_FUNCTIONS = (
    "The percentages say for how much of the analysed time the function that begins there was running."
)


class SourceLines:
    """Looks below the folders of the preferences, beside the recording, and in the current folder."""

    def __init__(self, document: Document, preferences: Preferences, say: Callable[[str, str], None]) -> None:
        self._document, self._preferences, self._say = document, preferences, say
        document.line_wanted.connect(self.open)

    def file_of(self, line: SourceLine) -> Path:
        beside = [*(path.resolve().parent for path in self._document.paths), Path.cwd()]
        return found_here(line.file, folders_of(self._preferences.folders), beside)

    def text_around(self, line: SourceLine) -> tuple[str, str]:
        """The numbered lines around it, and what the shares beside them are of; empty where there are none."""
        file, analysis = self.file_of(line), self._document.analysis
        shares = line_shares(analysis, line.file) if analysis is not None else {}
        text = excerpt(file, line.line, {each: percent(share) for each, share in shares.items()})
        if text == excerpt(file, line.line):
            return text, ""
        return text, OF_LINES if line.is_call else OF_FUNCTIONS

    def open(self, line: SourceLine) -> None:
        try:
            open_line(self.file_of(line), line.line, self._preferences.editor)
        except NoEditor as error:
            problem, _, hint = str(error).partition(". ")
            self._say(f"{problem.rstrip('.')}.", hint)
