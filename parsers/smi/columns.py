"""What the columns of nvidia-smi and dcgmi mean: name of the counter, its unit, and the factor to that unit."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache

import resources
from parsers.model.late import dataclass, regex
from parsers.model.units import base_unit, name_and_unit

_TIME = regex(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d{1,6})?")
_UNIT = regex(r"(\[?N/A\]?|\[Not Supported\]|\d+(?:\.\d+)?) (%|MiB|W|MHz)")
_BY_UNIT = {
    "%": ("utilization.gpu [%]", "utilization.memory [%]"),
    "W": ("power.draw [W]", "power.limit [W]"),
}
_IDENTITY = (
    (regex(r"GPU-[0-9a-f-]{8,}"), "uuid"),
    (regex(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d"), "pci.bus_id"),
)
_INDEX = regex(r"\d{1,3}")


def columns_of(cells: Sequence[str]) -> list[str]:
    """A name for each cell of a line without a header, "" for one that nothing tells; empty for other lines.

    The order is that in which nearly everybody asks: of two shares the GPU's goes before the memory's, of two powers
    the draw before the limit. Memory is what is used where it is the smaller one of two, or stands alone.
    """
    if not cells or not _TIME.fullmatch(cells[0].strip()):
        return []
    cells = [cell.strip() for cell in cells]
    units = [match[2] if (match := _UNIT.fullmatch(cell)) else "" for cell in cells]
    if not {"%", "W"} & set(units):
        return []
    names = ["timestamp", *[""] * (len(cells) - 1)]
    for unit, known in _BY_UNIT.items():
        for place, name in zip((at for at, each in enumerate(units) if each == unit), known, strict=False):
            names[place] = name
    memory = [at for at, each in enumerate(units) if each == "MiB"]
    sizes = [float(cells[at].split()[0]) for at in memory if cells[at][0].isdigit()]
    if len(sizes) == len(memory) and memory and sizes[0] == min(sizes):
        names[memory[0]] = "memory.used [MiB]"
    for at, cell in enumerate(cells[1:], 1):
        names[at] = next((name for pattern, name in _IDENTITY if pattern.fullmatch(cell)), names[at])
    if len(cells) > 1 and _INDEX.fullmatch(cells[1]):
        names[1] = "index"
    return names


_BY_SCRIPTS = {
    name: column
    for column, names in {
        "timestamp": ("timestamp",),
        "elapsed": ("elapsed", "elapsed_time", "time_elapsed"),
        "index": ("gpu_id", "gpu_index", "index", "gpu"),
        "utilization.gpu": ("gpu_util", "gpu_utilization", "utilization_gpu", "gpu_usage", "gpu_load"),
        "memory.used": ("memory_used", "mem_used", "gpu_memory_used", "gpu_mem_used", "used_memory"),
        "memory.free": ("memory_free", "mem_free", "gpu_memory_free", "free_memory"),
        "memory.total": ("memory_total", "mem_total", "gpu_memory_total", "gpu_mem_total", "total_memory"),
        "power.draw": ("power_draw", "power_usage", "gpu_power", "power"),
        "temperature.gpu": ("temperature", "temp", "gpu_temp", "gpu_temperature", "temperature_gpu"),
    }.items()
    for name in names
}
_UNIT_IN_NAME = {
    **dict.fromkeys(("pct", "percent"), "%"),
    **dict.fromkeys(("s", "sec", "seconds"), ""),
    **dict.fromkeys(("w", "watts"), "W"),
    "mb": "MB",
    "mib": "MiB",
    "c": "C",
}
_OF_SCRIPTS = regex(r"(?P<name>[a-z][a-z_]*)(?: ?[(\[](?P<unit>%|MB|MiB|W|C)[)\]])?", re.IGNORECASE)


def columns_of_scripts(cells: Sequence[str]) -> list[str]:
    """What nvidia-smi calls the columns of a log that a script wrote of its readings, empty for other headers.

    Such a script states the time, or what has passed of it in seconds, how busy the GPU is, and at least one more
    reading; what it calls otherwise keeps its name. Memory is in MiB where no unit is stated, as the tool prints it.
    """
    found = [_of_script(cell.strip()) for cell in cells]
    names = {name for name, _ in found}
    if (
        not ({"timestamp", "elapsed"} & names and "utilization.gpu" in names)
        or len(names - {"", "index"}) < 3
    ):
        return []
    return [
        (f"{name} [{unit}]" if unit else name) or cell.strip()
        for (name, unit), cell in zip(found, cells, strict=True)
    ]


def _of_script(cell: str) -> tuple[str, str]:
    """("memory.used", "MB") of "mem_used_mb" and "memory_used(MB)"; empty for other names."""
    match = _OF_SCRIPTS.fullmatch(cell)
    if match is None:
        return "", ""
    name, stated = match["name"].lower(), match["unit"] or ""
    shorter, _, ending = name.rpartition("_")
    if name not in _BY_SCRIPTS and ending in _UNIT_IN_NAME:
        name, stated = shorter, stated or _UNIT_IN_NAME[ending]
    return (known, stated) if (known := _BY_SCRIPTS.get(name, "")) else ("", "")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A counter without its GPU: ``value = recorded * factor`` in ``unit``."""

    name: str
    unit: str
    factor: float = 1.0


