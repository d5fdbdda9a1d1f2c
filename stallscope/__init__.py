"""Opens GPU profiler recordings in Python: tables as pandas frames, the diagnosis, questions in SQL, comparisons.

    import stallscope

    run = stallscope.open("trace.json.gz")
    run.kernels.groupby("family", observed=True)["duration_ns"].sum()

What is named here, and what ``docs/library.md`` shows, stays; everything below ``stallscope.viewer``, ``.rules`` and
``.parsers`` may change with any version.
"""

from __future__ import annotations

# the command starts by importing this package: whoever interrupts it here sees a traceback
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import TypeAlias

    from parsers.model import TraceError as RecordingError
    from stallscope.comparison import Comparison
    from stallscope.run import Run
    from viewer.query.errors import QueryError

    Path: TypeAlias = str | os.PathLike[str]
__all__ = ["QueryError", "RecordingError", "compare", "open"]


def __getattr__(name: str) -> type[Exception]:
    """The errors, once somebody asks for them."""
    if name == "RecordingError":
        from parsers.model import TraceError

        return TraceError
    if name == "QueryError":
        from viewer.query.errors import QueryError

        return QueryError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def open(paths: Path | Iterable[Path]) -> Run:
    """Read a recording: a file, a folder of ranks, or several files of one run.

    Raises ``RecordingError`` (one sentence and a hint) where it cannot be read.
    """
    from stallscope.run import Run

    return Run.of(paths)


def compare(before: Run | Path | Iterable[Path], after: Run | Path | Iterable[Path]) -> Comparison:
    """What changed between two runs: the step, its parts, kernels and findings.

    Raises ``RecordingError`` where they cannot be set against each other.
    """
    from stallscope.comparison import Comparison

    return Comparison.of(before, after)
