"""``stallscope convert``: writes the events of a recording in another format."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from viewer.terminal.console import NamesOutput, complain, not_written, recording, terminal_progress
from viewer.terminal.exit_codes import DONE


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("convert", help="write the events in another format")
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--to", choices=["chrome", "parquet", "csv"], required=True)
    parser.add_argument(
        "out",
        action=NamesOutput,
        metavar="OUT",
        help="for several ranks as chrome: a folder or .zip, with one file per rank",
    )
    parser.add_argument(
        "--table",
        choices=["events", "kernels", "counters", "allocations", "results"],
        default="",
        help="what of it goes into CSV or Parquet (default: the first of these that it holds)",
    )
    parser.add_argument(
        "--all-arguments",
        action="store_true",
        help="chrome only: also write arguments that no analysis reads (slower)",
    )
    parser.set_defaults(run=run, replaces=_is_former_result)


def _is_former_result(path: Path) -> bool:
    """Before it is read; what is written says it once more of its own format."""
    from viewer.reports.conversion.chrome import is_export

    return is_export(path)


def run(options: argparse.Namespace) -> int:
    """Convert; what is left out is said on the standard error output."""
    from viewer.reports.conversion.chrome import write_chrome
    from viewer.reports.conversion.tables import write_table

    progress = terminal_progress()
    trace = recording([options.path], progress.part(0.0, 0.8))
    try:
        if options.to == "chrome":
            left_out = write_chrome(trace, options.out, progress.part(0.8, 1.0), options.all_arguments)
        else:
            left_out = write_table(trace, options.table, options.to, options.out, progress.part(0.8, 1.0))
    except OSError as error:
        raise not_written(options.out, error) from error
    progress.step(1.0, "")
    print(options.out)
    if left_out:
        complain(f"left out: {'; '.join(left_out)}")
    return DONE
