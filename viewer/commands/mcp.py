"""``stallscope mcp``: lets an assistant ask recordings, by the Model Context Protocol on standard input and output."""

from __future__ import annotations

import argparse
from typing import Any

from parsers.model import TraceError
from viewer.terminal.console import inputs
from viewer.terminal.exit_codes import DONE


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "mcp",
        help="serve recordings to an AI assistant (Model Context Protocol)",
        description="Serves recordings to an assistant on standard input and output. Nothing is written, and nothing "
        "but the named files, and files in the named folders, can be opened.",
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="recordings, or folders that contain them")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until the assistant hangs up; the exit code."""
    from viewer.remote.addresses import bring_here

    paths = inputs(options.paths)
    bring_here(paths)
    for path in paths:
        if not path.exists():
            raise TraceError(path, "There is no such file or folder.", "Name what the assistant may open.")
    try:
        import mcp  # noqa: F401
    except ImportError:
        raise TraceError(
            paths[0],
            "The protocol for assistants needs a library that is not installed.",
            "Install it with: pip install 'stallscope[assistant]'.",
        ) from None
    from viewer.assistant.recordings import Recordings
    from viewer.assistant.server import serve

    serve(Recordings(paths))
    return DONE
