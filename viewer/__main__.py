"""``python -m viewer``: the same as the command ``stallscope``."""

from __future__ import annotations

import gc
import os
import sys

_THREADS_OF_ALGEBRA = "OPENBLAS_NUM_THREADS"


def main() -> int:
    """Run the command line."""
    if getattr(sys, "frozen", False):
        from multiprocessing import freeze_support  # a worker of a pool is this program, started again

        freeze_support()
    try:
        from viewer.terminal import memory_limit, streams

        streams.prepare()
        if memory_limit.address_space() < memory_limit.MIN_ADDRESS_SPACE:
            return _refuse_to_start()
        from viewer.cli import main as command_line
        from viewer.desktop.ending import end_is_near

        code = command_line(begin=_begin)
        end_is_near()
        if "PySide6" not in sys.modules:
            gc.freeze()  # at its end Python would look for garbage in all that was loaded: a sixth of a small diagnosis
        return code
    except KeyboardInterrupt:  # while it is loaded
        from viewer.terminal.exit_codes import INTERRUPTED

        return INTERRUPTED
    except (ImportError, MemoryError) as error:
        if not memory_limit.is_shortage(error):
            raise
        return _refuse_to_start()


def _refuse_to_start() -> int:
    from viewer.terminal.exit_codes import BAD_INPUT
    from viewer.terminal.memory_limit import MIN_ADDRESS_SPACE, address_space

    print(
        f"stallscope: A limit leaves the program {address_space() >> 20} MB of memory, which is too little to start: "
        f"it needs {MIN_ADDRESS_SPACE >> 20} MB. Raise it: ulimit -v unlimited; ulimit -d unlimited",
        file=sys.stderr,
    )
    return BAD_INPUT


def _begin() -> None:
    """Start what reads, and meanwhile load what counts."""
    from viewer.loading.apart import start_ahead

    start_ahead(sys.argv[1:])
    _load_algebra()


def _load_algebra() -> None:
    """Load numpy, whose library for matrices starts a thread a core, which nothing here has work for."""
    if _THREADS_OF_ALGEBRA in os.environ:
        return
    os.environ[_THREADS_OF_ALGEBRA] = "1"
    import numpy  # noqa: F401

    # What is started from here, such as a program to record, may want them.
    del os.environ[_THREADS_OF_ALGEBRA]


if __name__ == "__main__":
    sys.exit(main())
