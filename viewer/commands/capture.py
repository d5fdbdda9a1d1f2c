"""``stallscope capture``: records a program, diagnoses the recording, and says what became of what was promised."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers.model import TraceError
from viewer.commands.diagnose import diagnose_files
from viewer.terminal.capture_command import add_parser
from viewer.terminal.console import complain

if TYPE_CHECKING:
    from rules import Diagnosis
    from rules.analysis.analysis import Analysis


def declare(commands: Any) -> None:
    """Add the command's parser."""
    add_parser(commands, diagnose_and_keep)


def diagnose_and_keep(paths: Sequence[Path], journal: str) -> int:
    """Print the diagnosis, then what the journal says; a journal that cannot be written costs nothing but itself."""

    def keep(analysis: Analysis, diagnosis: Diagnosis) -> None:
        from viewer.appearance.plain_text import one_line
        from viewer.capture.trials.journal import keep_in_journal, run_that_made

        run = run_that_made(paths)
        if run is None:
            return
        try:
            told = keep_in_journal(run, analysis, diagnosis, journal)
        except TraceError as error:
            complain(error)
            return
        if told is not None:
            print(f"\nSince the recording of {told.since} ({one_line(told.program)}):")
            for line in told.lines:
                print(f"  {one_line(line)}")

    return diagnose_files(paths, keep)
