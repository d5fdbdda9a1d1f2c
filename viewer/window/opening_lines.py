"""Lines of the user's own code: the text around them in a finding, and the editor that opens them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rules.terms.culprit import SourceLine
from viewer.desktop.editors import NoEditor, open_line
from viewer.desktop.source_files import excerpt, folders_of, found_here
from viewer.documents.document import Document
from viewer.kept.preferences import Preferences


class SourceLines:
    """Looks below the folders of the preferences, beside the recording, and in the current folder."""

    def __init__(self, document: Document, preferences: Preferences, say: Callable[[str, str], None]) -> None:
        self._document, self._preferences, self._say = document, preferences, say
        document.line_wanted.connect(self.open)

    def file_of(self, line: SourceLine) -> Path:
        """Where the file of a line lies here."""
        beside = [*(path.resolve().parent for path in self._document.paths), Path.cwd()]
        return found_here(line.file, folders_of(self._preferences.folders), beside)

    def text_around(self, line: SourceLine) -> str:
        """The numbered lines around it; empty where the file is not here."""
        return excerpt(self.file_of(line), line.line)

    def open(self, line: SourceLine) -> None:
        """Open it in the editor, or say why not."""
        try:
            open_line(self.file_of(line), line.line, self._preferences.editor)
        except NoEditor as error:
            problem, _, hint = str(error).partition(". ")
            self._say(f"{problem.rstrip('.')}.", hint)
