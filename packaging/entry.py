"""What the frozen program runs first."""

from __future__ import annotations

import sys


def main() -> int:
    """The command line, or a share of the reading of a large trace (``parsers.chrome.second_process``)."""
    if sys.argv[1:2] == ["--second-process"]:
        from parsers.chrome.second_process import serve

        serve(sys.argv[2:])
        return 0
    from viewer.__main__ import main as program

    return program()


if __name__ == "__main__":
    sys.exit(main())
