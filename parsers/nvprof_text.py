"""What nvprof prints for people, as its CSV has it: summaries and metrics as lines, and the table of GPU operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from parsers.model.late import regex
from parsers.printed_tables import csv_row, in_us

_SUMMARIES = ("Type Time(%) Time Calls Avg Min Max Name", "Time(%) Time Calls Avg Min Max Name")
_METRICS = "Invocations Metric Name Metric Description Min Max Avg"
_TYPES = ("GPU activities:", "API calls:")
# remarks above a table
_SECTIONS = (("== Profiling result:", "GPU activities"), ("== API calls:", "API calls"))
_OF_SUMMARY = ("Type", "Time(%)", "Time (us)", "Calls", "Avg (us)", "Min (us)", "Max (us)", "Name")
_TRACE = regex(r"^ *Start +Duration +Grid Size +Block Size .*Name *$", re.MULTILINE)
_OF_TRACE = (
    *(
        "Start", "Duration", "Grid X", "Grid Y", "Grid Z", "Block X", "Block Y", "Block Z",
        "Registers Per Thread",
    ),
    *(
        "Static SMem", "Dynamic SMem", "Size", "Throughput", "SrcMemType", "DstMemType", "Device", "Context",
        "Stream",
    ),
    "Name",
)  # fmt: skip
_UNITS = {"Start": "us", "Duration": "us", "Static SMem": "B", "Dynamic SMem": "B", "Size": "B"}
_SIZE = regex(r"(\d{1,12}(?:\.\d{1,9})?)(B|KB|MB|GB)")
BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_PAGES = "Count Avg Size Min Size Max Size Total Size Total Time Name"  # of unified memory
OF_PAGES = ("Unified memory", "Count", "Avg Size (B)", "Total Size (B)", "Total Time (us)")
_OF_METRICS = ("Kernel", "Invocations", "Metric Name", "Metric Description", "Min", "Max", "Avg")


def has_nvprof_tables(text: str) -> bool:
    """Whether a line of a text is the header of a table that nvprof prints."""
    return "Avg" in text and any(_is_header(line) for line in text.splitlines() if "Avg" in line)


def nvprof_as_csv(lines: Iterable[str]) -> Iterator[str]:
    """The lines; those of nvprof's tables as CSV, times in us, with the kernel before each of its metrics."""
    header = kind = kernel = above = ""
    for line in lines:
        if section := next((name for words, name in _SECTIONS if words in line), ""):
            above = section
        if found := _is_header(line) if "Avg" in line else "":
            header, kind, kernel = found, above, ""
            yield csv_row(
                _OF_METRICS if header == _METRICS else OF_PAGES if header == _PAGES else _OF_SUMMARY
            )
            continue
        text = line.strip()
        if header == _METRICS and text.startswith("Kernel: "):
            kernel = text.removeprefix("Kernel: ")
        elif header == _METRICS and text.startswith('Device "'):
            continue
        elif header == _METRICS and len(cells := re.split("  +", text)) == len(_OF_METRICS) - 1:
            yield csv_row((kernel, *cells))
        elif header == _PAGES and (row := _row_of_pages(text)):
            yield csv_row(row)
        elif header in _SUMMARIES and (row := _row(text, kind)):
            kind = row[0]
            yield csv_row(row)
        else:
            header = ""
            yield line


def has_gpu_trace(text: str) -> bool:
    """Whether a line is the header of the table of GPU operations."""
    return "Grid Size" in text and _TRACE.search(text) is not None


def gpu_trace(lines: Iterable[str]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Header and rows of the table of GPU operations as nvprof's CSV has them, which begins with a row of units."""
    titles: list[str] = []
    rows = [[_UNITS.get(title, "") for title in _OF_TRACE]]
    for line in lines:
        if _TRACE.match(line):
            titles = re.split("  +", line.strip())
            continue
        cells = re.split("  +", line.strip(), maxsplit=len(titles) - 1) if titles else []
        if not cells or len(cells) != len(titles) or not in_us(cells[0]):
            continue
        told = dict(zip(titles, ("" if cell == "-" else cell for cell in cells), strict=True))
        row = {title.rstrip("*"): cell for title, cell in told.items()}
        row["Start"], row["Duration"] = in_us(row["Start"]), in_us(row["Duration"])
        row["Registers Per Thread"] = row.get("Regs", "")
        row["Static SMem"], row["Dynamic SMem"] = (
            _in_bytes(row.get("SSMem", "")),
            _in_bytes(row.get("DSMem", "")),
        )
        row["Size"] = _in_bytes(row.get("Size") or row.get("Unified Memory", ""))
        for what in ("Grid", "Block"):
            sides = row[f"{what} Size"].strip("()").split()
            row |= {f"{what} {axis}": side for axis, side in zip("XYZ", sides, strict=False)}
        rows.append([row.get(title, "") for title in _OF_TRACE])
    return _OF_TRACE, rows


def _in_bytes(size: str) -> str:
    found = _SIZE.fullmatch(size)
    return f"{float(found[1]) * BYTES[found[2]]:.0f}" if found else ""


def _is_header(line: str) -> str:
    """The header that a line is, its words one blank apart; empty for other lines."""
    words = " ".join(line.split())
    return words if words in (_METRICS, _PAGES) or words in _SUMMARIES else ""


def _row_of_pages(text: str) -> tuple[str, ...]:
    """The cells of a row about pages of unified memory, faults having no size; empty for other lines."""
    cells = text.split(None, 6)
    if len(cells) < 7 or not cells[0].isdecimal() or not (time := in_us(cells[5])):
        return ()
    return (cells[6], cells[0], _in_bytes(cells[1]), _in_bytes(cells[4]), time)


def _row(text: str, kind: str) -> tuple[str, ...]:
    """The cells of a row of a summary, whose kind the row itself or one above it states; empty for other lines."""
    stated = next((each for each in _TYPES if text.startswith(each)), "")
    cells = text.removeprefix(stated).split(None, len(_OF_SUMMARY) - 2)
    if len(cells) < len(_OF_SUMMARY) - 1 or not cells[0].endswith("%"):
        return ()
    times = [in_us(cells[at]) for at in (1, 3, 4, 5)]
    if not all(times):
        return ()
    return (stated.rstrip(":") or kind, cells[0].rstrip("%"), times[0], cells[2], *times[1:], cells[6])
