"""What trtexec prints of an engine: inferences a second, and the parts of one."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.files.base import Source, parser
from parsers.model.late import regex
from parsers.model.results import Cell, ResultColumn, ResultTable
from parsers.model.units import NS_PER_MS, duration, three_digits
from parsers.printed_profile import PrintedProfile

_NUMBER = r"\d{1,12}(?:\.\d{1,9})?(?:e[+-]\d{1,3})?"
_FIGURE = rf"(?P<figure>min|max|mean|median|percentile\(\d{{1,2}}%\)) ?[=:] (?P<ms>{_NUMBER}) ms"
_NAMES = (
    "Latency", "Host Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "GPU Compute",
    "D2H Latency",
)  # fmt: skip
_SAID = regex(r"^[^\n]{0,60}?\[I\] (?P<said>[^\n]{1,400})$", 8)
_LINE = regex(rf"(?P<name>{'|'.join(_NAMES)})(?::? (?P<rest>[^\n]*)|\s*)$")
_EACH = regex(_FIGURE)
_RATE = regex(rf"[Tt]hroughput: (?P<rate>{_NUMBER}) qps")
_FIGURES = ("median", "mean", "min", "max", "percentile(99%)")
_COLUMNS = (
    ResultColumn("part"),
    *(ResultColumn(name, "ms") for name in ("median", "mean", "min", "max", "p99")),
)
_CALLED = {  # as newer versions call them
    "Host Latency": "Latency",
    "GPU Compute": "GPU Compute Time",
}


@parser
class TrtexecText(PrintedProfile):
    """Recognised by the summary at its end: its heading, or the parts of a time that older versions list."""

    format = "trtexec-text"
    title = "benchmarks"
    files = "output of trtexec"
    suffixes = (".txt", ".log")
    priority = 46
    producer = "trtexec"

    def recognises(self, source: Source) -> bool:
        return any(
            b"[I] " in each
            and (
                b"=== Performance summary ===" in each
                or (b"[I] Host Latency" in each and b"[I] GPU Compute" in each)
            )
            for each in source.printed
        )

    def tables(self, text: str) -> Iterator[ResultTable]:
        parts: dict[str, dict[str, float]] = {}
        rate = 0.0
        now = ""
        for each in _SAID.finditer(text):
            said = each["said"].strip()
            line = _LINE.match(said)
            if line is not None:
                now = _CALLED.get(line["name"], line["name"])
                said = line["rest"] or ""
            figures = {found["figure"]: float(found["ms"]) for found in _EACH.finditer(said)} if now else {}
            if figures:
                parts.setdefault(now, {}).update(figures)
            elif (stated := _RATE.match(said)) is not None:
                rate = float(stated["rate"])
        rows: list[tuple[Cell, ...]] = [
            (name, *(figures.get(each) for each in _FIGURES))
            for name, figures in parts.items()
            if any(figures.values())
        ]
        if rows:
            yield ResultTable(_title(parts, rate), _COLUMNS, tuple(rows))


def _title(parts: dict[str, dict[str, float]], rate: float) -> str:
    """What an inference takes, and where: launching it takes as long as the GPU works where the CPU is the limit."""
    whole, gpu, enqueue = (
        parts.get(name, {}).get("median", 0.0) * NS_PER_MS
        for name in ("Latency", "GPU Compute Time", "Enqueue Time")
    )
    told = ["trtexec"]
    if rate:
        told.append(f"{three_digits(rate)} inferences a second")
    if whole:
        told.append(f"{duration(whole)} each (median)")
    if gpu:
        told.append(f"{duration(gpu)} of it on the GPU" if whole else f"{duration(gpu)} on the GPU (median)")
    if enqueue:
        told.append(f"launching takes {duration(enqueue)}")
        if gpu and enqueue >= gpu:
            told[-1] += ", so the CPU is the limit (--useCudaGraph)"
    return ", ".join(told).replace("trtexec, ", "trtexec: ", 1)
