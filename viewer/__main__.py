"""``python -m viewer``: the same as the command ``stallscope``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line."""
    if getattr(sys, "frozen", False):
        from multiprocessing import freeze_support  # a worker of a pool is this program, started again

        freeze_support()
    try:
        from viewer.cli import main as command_line

        return command_line()
    except KeyboardInterrupt:  # while it is loaded
        from viewer.terminal.exit_codes import INTERRUPTED

        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
