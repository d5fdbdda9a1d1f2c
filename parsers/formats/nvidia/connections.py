"""How GPUs are connected: what ``nvidia-smi topo -m`` prints, and logs of NCCL_DEBUG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from parsers.files.base import Accompanying, Source, parser
from parsers.files.texts import decoded, utf8
from parsers.model import Malformed, Progress, ResultColumn, ResultTable, Trace
from parsers.model.late import regex
from parsers.model.results import Cell
from parsers.nccl_messages import NCCL_LINE, WATCHDOG, nccl_tables
from parsers.printed_profile import PrintedProfile, read_profile

_HEADER = regex(r"\s*GPU0\b.*\bCPU Affinity\b")
_COLOUR = regex(r"\x1b\[\d{0,3}m")
_GPU = regex(r"GPU\d{1,3}$")
_LINK = regex(r"X|NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC")
_MEANS = {  # as the legend below the table says
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the CPU's PCIe bridge",
    "NODE": "PCIe bridges of one CPU",
    "SYS": "the link between CPUs",
    "SOC": "the link between CPUs",
}


@parser
class SmiTopology(PrintedProfile):
    """Recognised by the header of its table."""

    format = "smi-topology"
    title = "nvidia-smi, dcgmi and tegrastats"
    files = "links between GPUs (nvidia-smi topo -m)"
    suffixes = (".txt", ".log")
    priority = 66
    producer = "nvidia-smi"

    def recognises(self, source: Source) -> bool:
        return b"CPU Affinity" in source.head and any(
            map(_HEADER.match, _lines(utf8(source.head).decode("latin-1")))
        )

    def tables(self, text: str) -> Iterator[ResultTable]:
        lines = iter(_lines(text))
        for line in lines:
            if not _HEADER.match(line):
                continue
            ends = line.split("CPU Affinity")[0].split()
            rows: list[tuple[Cell, ...]] = []
            for row in lines:
                name, *links = row.split()[: len(ends) + 1] or [""]
                if len(links) != len(ends) or not all(map(_LINK.fullmatch, links)):
                    break
                rows.append((name, *links))
            columns = tuple(map(ResultColumn, ("From", *ends)))
            yield ResultTable(_title(rows), columns, tuple(rows))


def _lines(text: str) -> list[str]:
    return _COLOUR.sub("", text).splitlines()


def _title(rows: list[tuple[Cell, ...]]) -> str:
    """How many pairs of GPUs are connected by what."""
    gpus = [row for row in rows if _GPU.match(str(row[0]))]
    pairs = Counter(
        str(row[place + 1]) for index, row in enumerate(gpus) for place in range(index + 1, len(gpus))
    )
    told = [
        f"{_named(link)} for {count} of {pairs.total()} pairs" if len(pairs) > 1 else _named(link)
        for link, count in pairs.most_common()
    ]
    return f"Links between {len(gpus)} GPUs: {', '.join(told)}" if told else "Links of 1 GPU"


def _named(link: str) -> str:
    return f"{_MEANS[link]} ({link})" if link in _MEANS else f"NVLink ({link})"


@parser
class NcclLog(Accompanying):
    """Recognised by NCCL's own lines, or torch's watchdog of it, after every format that may hold some of them."""

    format = "nccl-log"
    title = "NCCL"
    files = "logs of NCCL_DEBUG=INFO: how ranks are connected, and warnings; collectives that timed out"
    suffixes = (".log", ".txt")
    priority = 67
    version = 2

    def recognises(self, source: Source) -> bool:
        return any(
            (b" NCCL " in each and NCCL_LINE.search(each.decode("latin-1"))) or WATCHDOG in each
            for each in source.printed
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        def tables(content: bytes) -> list[ResultTable]:
            found = [*nccl_tables(decoded(content))]
            if not found:
                raise Malformed(
                    source.path,
                    "This log of NCCL does not say how its ranks are connected.",
                    "Set NCCL_DEBUG=INFO, and copy the log from the start of the program on.",
                )
            return found

        return read_profile(source, progress, (self.format, "NCCL"), tables)
