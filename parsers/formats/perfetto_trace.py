"""Perfetto's binary traces (.pftrace), from Perfetto's own tools, programs with its SDK, and ROCm's recorders."""

from __future__ import annotations

from parsers.files.base import Parser, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import LimitedStream, UnpackingLimit
from parsers.model import Effect, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder

_PACKET, _MAX_VARINT, _MIN_PACKETS = 0x0A, 5, 3
_BYTES_A_BYTE = 20  # memory for each byte of the file: fields of packets and of events as columns


@parser
class PerfettoTrace(Parser):
    """Recognised as packets of field 1, one after the other: the outermost message of a trace."""

    format = "perfetto"
    title = "Perfetto"
    files = "binary traces (.pftrace), of ROCm too: slices, GPU work and counters"
    suffixes = (".pftrace", ".perfetto-trace")
    priority = 90
    version = 3

    def recognises(self, source: Source) -> bool:
        return _is_packets(source.head)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.files.unpacking_limit import require_memory
        from parsers.perfetto.gpu_events import add_gpu_counters, add_gpu_work
        from parsers.perfetto.inflating import inflated
        from parsers.perfetto.packets import read_packets
        from parsers.perfetto.timeline import ANNOTATIONS, TrackTimeline

        builder = TraceBuilder()
        with open_bytes(source) as file:
            limited = LimitedStream(file, source, progress.part(0.0, 0.1), "reading the trace")
            content = b"".join(iter(limited.read, b""))
        unpacking = UnpackingLimit(source, holds_packed=True)
        content, damaged = inflated(content, unpacking, progress.part(0.1, 0.2))
        require_memory(source.path, len(content), _BYTES_A_BYTE, "Record a shorter time.")
        packets = read_packets(content, ANNOTATIONS, progress.part(0.2, 0.7))
        TrackTimeline(builder, packets).add()
        add_gpu_work(builder, packets, progress.part(0.7, 0.75))
        add_gpu_counters(builder, packets, progress.part(0.75, 0.8))
        if limited.damage or not packets.whole:
            builder.quality.note(
                "cut",
                Effect.NOTED,
                "the trace is cut off or damaged; what comes before is shown",
                limited.damage,
            )
        if damaged:
            words = "compressed packets, each with many events, could not be unpacked completely"
            builder.quality.note("damaged stretch", Effect.NOTED, words, count=damaged)
        if not builder.lanes and not builder.counters:
            raise Malformed(
                source.path,
                "This Perfetto trace contains no slices, GPU work or counters.",
                "Record track events, or open it in Perfetto: data from the system's own sources is not shown here.",
            )
        builder.came_from(source.name, self.format, "Perfetto")
        return builder.build(progress.part(0.8, 1.0))


def _is_packets(head: bytes) -> bool:
    at = packets = 0
    while at < len(head) and head[at] == _PACKET:
        size = shift = 0
        for index, byte in enumerate(head[at + 1 : at + 1 + _MAX_VARINT], at + 2):
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                at = index + size
                break
        else:
            return False
        packets += 1
    return packets >= _MIN_PACKETS and (at >= len(head) or b"\0" in head)
