"""``python -m tests.benchmarks.starting``: how long a window takes from the start of the process to its first picture.

It is started as the command does it. The same for an interpreter that imports only Qt and numpy, without which no
window of this kind works.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

STARTS = 7
_WINDOW = """
import os
from viewer import app, cli
opened = app.open_window
def picture(*about):
    opened(*about).grab()
    os._exit(0)
app.open_window = picture
cli.main(["--separate"])
"""
_FLOOR = "import numpy, PySide6.QtWidgets"


def seconds(program: str) -> float:
    """Median wall clock time of some runs of a program in a process of its own."""
    environment = {"QT_QPA_PLATFORM": "offscreen"} | os.environ | {"QT_LOGGING_RULES": "*=false"}
    taken = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], check=True, env=environment, capture_output=True)
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def report() -> None:
    """Print one line."""
    floor, window = seconds(_FLOOR), seconds(_WINDOW)
    print(
        f"window without a file, from the start of the process to its first picture: {window:.2f} s, "
        f"of which Python, Qt and numpy {floor:.2f} s"
    )


if __name__ == "__main__":
    report()
