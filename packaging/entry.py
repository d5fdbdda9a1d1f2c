"""What the frozen program runs first."""

from __future__ import annotations

import sys


def main() -> int:
    """The command line, or one of the processes that read large recordings.

    Their words are those of ``parsers.chrome.decode.second_process`` and ``viewer.loading.process``.
    """
    if sys.argv[1:2] == ["--second-process"]:
        from parsers.chrome.decode.second_process import serve

        serve(sys.argv[2:])
        return 0
    if sys.argv[1:2] == ["--loading-process"]:
        from viewer.loading.serve import main as serve_window

        return serve_window()
    from viewer.__main__ import main as program

    return program()


if __name__ == "__main__":
    sys.exit(main())
