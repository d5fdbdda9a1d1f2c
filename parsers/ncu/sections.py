"""Kernels in what Nsight Compute prints without --csv: a heading, sections of aligned columns, results of rules.

The rows are given the columns of the CSV pages, so that one reader serves both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from parsers.model.late import regex
from parsers.ncu.labels import identifier_of

_IDENTITY = [
    "ID", "Process ID", "Process Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
]  # fmt: skip
_PLACE = ["Device", "CC", "Invocations", "Section Name"]
_METRIC = ["Metric Name", "Metric Unit"]
_RULE = ["Rule Name", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup"]
DETAILS = [*_IDENTITY, *_PLACE, *_METRIC, "Metric Value", *_RULE]
SUMMARY = [*_IDENTITY, *_PLACE, *_METRIC, "Minimum", "Maximum", "Average"]

_DIM = r"\(\d+, \d+, \d+\)"
_SIZES = regex(rf"({_DIM})x({_DIM})")
_PROCESS = regex(r"\[(?P<number>\d+)\] (?P<name>\S.*)@[^\s@]+\s*$")
_KERNEL = regex(
    rf"  (?P<name>\S.*?)(?: (?P<grid>{_DIM})x(?P<block>{_DIM}))?(?:, \d{{4}}-\w{{3}}-\d\d \d\d:\d\d:\d\d)?"
    r"(?P<place>(?:, (?:Context|Stream|Device|CC|Invocations) [\d.]+)++)\s*$"
)
_HEADING = regex(r"^  \S[^\n]{0,8000}, (?:Stream|Device|CC|Invocations) [\d.]+[ \t\r]*$", re.MULTILINE)
_LAST_OF_HEADING = ", Stream ", ", Device ", ", CC ", ", Invocations "
_MAX_LINE_LENGTH = 16_384  # characters; longer lines are the program's own
_TELLING = 400  # characters at the beginning of a result, which say what rule it is of
_PLACED = regex(r", (Context|Stream|Device|CC|Invocations) ([\d.]+)")
_SECTION = regex(r"    Section: (?P<name>.*\S)")
_RULER = regex(r"    -+(?: -+)+\s*$")
_RESULT = regex(r"    (?P<kind>OPT|WRN|ERR|OK|INF) +(?P<text>\S.*)$")
_CONTINUED = regex(r" {6,}(?P<text>\S.*)$")
_NOTE = regex(r"  Note: ")
_NOTED = regex(r"  \S")
_SPEEDUP = regex(r"Est\. (?P<local>Local )?Speedup: (?P<percent>[\d.,]+)%\s*")
_RULES = (
    (r"measured achieved occupancy", "AchievedOccupancy"),
    (r"theoretical warps per scheduler", "TheoreticalOccupancy"),
    (r"uncoalesced global accesses", "UncoalescedGlobalAccess"),
    (r"uncoalesced shared accesses", "UncoalescedSharedAccess"),
    (r"way bank conflict", "SharedMemoryConflicts"),
    (r"memory access pattern for", "MemoryCacheAccessPattern"),
    (r"number of active cycles than the average", "WorkloadImbalance"),
    (r"highest-utilized pipeline|pipelines are under-utilized", "HighPipeUtilization"),
    (r"scheduler is capable of issuing one instruction", "IssueSlotUtilization"),
    (r"cycles being stalled|Warp Stall Sampling", "CPIStall"),
    (r"non-fused FP", "FPInstructions"),
    (r"Instructions are executed in warps", "ThreadDivergence"),
    (r"ratio of peak .* performance", "SOLFPRoofline"),
    (r"L2 Compression unit", "MemoryL2Compression"),
)
_COLUMNS_OF_DETAILS, _COLUMNS_OF_SUMMARY = 3, 5


def has_heading(text: str) -> bool:
    """Whether a line of the text names a kernel and where it ran, as sections of a launch begin."""
    return any(each in text for each in _LAST_OF_HEADING) and _HEADING.search(text) is not None


class RowReader(Protocol):
    """Takes the rows of one table, one after the other; they may be shorter than the header."""

    def add(self, cells: list[str]) -> None: ...


R = TypeVar("R", bound=RowReader)


class PrintedSections(Generic[R]):
    """Takes the lines of one text in order; what belongs to a printed page goes as rows to readers made on demand."""

    def __init__(self, reader_of: Callable[[list[str]], R]) -> None:
        self.readers: list[R] = []
        self._reader_of = reader_of
        self._details: R | None = None
        self._summary: R | None = None
        self._process = ("", "")
        self._kernel: list[str] = []
        self._above = ""  # the line before, where it belongs to nothing: it may be a kernel's name
        self._kernels = 0
        self._section = ""
        self._spans: list[slice] = []
        self._result: tuple[str, list[str]] | None = None
        self._in_note = False

    def take(self, line: str) -> bool:
        """Read one line; whether it belongs to a printed page."""
        above, self._above = self._above, ""
        taken = self._takes(line, above)
        if not taken:
            self._above = line.strip()
        return taken

    def _takes(self, line: str, above: str) -> bool:
        if self._result is not None and (more := _CONTINUED.match(line)):
            self._result[1].append(more["text"].strip())
            return True
        self.end()
        if len(line) > _MAX_LINE_LENGTH:
            return False
        if process := _PROCESS.match(line):
            self._process = (process["number"], process["name"])
            self._kernel = []
        elif kernel := _KERNEL.match(line):
            self._begin(kernel, above)
        elif self._is_noted(line):
            return True
        elif not self._kernel:
            return False
        elif section := _SECTION.match(line):
            self._section, self._spans = section["name"], []
        elif _RULER.match(line):
            self._spans = [slice(*each.span()) for each in re.finditer(r"-+", line)]
        elif result := _RESULT.match(line):
            self._result = (result["kind"], [result["text"].strip()])
        else:
            return self._take_metric(line)
        return True

    def end(self) -> None:
        """Give away the result of a rule whose lines have ended."""
        if self._result is None:
            return
        kind, lines = self._result
        self._result = None
        text = " ".join(lines)
        speedup = _SPEEDUP.match(text)
        estimate = ["", ""]
        if speedup is not None:
            text = text[speedup.end() :]
            estimate = ["local" if speedup["local"] else "global", speedup["percent"]]
        self._add_details([self._section, "", "", "", self._rule(text), kind, text, *estimate])

    def _rule(self, text: str) -> str:
        """The name of the rule that says this, which is not printed; the section where its words are not known."""
        known = (name for words, name in _RULES if re.search(words, text[:_TELLING]))
        return next(known, identifier_of(self._section))

    def _is_noted(self, line: str) -> bool:
        """Whether this is part of a remark of the tool about the whole page."""
        begins = _NOTE.match(line) is not None
        self._in_note = begins or (self._in_note and _NOTED.match(line) is not None)
        return self._in_note

    def _begin(self, kernel: re.Match[str], above: str) -> None:
        placed = dict(_PLACED.findall(kernel["place"]))
        name, grid, block = kernel["name"], kernel["grid"], kernel["block"]
        if sizes := _SIZES.fullmatch(name):
            name, (grid, block) = above, sizes.groups()
        self._kernel = [
            str(self._kernels),
            *self._process,
            name,
            placed.get("Context", ""),
            placed.get("Stream", ""),
            block or "",
            grid or "",
            placed.get("Device", ""),
            placed.get("CC", ""),
            placed.get("Invocations", ""),
        ]
        self._kernels += 1
        self._section, self._spans = "", []

    def _take_metric(self, line: str) -> bool:
        if len(self._spans) not in (_COLUMNS_OF_DETAILS, _COLUMNS_OF_SUMMARY):
            return False
        label, *rest = self._spans
        if line[: label.start].strip() or not all(line[each.start - 1 : each.start] in " " for each in rest):
            return False
        name, unit, *values = (
            line[each].strip() for each in (label, *rest[:-1], slice(rest[-1].start, None))
        )
        if not name or (name, unit) == tuple(_METRIC):
            return bool(name)
        if len(values) == 1:
            self._add_details([self._section, name, unit, *values])
        else:
            if self._summary is None:
                self._summary = self._new(SUMMARY)
            self._summary.add([*self._kernel, self._section, name, unit, *values])
        return True

    def _add_details(self, cells: list[str]) -> None:
        if self._details is None:
            self._details = self._new(DETAILS)
        self._details.add([*self._kernel, *cells])

    def _new(self, header: list[str]) -> R:
        reader = self._reader_of(header)
        self.readers.append(reader)
        return reader
