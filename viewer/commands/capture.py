"""``stallscope capture``: records a program and diagnoses the recording."""

from __future__ import annotations

from typing import Any

from viewer.capture.command_line import add_parser
from viewer.commands.diagnose import diagnose_files


def declare(commands: Any) -> None:
    """Add the command's parser."""
    add_parser(commands, diagnose_files)
