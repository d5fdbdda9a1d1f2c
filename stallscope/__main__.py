"""The commands ``stallscope`` and ``stallscope-gui``, and ``python -m stallscope``."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; without a command the files open in the window."""
    from viewer.__main__ import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
