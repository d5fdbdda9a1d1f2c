"""GPU operations as ``nsys stats -r cuda_gpu_trace`` writes them as CSV: kernels and copies without their calls."""

from __future__ import annotations

from parsers.csv_tables import has_columns, read_csv
from parsers.files.base import Parser, Source, parser
from parsers.gpu_tables import add_operations
from parsers.model import Progress, Trace
from parsers.model.builder import TraceBuilder

_COLUMNS = (("startns",), ("durationns",), ("strm",), ("name",), ("grdx",), ("device",))


@parser
class NsysGpuTable(Parser):
    """Recognised by the names of its columns."""

    format = "nsys-gpu-table"
    title = "Nsight Systems"
    files = "CSV of nsys stats -r cuda_gpu_trace"
    suffixes = (".csv",)
    priority = 57
    excerpt_of = frozenset({"nsys-sqlite", "nsys-report"})

    def recognises(self, source: Source) -> bool:
        return has_columns(source.head, *_COLUMNS)

    def read(self, source: Source, progress: Progress) -> Trace:
        builder = TraceBuilder()
        table = read_csv(source, builder.quality, progress.part(0.0, 0.8))
        add_operations(
            table,
            builder,
            source.path,
            "To see why the GPU idles, open the report it was made from: nsys export --type sqlite REPORT.nsys-rep",
        )
        builder.came_from(source.name, self.format, "Nsight Systems (nsys stats)")
        return builder.build(progress.part(0.8, 1.0))
