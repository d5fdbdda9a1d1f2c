"""What the frozen program runs first."""

from __future__ import annotations

import sys


def main() -> int:
    """The command line, or a helper: the words are those of ``helper_process`` and ``process_tree``."""
    if sys.argv[1:2] == ["--helper-process"]:
        from parsers.helper_process import serve

        serve(sys.argv[2], int(sys.argv[3]))
    if sys.argv[1:2] == ["--recording-watcher"]:
        from viewer.capture.process_tree import watch

        watch(sys.argv[2])
        return 0
    from viewer.__main__ import main as program

    return program()


if __name__ == "__main__":
    sys.exit(main())
