"""The source page (``--page source --csv``): the instructions of each kernel, and what its warps waited for there.

Also the page that has them below the lines of the program, ``--print-source cuda,sass``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import field

from parsers.model import KernelProfile, KernelSource, SourcePlace
from parsers.model.late import dataclass

_NAMES, _FILES = ("Kernel Name", "Function Name"), ("File Path", "File Name")
_CODE, _ADDRESS, _LINE = "Source", "Address", "Line No"
_SAMPLES = ("Warp Stall Sampling (All Samples)", "Warp Stall Sampling (All Cycles)", "# Samples", "Samples")
_EXECUTED = "Instructions Executed"
_STALL, _NOT_ISSUED = "stall_", "(Not Issued)"
_REASONS = {
    "long_sb": "long_scoreboard",
    "short_sb": "short_scoreboard",
    "lg": "lg_throttle",
    "mio": "mio_throttle",
    "tex": "tex_throttle",
    "math": "math_pipe_throttle",
    "no_inst": "no_instruction",
    "imc": "imc_miss",
    "branch_resolve": "branch_resolving",
    "dispatch": "dispatch_stall",
    "sleep": "sleeping",
}  # as the page writes them, and as metrics do
MAX_INSTRUCTIONS = 200_000  # of a kernel


def is_source_page(head: str) -> bool:
    """Whether the first lines hold the header of such a page."""
    code = f'"{_CODE}"'
    return code in head and any(_is_header(_cells(line)) for line in head.splitlines() if code in line)


def profiles_of_source(lines: Iterable[str]) -> list[KernelProfile]:
    """One profile a launch, without metrics."""
    found: list[_Kernel] = []
    name = file = ""
    for line in lines:
        cells = _cells(line)
        if len(cells) >= 2 and cells[0] in _NAMES:
            name = cells[1]
        elif len(cells) == 2 and cells[0] in _FILES:
            file = cells[1]
        elif _is_header(cells):
            if file and found and found[-1].continues(name, file):
                found[-1].files[file] = {}
            else:
                if found and found[-1].repeats(found[-2:-1]):
                    found.pop()  # some releases write each page twice
                found.append(_Kernel(name, cells, {file: {}} if file else {}))
        elif found and not line.startswith("=="):
            found[-1].take(cells)
    if found and found[-1].repeats(found[-2:-1]):
        found.pop()
    return [each.profile(str(number)) for number, each in enumerate(found) if each.text]


@dataclass(slots=True)
class _Kernel:
    """A page, or with lines of source the pages of all files that a kernel's instructions come from."""

    name: str
    header: list[str]
    files: dict[str, dict[int, str]]  # lines by their number
    address: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)
    stalls: dict[str, list[int]] = field(default_factory=dict)
    # address -> its row, where pages name one several times
    _row: dict[int, int] = field(default_factory=dict)
    _lines: dict[int, list[tuple[str, int]]] = field(default_factory=dict)  # row -> lines that it belongs to
    _line: int = 0

    def continues(self, name: str, file: str) -> bool:
        return self.name == name and bool(self.files) and file not in self.files

    def repeats(self, before: list[_Kernel]) -> bool:
        return (
            any(
                (self.name, self.address, self.samples, self.executed, self.stalls)
                == (each.name, each.address, each.samples, each.executed, each.stalls)
                for each in before
            )
            and not self.files
        )

    def take(self, cells: list[str]) -> None:
        columns = {column: at for at, column in reversed(list(enumerate(self.header)))}
        code = len(self.header) - 1 - self.header[::-1].index(_CODE)

        def number(column: str) -> int:
            at = columns.get(column, len(cells))
            digits = cells[at].replace(",", "").partition(".")[0] if at < len(cells) else ""
            return int(digits) if digits.isdecimal() and len(digits) < 19 else 0

        if len(cells) <= code or len(self.text) >= MAX_INSTRUCTIONS:
            return
        at = columns.get(_ADDRESS, len(cells))
        address = _address(cells[at]) if at < len(cells) else -1
        if self.files and columns[_CODE] != code:
            if line := number(_LINE):
                self._line = line
                list(self.files.values())[-1][line] = cells[columns[_CODE]]
            if address < 0:
                return
            row = self._row.setdefault(address, len(self.text))
            place = (list(self.files)[-1], self._line)
            lines = self._lines.setdefault(row, [])
            if place not in lines:
                lines.append(place)
            if row < len(self.text):
                return
        self.address.append(address)
        self.text.append(cells[code].strip())
        self.samples.append(next((number(column) for column in _SAMPLES if column in columns), 0))
        self.executed.append(number(_EXECUTED))
        for column in columns:
            if column.startswith(_STALL) and not column.endswith(_NOT_ISSUED):
                reason = column.removeprefix(_STALL)
                self.stalls.setdefault(_REASONS.get(reason, reason), []).append(number(column))

    def profile(self, ident: str) -> KernelProfile:
        known = [address for address in self.address if address >= 0]
        first = min(known, default=0)  # addresses count from the kernel's first instruction
        rows = (
            sorted(range(len(self.text)), key=self.address.__getitem__)
            if self._row
            else range(len(self.text))
        )
        place, places = self._places(rows)
        return KernelProfile(
            id=ident,
            name=self.name,
            grid=(0, 0, 0),
            block=(0, 0, 0),
            device=None,
            compute_capability=None,
            context=None,
            stream=None,
            process=None,
            process_name="",
            metrics={},
            source=KernelSource(
                tuple(self.address[row] - first if self.address[row] >= 0 else -1 for row in rows),
                tuple(self.text[row] for row in rows),
                tuple(self.samples[row] for row in rows),
                tuple(self.executed[row] for row in rows),
                {reason: tuple(counts[row] for row in rows) for reason, counts in self.stalls.items()},
                place,
                places,
                {
                    file: tuple(lines.get(line, "") for line in range(1, max(lines) + 1))
                    for file, lines in self.files.items()
                    if lines
                },
            ),
        )

    def _places(self, rows: Iterable[int]) -> tuple[tuple[int, ...], tuple[SourcePlace, ...]]:
        """The page names all lines of an instruction, the calls where it was inlined among them, in no order."""
        if not self._lines:
            return (), ()
        numbers: dict[tuple[str, int, int], int] = {}
        found: list[int] = []
        for row in rows:
            at = -1
            for file, line in self._lines.get(row, ()):
                at = numbers.setdefault((file, line, at), len(numbers))
            found.append(at)
        return tuple(found), tuple(SourcePlace(*each) for each in numbers)


def _is_header(cells: list[str]) -> bool:
    return _CODE in cells and (_EXECUTED in cells or any(column in cells for column in _SAMPLES))


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return []


def _address(text: str) -> int:
    try:
        found = int(text.strip(), 16)
    except ValueError:
        return -1
    return found if 0 <= found < 1 << 63 else -1
