"""One opened run, or a span of it: its tables as pandas frames, its budget, its diagnosis, questions in SQL."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parsers import open_trace
from parsers.model import Progress, Trace
from parsers.model.units import duration, parse_duration
from rules.analysis.analysis import Analysis
from viewer.tables.table import described, frame_of, row_tables, summaries, summary_of

if TYPE_CHECKING:
    import pandas as pd

    from stallscope.diagnosis import Diagnosis
    from stallscope.plots import Plots

Time = int | float | str


class Run:
    """Times are nanoseconds from the start of the recording; the end of a column's name is its unit.

    A slice holds the rows that begin inside it, with their recorded times, and a budget that is cut exactly.
    """

    def __init__(self, analysis: Analysis, span: tuple[int, int] | None = None) -> None:
        self._analysis = analysis
        self._span = span

    @classmethod
    def of(cls, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | Run) -> Run:
        """Read files as one run; a run stays what it is. Raises ``RecordingError``."""
        if isinstance(paths, Run):
            return paths
        listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        return cls(Analysis(open_trace([Path(each) for each in listed], Progress())))

    def __repr__(self) -> str:
        trace = self._analysis.trace
        names = ", ".join(each.path for each in trace.inputs)
        begin, end = self.span
        part = "" if self._span is None else f", {duration(begin)} to {duration(end)} of it"
        return f"<Run {names}: {len(trace.events):,} events, {duration(trace.duration)}{part}>"

    @property
    def files(self) -> tuple[str, ...]:
        """What the files are called."""
        return tuple(each.path for each in self._analysis.trace.inputs)

    @property
    def span(self) -> tuple[int, int]:
        """What numbers speak of, ns: the slice; of a whole run the analysed time, which is its steady steps."""
        return self._analysis.window if self._span is None else self._span

    def slice(self, start: Time, end: Time) -> Run:
        """The part of [start, end), in ns or as "31.2ms"."""
        begin, until = _ns(start), _ns(end)
        if until < begin:
            raise ValueError(f"a slice ends before it begins: {start!r} to {end!r}")
        return Run(self._analysis, (begin, until))

    @property
    def events(self) -> pd.DataFrame:
        """Everything that has a start and an end; the columns of times are the recording's own, not copies."""
        return self.table("events")

    @property
    def kernels(self) -> pd.DataFrame:
        """Kernels as they ran on the GPU, with family, grid, launch and region."""
        return self.table("kernels")

    @property
    def operators(self) -> pd.DataFrame:
        """Calls of operators on the CPU, with their own time, what they launched, and input shapes."""
        return self.table("operators")

    @property
    def regions(self) -> pd.DataFrame:
        """Annotated ranges, with the GPU work launched inside and where it lay."""
        return self.table("regions")

    @property
    def api_calls(self) -> pd.DataFrame:
        """Calls of the GPU's runtime and driver."""
        return self.table("api_calls")

    @property
    def copies(self) -> pd.DataFrame:
        """Copies and memsets, with direction, sort of memory and size."""
        return self.table("copies")

    @property
    def collectives(self) -> pd.DataFrame:
        """Collectives on each rank: size, transfer, waiting, bandwidth."""
        return self.table("collectives")

    @property
    def steps(self) -> pd.DataFrame:
        """Steps of all ranks, with the share of time in which the GPU was busy."""
        return self.table("steps")

    @property
    def gaps(self) -> pd.DataFrame:
        """Stretches in which a GPU ran nothing, with cause and culprit."""
        return self.table("gaps")

    @property
    def counters(self) -> pd.DataFrame:
        """Samples of counters: utilisation, clocks, power, memory."""
        return self.table("counters")

    @property
    def memory(self) -> pd.DataFrame:
        """Allocations of the GPUs' memory, where they were recorded."""
        return self.table("memory")

    @property
    def tables(self) -> Mapping[str, str]:
        """Every table by name, with what one row of it is."""
        of_rows = {name: each.about for name, each in row_tables().items()}
        return of_rows | {name: each.about for name, each in summaries().items()}

    def table(self, name: str) -> pd.DataFrame:
        """A table by its name, as ``tables`` lists them; ``run.columns(name)`` explains its columns."""
        if name in summaries():
            return summary_of(self._analysis, name, self._span)
        if name not in row_tables():
            raise KeyError(f"there is no table {name!r}: {', '.join(self.tables)}")
        frame = frame_of(self._analysis, name)
        at = "start_ns" if "start_ns" in frame else "time_ns"
        if self._span is None or at not in frame:
            return frame
        begin, end = self._span
        return frame[(frame[at] >= begin) & (frame[at] < end)]

    def columns(self, name: str) -> Mapping[str, str]:
        """What each column of a table means."""
        return {column.name: column.about for column in described(name)}

    @property
    def budget(self) -> pd.DataFrame:
        """Where the time went on each GPU: parts that add up to ``span``."""
        return self.table("budget")

    @property
    def fixes(self) -> pd.DataFrame:
        """What each fix would give, as factors of the time of a step: a replay of the recording with it made."""
        import pandas as pd

        from rules.fixes.plan import plan_of

        names = ("id", "title", "at_least", "expected", "at_most", "after_others")
        rows = [
            (each.id, each.proposal.title, each.low, each.expected, each.high, each.after_others)
            for each in plan_of(self._analysis).promises
        ]
        return pd.DataFrame(rows, columns=list(names))

    def diagnose(self) -> Diagnosis:
        """What is slow, who is to blame and what to change; always of the whole run."""
        from stallscope.diagnosis import Diagnosis

        return Diagnosis.of(self._analysis)

    def query(self, sql: str, rows: int | None = None) -> pd.DataFrame:
        """Answer one SELECT over the whole run, or a ready-made question by its name, such as "cuda_gpu_kern_sum".

        Needs the extra ``sql``. Raises ``stallscope.QueryError`` with one sentence.
        """
        from viewer.query.database import database_of
        from viewer.query.questions import sql_of

        return database_of(self._analysis).run(sql_of(sql), rows).frame

    def arguments(self, event: int) -> Mapping[str, Any]:
        """Everything that the file says of one event, read from it now."""
        return self.trace.arguments(event)

    @property
    def plot(self) -> Plots:
        """Pictures, each made when it is asked for; needs the extra ``plot``."""
        from stallscope.plots import Plots

        return Plots(self)

    @property
    def trace(self) -> Trace:
        """The model of the recording, for what no table shows. It may change with any version."""
        return self._analysis.trace


def _ns(time: Time) -> int:
    """A time in ns; texts carry their unit."""
    if isinstance(time, str):
        found = parse_duration(time)
        if found is None:
            raise ValueError(f"{time!r} is not a time: write it like 31.2ms")
        return found
    return int(time)
