"""Pages of unified memory that moved while kernels ran, as nvprof prints them."""

from __future__ import annotations

from collections.abc import Iterable

from parsers.model import Trace
from parsers.model.late import dataclass
from parsers.model.results import TimeOf
from parsers.model.units import NS_PER_US, duration, percent, size
from rules.analysis.analysis import Analysis
from rules.analysis.beside.printed_totals import printed_totals
from rules.findings.base import Category, Finding, Need, Rule, Severity, rule
from rules.remedies.copies import PREFETCH_PAGES
from rules.terms import Culprit, CulpritKind
from rules.wording.words import Headline, listed

MIN_FAULTS = 0.25  # of the GPU's time: as much of a kernel tells that it waits for pages on a timeline, too
_FAULTS = "Gpu page fault groups"
_DIRECTIONS = {"Host To Device": "to the GPU", "Device To Host": "back"}


@rule
class PrintedPages(Rule):
    id = "printed-pages"
    category = Category.COPY_H2D
    needs = frozenset({Need.PRINTED_TIMES})
    explanation = """
What it found
    nvprof printed that kernels touched pages of unified (managed) memory which were not on the GPU.

Why it costs time
    A kernel that touches such a page stops there until the driver has moved it. The kernel looks busy, and waits.

How it decides
    Groups of page faults of the GPU took at least a quarter of the time that all kernels and copies took.

What to try
    Prefetch the data before the kernel (cudaMemPrefetchAsync), or allocate it on the GPU and copy it in one piece.

When it is wrong
    Groups of faults may overlap, and one kernel may compute while another one waits: only a timeline tells.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        gpu = next((each for each in printed_totals(trace) if each.of is TimeOf.GPU), None)
        rows = _moved(trace)
        faults_ns = sum(each.ns for each in rows if each.what == _FAULTS)
        if gpu is None or not faults_ns or faults_ns < MIN_FAULTS * gpu.ns:
            return
        longest = gpu.rows[0]
        moved = [each for each in rows if each.bytes]
        yield self.finding(
            analysis,
            severity=Severity.MEDIUM,
            headline=Headline(
                "Kernels wait for pages of unified memory",
                f"{duration(faults_ns)} of page faults beside {duration(gpu.ns)} of the GPU's work",
            ),
            account=(
                "The time of kernels includes their waits for pages. Most of it is in "
                f"{longest.name} ({duration(longest.ns)}, {percent(longest.share)})."
                + (f" Moved: {listed([each.told for each in moved])}." if moved else "")
            ),
            remedy=PREFETCH_PAGES,
            culprit=Culprit(CulpritKind.KERNEL, longest.name),
            unknown=("Which kernels wait, and for how long: this requires a timeline.",),
        )


@dataclass(frozen=True, slots=True)
class _Moved:
    """What happened to pages: how often, and bytes (0 of faults) and ns in all."""

    what: str
    count: float
    bytes: float
    ns: float

    @property
    def told(self) -> str:
        where = _DIRECTIONS.get(self.what, self.what)
        return f"{size(self.bytes)} {where} in {self.count:,.0f} pieces ({duration(self.ns)})"


def _moved(trace: Trace) -> list[_Moved]:
    """The rows of all tables of unified memory."""
    found = []
    for table in trace.tables:
        columns = [table.column(name) for name in ("Unified memory", "Count", "Total Size", "Total Time")]
        for what, *numbers in zip(*columns, strict=False) if all(columns) else ():
            count, moved, time = (each if isinstance(each, float) else 0.0 for each in numbers)
            found.append(_Moved(str(what), count, moved, time * NS_PER_US))
    return found
