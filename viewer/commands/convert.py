"""``stallscope convert``: writes the events of a recording in another format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from viewer.terminal.console import not_written, recording, terminal_progress
from viewer.terminal.exit_codes import DONE


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("convert", help="write the events in another format")
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--to", choices=["chrome", "parquet", "csv"], required=True)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Convert; the exit code."""
    from viewer.reports.conversion import write

    progress = terminal_progress()
    trace = recording([options.path], progress.part(0.0, 0.8))
    try:
        write(trace, options.to, options.out, progress.part(0.8, 1.0))
    except OSError as error:
        raise not_written(options.out, error) from error
    progress.step(1.0, "")
    print(options.out)
    return DONE
