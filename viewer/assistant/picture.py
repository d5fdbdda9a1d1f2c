"""A picture of a place of a recording, painted by a process of its own that needs no display."""

from __future__ import annotations

import json
import queue
from collections.abc import Sequence
from pathlib import Path

from parsers.helper_process import HelperProcess
from viewer.assistant.recordings import Refused

PATIENCE_S = 120.0
PAINTER = __name__.replace("assistant.picture", "screenshot")  # wherever this package lies


def picture(paths: Sequence[Path], start_ns: int, end_ns: int) -> bytes:
    """The window's timeline around [start, end) as PNG. Raises ``Refused`` where it cannot be painted."""
    margin = max((end_ns - start_ns) // 2, 1_000)
    wanted = {
        "paths": [str(path) for path in paths],
        "span": f"{max(start_ns - margin, 0)}ns-{end_ns + margin}ns",
    }
    try:
        helper = HelperProcess(
            PAINTER, json.dumps(wanted).encode(), pieces=lambda pipe: [pipe.read()], own_group=True
        )
    except OSError as error:
        raise Refused(f"The picture could not be painted: {error.strerror or error}.") from None
    try:
        painted = helper.next(PATIENCE_S)
    except queue.Empty:
        painted = None
    helper.end()
    if not painted:
        raise Refused("The picture could not be painted. The places say where it is.")
    return painted
