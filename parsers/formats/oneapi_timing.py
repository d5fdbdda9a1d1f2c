"""What unitrace and onetrace print of a program on an Intel GPU: the time of each kernel, copy and call."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.files.base import Source, parser
from parsers.model import ResultTable
from parsers.model.late import regex
from parsers.model.results import Cell, TimeOf, Totals, titled
from parsers.model.units import NS_PER_MS, NS_PER_S, NS_PER_US
from parsers.printed_profile import PrintedProfile

_PART = regex(r"=== (Device|API) Timing (?:Summary|Results:) ===")
_BACKEND = regex(r"== ([\w ]{2,20}) Backend:? ==")
_HEADER = regex(r"(?:Kernel|Function),\s+Calls,\s+Time \(ns\),\s+Time \(%\),.*")
_RAN_FOR = regex(r"Total Execution Time \(ns\):\s+(\d{1,18})")
# a name may hold commas
_ROW = regex(
    r'"?(?P<name>\S.*?)"?,\s*(?P<calls>\d{1,15}),\s*(?P<ns>\d{1,18}),\s*(?P<share>\d{1,3}\.\d{1,6}),'
    r"\s*\d{1,18},\s*(?P<least>\d{1,18}),\s*(?P<most>\d{1,18}),?"
)
_COLUMNS = titled("Name", "Calls", "Time (ms)", "Share (%)", "Min (us)", "Max (us)")
_WHOSE = {"Device": ("GPU", TimeOf.GPU), "API": ("calls", TimeOf.CALLS)}


@parser
class OneApiTiming(PrintedProfile):
    """Recognised by the line above its tables, which stands behind what the program printed itself."""

    format = "oneapi-timing"
    title = "unitrace and onetrace"
    files = "printed summaries of kernels, copies and calls (Intel GPUs)"
    suffixes = (".txt", ".log")
    priority = 63
    producer = "unitrace"

    def recognises(self, source: Source) -> bool:
        return any(b" Timing " in each and _PART.search(each.decode("latin-1")) for each in source.printed)

    def tables(self, text: str) -> Iterator[ResultTable]:
        """A table for each backend of each part, behind the line that names its columns."""
        lines = iter(text.splitlines())
        whose, backend, ran = "", "", 0.0
        for line in map(str.strip, lines):
            if (part := _PART.fullmatch(line)) is not None:
                whose, backend, ran = part[1], "", 0.0
            elif (found := _RAN_FOR.fullmatch(line)) is not None:
                ran = float(found[1])
            elif (found := _BACKEND.fullmatch(line)) is not None:
                backend = found[1]
            elif whose and _HEADER.fullmatch(line):
                rows: list[tuple[Cell, ...]] = []
                while (row := _ROW.fullmatch(next(lines, "").strip())) is not None:
                    rows.append(
                        (
                            row["name"],
                            float(row["calls"]),
                            float(row["ns"]) / NS_PER_MS,
                            float(row["share"]),
                            float(row["least"]) / NS_PER_US,
                            float(row["most"]) / NS_PER_US,
                        )
                    )
                name, of = _WHOSE[whose]
                yield ResultTable(
                    f"Times of {name} by unitrace{_about(backend, ran)}",
                    _COLUMNS,
                    tuple(rows),
                    totals=(Totals(of, 0, 2, 3, 1),),
                )


def _about(backend: str, ran_ns: float) -> str:
    stated = [f"backend {backend}"] if backend else []
    if ran_ns > 0:
        stated.append(f"of a program that ran for {ran_ns / NS_PER_S:.3g} s")
    return "".join(f", {each}" for each in stated)
