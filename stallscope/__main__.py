"""The commands ``stallscope`` and ``stallscope-gui``, and ``python -m stallscope``."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # as viewer.terminal.exit_codes has it, which is not loaded yet


def main() -> int:
    """Run the command line; without a command the files open in the window."""
    try:
        from viewer.__main__ import main as command_line

        return command_line()
    except KeyboardInterrupt:  # before there is anything that could end tidily
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
