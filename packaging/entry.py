"""What the frozen program runs first."""

from __future__ import annotations

import sys


def main() -> int:
    """The command line, or a helper process, whose word is that of ``parsers.helper_process``."""
    if sys.argv[1:2] == ["--helper-process"]:
        from parsers.helper_process import serve

        serve(sys.argv[2], int(sys.argv[3]))
    from viewer.__main__ import main as program

    return program()


if __name__ == "__main__":
    sys.exit(main())
