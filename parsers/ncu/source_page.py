"""The source page (``--page source --csv``): the instructions of each kernel, and what its warps waited for there."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field

from parsers.model import KernelProfile, KernelSource

_NAME, _CODE, _ADDRESS = "Kernel Name", "Source", "Address"
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
MOST_INSTRUCTIONS = 200_000  # of a kernel


def is_source_page(head: str) -> bool:
    """Whether the first lines hold the header of such a page."""
    return any(_is_header(_cells(line)) for line in head.splitlines() if f'"{_CODE}"' in line)


def profiles_of_source(lines: Iterable[str]) -> list[KernelProfile]:
    """One profile a kernel, without metrics."""
    found: list[_Kernel] = []
    name = ""
    for line in lines:
        cells = _cells(line)
        if len(cells) >= 2 and cells[0] == _NAME:
            name = cells[1]
        elif _is_header(cells):
            found.append(_Kernel(name, {column: at for at, column in reversed(list(enumerate(cells)))}))
        elif found and not line.startswith("=="):
            found[-1].take(cells)
    return [each.profile(str(number)) for number, each in enumerate(found) if each.text]


@dataclass(slots=True)
class _Kernel:
    name: str
    columns: dict[str, int]
    address: list[int] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)
    stalls: dict[str, list[int]] = field(default_factory=dict)

    def take(self, cells: list[str]) -> None:
        def number(column: str) -> int:
            at = self.columns.get(column, len(cells))
            digits = cells[at].replace(",", "").partition(".")[0] if at < len(cells) else ""
            return int(digits) if digits.isdecimal() and len(digits) < 19 else 0

        if len(cells) <= self.columns[_CODE] or len(self.text) >= MOST_INSTRUCTIONS:
            return
        at = self.columns.get(_ADDRESS, len(cells))
        self.address.append(_address(cells[at]) if at < len(cells) else -1)
        self.text.append(cells[self.columns[_CODE]].strip())
        self.samples.append(next((number(column) for column in _SAMPLES if column in self.columns), 0))
        self.executed.append(number(_EXECUTED))
        for column in self.columns:
            if column.startswith(_STALL) and not column.endswith(_NOT_ISSUED):
                reason = column.removeprefix(_STALL)
                self.stalls.setdefault(_REASONS.get(reason, reason), []).append(number(column))

    def profile(self, ident: str) -> KernelProfile:
        known = [address for address in self.address if address >= 0]
        first = min(known, default=0)  # addresses count from the kernel's first instruction
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
                tuple(each - first if each >= 0 else -1 for each in self.address),
                tuple(self.text),
                tuple(self.samples),
                tuple(self.executed),
                {reason: tuple(counts) for reason, counts in self.stalls.items()},
            ),
        )


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
