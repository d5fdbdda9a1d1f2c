"""What nvidia-smi prints when it is asked nothing, and the lines of tegrastats: readings that have no header."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers.model.late import dataclass, regex
from parsers.smi.columns import Quantity, query_quantity

_TABLE = regex(r"\| NVIDIA-SMI \d")
_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_PRINTED_AT = regex(
    rf"[A-Z][a-z]{{2}} ({'|'.join(_MONTHS[at : at + 3] for at in range(0, 36, 3))}) ([ \d]\d) "
    r"(\d\d:\d\d:\d\d) (\d{4})$"
)
_FIRST_ROW = regex(r"\|\s{1,4}(\d{1,3})\s+\S.*\|\s*[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d ", re.IGNORECASE)
_SECOND_ROW = regex(
    r"\|\s*(?:N/A|ERR!|\d+%)\s+(?P<temperature>\S+?)C?\s+P\d{1,2}\s+(?P<power>\S+?)W? /\s*(?P<limit>\S+?)W?\s*"
    r"\|\s*(?P<used>\d+)MiB /\s*(?P<total>\d+)MiB\s*\|\s*(?P<load>\d+|N/A)%?\s"
)
_OF_SECOND_ROW = {
    "load": query_quantity("utilization.gpu"),
    "used": query_quantity("memory.used"),
    "total": query_quantity("memory.total"),
    "power": query_quantity("power.draw"),
    "limit": query_quantity("power.limit"),
    "temperature": query_quantity("temperature.gpu"),
}
_TEGRA = regex(r"(?:(\d\d-\d\d-\d{4}) (\d\d:\d\d:\d\d) )?RAM (\d{1,9})/(\d{1,9})MB ")
_GPU_LOAD = regex(r"\bGR3D(?:_FREQ)? (\d{1,3})%(?:@\[?(\d{1,5}))?")
_MEMORY_LOAD = regex(r"\bEMC(?:_FREQ)? (\d{1,3})%")
_CORES = regex(r"\bCPU \[([^\]]*)\]")
_CORE = regex(r"(\d{1,3})%")
_TEMPERATURE = regex(r"\bgpu@(-?\d{1,3}(?:\.\d{1,3})?)C", re.IGNORECASE)
_RAIL = regex(r"\b((?:VDD|VIN|POM)_\w{1,30}) (\d{1,7})(?:mW)?/\d{1,7}(?:mW)?")
_MHZ = Quantity("graphics clock", "MHz")
_USED = Quantity("memory used, shared with the CPU", "B", 1048576.0)


@dataclass(frozen=True, slots=True)
class Reading:
    """One number of a line, as text, with the name of its column."""

    column: str
    quantity: Quantity
    cell: str


def begins_table(line: str) -> bool:
    """Whether this names the tool in the box that nvidia-smi prints without options."""
    return _TABLE.match(line) is not None


def printed_at(line: str) -> tuple[str, str] | None:
    """Date and time of "Wed Feb  5 14:07:58 2025", which stands above such a box; None for other lines."""
    found = _PRINTED_AT.match(line.strip().lstrip("\ufeff"))
    if found is None:
        return None
    return f"{found[4]}-{_MONTHS.index(found[1]) // 3 + 1:02}-{int(found[2]):02}", found[3]


def gpu_of_row(line: str) -> int | None:
    """The number of the GPU whose first row this is."""
    found = _FIRST_ROW.match(line)
    return int(found[1]) if found else None


def readings_of_row(line: str) -> Iterator[Reading]:
    """What the second row of a GPU states."""
    if found := _SECOND_ROW.match(line):
        for name, quantity in _OF_SECOND_ROW.items():
            yield Reading(name, quantity, found[name])


def time_of_tegrastats(line: str) -> tuple[str, str] | None:
    """Date and time of a line of tegrastats, both empty where it states none; None for other lines."""
    found = _TEGRA.match(line)
    return None if found is None else (found[1] or "", found[2] or "")


def readings_of_tegrastats(line: str) -> Iterator[Reading]:
    """What a line of tegrastats states of the GPU, the memory and the power rails (in W)."""
    if load := _GPU_LOAD.search(line):
        yield Reading("load", query_quantity("utilization.gpu"), load[1])
        if load[2]:
            yield Reading("clock", _MHZ, load[2])
    if memory := _MEMORY_LOAD.search(line):
        yield Reading("emc", query_quantity("utilization.memory"), memory[1])
    if ram := _TEGRA.match(line):
        yield Reading("ram", _USED, ram[3])
    if temperature := _TEMPERATURE.search(line):
        yield Reading("temperature", query_quantity("temperature.gpu"), temperature[1])
    if cores := _CORES.search(line):
        shares = [int(share) for share in _CORE.findall(cores[1])]
        if shares:
            mean = sum(shares) / len(shares)
            yield Reading("cpu", Quantity("cores of the CPU that are on, utilization", "%"), f"{mean:.3f}")
    for rail, milliwatts in _RAIL.findall(line):
        yield Reading(rail, Quantity(rail, "W", 1e-3), milliwatts)
