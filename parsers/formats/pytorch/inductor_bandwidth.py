"""What PyTorch's compiler prints when a generated module measures its kernels: time and memory bandwidth of each."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.files.base import Parser, Source, parser
from parsers.files.texts import utf8
from parsers.model import Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.regex import regex
from parsers.model.results import Cell, TimeOf, Totals
from parsers.printed_profile import read_profile

_TITLE = regex(r"TRITON KERNELS BANDWIDTH INFO \(")
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_ROW = regex(rf"\s*{_NUMBER} ?ms\s+{_NUMBER} ?GB\s+{_NUMBER} ?GB/s\s+{_NUMBER} ?%\s+(\w+)\s*$")
_COLUMNS = (
    ResultColumn("Kernel"),
    ResultColumn("Time", "ms"),
    ResultColumn("Share", "%"),
    ResultColumn("Moved", "GB"),
    ResultColumn("Bandwidth", "GB/s"),
)


@parser
class InductorBandwidth(Parser):
    """Recognised by the title above its rows."""

    format = "inductor-bandwidth"
    accompanies = True
    title = "PyTorch compiler logs"
    files = "bandwidths of Triton kernels (TORCHINDUCTOR_PROFILE=1)"
    suffixes = (".txt", ".log")
    priority = 66

    def recognises(self, source: Source) -> bool:
        return _TITLE.search(utf8(source.head).decode("latin-1")) is not None

    def read(self, source: Source, progress: Progress) -> Trace:
        return read_profile(source, progress, (self.format, "PyTorch"), _tables)


def _tables(content: bytes) -> Iterator[ResultTable]:
    rows: list[tuple[Cell, ...]] = []
    for line in [*utf8(content).decode("utf-8", "replace").splitlines(), "TRITON KERNELS BANDWIDTH INFO ("]:
        if _TITLE.match(line):
            totals = Totals(TimeOf.GPU, 0, 1, 2)
            yield ResultTable("Kernels of PyTorch's compiler", _COLUMNS, tuple(rows), totals=(totals,))
            rows = []
        elif found := _ROW.match(line):
            ms, moved, bandwidth, share = (float(found[place]) for place in range(1, 5))
            rows.append((found[5], ms, share, moved, bandwidth))
