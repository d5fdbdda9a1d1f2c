"""``stallscope reduce``: reduces the files of ranks to summaries, for a Stallscope elsewhere that asks for them."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from parsers.model import TraceError
from viewer.terminal.console import inputs, terminal_progress
from viewer.terminal.exit_codes import DONE
from viewer.terminal.option_values import add_thresholds, count, thresholds_of

if TYPE_CHECKING:
    from viewer.loading.ranks.summaries import Reduced


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "reduce",
        help="reduce ranks to summaries, for a Stallscope on another machine",
        description="Writes the summary of each file to standard output as it is made. `stallscope diagnose "
        "ssh://HOST/folder` runs it on the other machine, so that summaries travel in place of recordings.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="one file per rank")
    parser.add_argument(
        "--workers", type=count, default=0, metavar="N", help="number of processes (default: one per core)"
    )
    parser.add_argument(
        "--below", default="", metavar="FOLDER", help="name each file by its path relative to this folder"
    )
    add_thresholds(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Reduce; the exit code."""
    from parsers.files.fetched import address_of
    from viewer.loading.ranks.far_ranks import framed
    from viewer.loading.ranks.pool import processes, reduce_here
    from viewer.loading.ranks.summaries import Wanted
    from viewer.remote.addresses import bring_here

    if sys.stdout.isatty():
        raise TraceError(
            "standard output", "Summaries can't be printed in a terminal.", "Redirect them to a file or pipe."
        )
    chosen = tuple(sorted(thresholds_of(options).chosen.items()))
    found = inputs(options.paths)
    bring_here(found)
    paths = [str(path) for path in found]

    def answer(number: int, reduced: Reduced) -> None:
        sys.stdout.buffer.write(framed(options.paths[number], reduced))
        sys.stdout.buffer.flush()

    shown = [
        os.path.relpath(path, options.below) if options.below else address_of(path) or str(path)
        for path in found
    ]
    wanted = [Wanted((path,), name, chosen) for path, name in zip(paths, shown, strict=True)]
    reduce_here(wanted, options.workers or processes(), answer, terminal_progress())
    return DONE