@cache
def quantities(tool: str) -> Mapping[str, Quantity]:
    """The columns of "dmon", "dcgmi", "dcgm-exporter" or "amd", by their names there."""
    with resources.path("gpu_counters.toml").open("rb") as file:
        return {column: Quantity(*means) for column, means in tomllib.load(file)[tool].items()}


_QUERY = {
    "utilization.gpu": "GPU utilization",
    "utilization.memory": "memory controller utilization",
    "memory.used": "framebuffer used",
    "memory.free": "framebuffer free",
    "memory.total": "framebuffer total",
    "power.draw": "power",
    "power.draw.instant": "instantaneous power",
    "power.draw.average": "average power",
    "temperature.gpu": "temperature",
    "temperature.memory": "memory temperature",
    "clocks.current.sm": "SM clock",
    "clocks.sm": "SM clock",
    "clocks.current.memory": "memory clock",
    "clocks.mem": "memory clock",
    "clocks.current.graphics": "graphics clock",
    "clocks.gr": "graphics clock",
    "clocks.max.sm": "maximum SM clock",
    "clocks.max.memory": "maximum memory clock",
    "clocks.max.mem": "maximum memory clock",
    "power.limit": "power limit",
    "enforced.power.limit": "power limit",
    "ecc.errors.uncorrected.volatile.total": "uncorrected ECC errors",
    "ecc.errors.corrected.volatile.total": "corrected ECC errors",
    **{
        f"clocks_{kind}_reasons.{reason}": name
        for kind in ("event", "throttle")
        for reason, name in {
            "active": "clock limit reasons (bits)",
            "sw_power_cap": "software power cap",
            "sw_thermal_slowdown": "software thermal slowdown",
            "hw_slowdown": "hardware slowdown",
            "hw_thermal_slowdown": "hardware thermal slowdown",
            "hw_power_brake_slowdown": "hardware power brake",
            "sync_boost": "sync boost",
            "applications_clocks_setting": "application clocks setting",
        }.items()
    },
}
_QUERY_UNITS = {
    "temperature": "C",
    "utilization": "%",
    "power": "W",
    "clocks": "MHz",
    "memory": "MiB",
    "fan": "%",
}
_NO_UNITS = {"-", "errs", "bool", "Idx"}
_AS_COUNTERS = {"byte": "B", "byte/s": "B/s"}


def dmon_quantity(column: str, unit: str) -> Quantity:
    """A column of ``nvidia-smi dmon``; its unit row tells more about columns that are not known."""
    known = quantities("dmon").get(column.lower())
    if known is not None:
        return known
    return Quantity(column, *_plain("" if unit in _NO_UNITS else unit))


def dcgm_quantity(column: str) -> Quantity:
    """A column of ``dcgmi dmon``; unknown ones keep their short name and have no unit."""
    return quantities("dcgmi").get(column.upper(), Quantity(column, ""))


def query_quantity(column: str) -> Quantity:
    """A column of ``nvidia-smi --query-gpu``, such as "power.draw [W]"."""
    field, unit = name_and_unit(column)
    if not unit and field != "clocks_event_reasons.active" and not field.startswith("clocks_"):
        unit = _QUERY_UNITS.get(field.split(".")[0], "") if field in _QUERY else ""
    return Quantity(_QUERY.get(field, field.replace(".", " ").replace("_", " ")), *_plain(unit))


def _plain(unit: str) -> tuple[str, float]:
    """The unit of a counter that is kept, and the factor to it."""
    factor, base = base_unit("MiB" if unit == "MB" else unit)  # the tool's megabytes are binary
    return (_AS_COUNTERS[base], factor) if base in _AS_COUNTERS else (unit, 1.0)
