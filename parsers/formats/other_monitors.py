"""Logs of Intel's and Huawei's monitors: xpu-smi dump and npu-smi info watch, as counters."""

from __future__ import annotations

from parsers.files.base import Accompanying, Source, parser
from parsers.files.texts import decoded, utf8
from parsers.files.unpacking_limit import whole_content
from parsers.model import Effect, Malformed, Progress, Trace, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.late import dataclass, regex
from parsers.model.units import NS_PER_S
from parsers.smi.clock import local_ns, moment_of
from parsers.smi.columns import Quantity
from parsers.smi.readings import Readings

_IN_HEADERS = (b"DeviceId", b"ChipId(Idx)")
_NUMBER, _OF_NPU = regex(r"\d{1,5}"), regex(r"\s*\d{1,5}\s+(\d{1,3})\s")
_MIB = 1048576.0
_COLUMNS = regex(r" *, *|(?<=\))\s+")
_CELLS = regex(r" *, *|\s+")
_XPU = regex(r"Timestamp, ?DeviceId, ?[A-Z][^\n]*")
_NPU = regex(r"NpuID\(Idx\)\s+ChipId\(Idx\)\s[^\n]*")
_BUSY, _MEMORY_SHARE = Quantity("GPU utilization", "%"), Quantity("memory in use", "%")
_QUANTITIES = {
    "GPU Utilization (%)": _BUSY,
    "GPU Power (W)": Quantity("power", "W"),
    "GPU Frequency (MHz)": Quantity("graphics clock", "MHz"),
    "GPU Core Temperature (Celsius Degree)": Quantity("temperature", "C"),
    "GPU Core Temperature (C)": Quantity("temperature", "C"),
    "GPU Memory Temperature (Celsius Degree)": Quantity("memory temperature", "C"),
    "GPU Memory Temperature (C)": Quantity("memory temperature", "C"),
    "GPU Memory Utilization (%)": _MEMORY_SHARE,
    "GPU Memory Bandwidth Utilization (%)": Quantity("memory controller utilization", "%"),
    "GPU Memory Used (MiB)": Quantity("framebuffer used", "B", _MIB),
    "AI Core(%)": _BUSY,
    "Pwr(W)": Quantity("power", "W"),
    "Temp(C)": Quantity("temperature", "C"),
    "Memory(%)": _MEMORY_SHARE,
    "Memory BW(%)": Quantity("memory controller utilization", "%"),
}


@dataclass(frozen=True, slots=True)
class _Tool:
    """One of the two, and what it calls a device."""

    name: str
    device: str


_XPU_SMI, _NPU_SMI = _Tool("xpu-smi", "GPU"), _Tool("npu-smi", "NPU")


@parser
class OtherMonitors(Accompanying):
    """Recognised by the header, which stands in one of the first lines."""

    format = "other-monitors"
    title = "xpu-smi and npu-smi"
    files = "output of xpu-smi dump and npu-smi info watch, as counters"
    suffixes = (".csv", ".txt", ".log")
    priority = 69

    def recognises(self, source: Source) -> bool:
        head = utf8(source.head)
        return any(each in head for each in _IN_HEADERS) and any(
            _tool_of(line) is not None for line in head.decode("latin-1").splitlines()
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        content = whole_content(
            source, progress.part(0.0, 0.5), "reading the device log", "Log fewer readings."
        )
        lines = decoded(content).splitlines()
        chips = [int(found[1]) for found in map(_OF_NPU.match, lines) if found]
        log = _Log(Readings(), max(chips, default=0) + 1)
        for place, line in enumerate(lines, 1):
            log.line(line.strip(), place)
        if log.tool is None or not (counters := log.readings.counters(log.tool.device)):
            raise Malformed(
                source.path, "The log has a header but no readings.", "Let the tool run for a few seconds."
            )
        builder = TraceBuilder(epoch_ns=0 if log.zoned else None)
        log.readings.account(builder.quality, "Lines that do not fit the header were left out.")
        if not log.zoned:
            builder.quality.note(
                "no date",
                Effect.NOTED,
                "The log contains no dates, so it has its own time axis."
                if log.timed
                else "The log contains no times, so its readings are assumed to be 1 s apart.",
            )
        builder.counters += counters
        builder.inputs.append(TraceInput(source.name, self.format, log.tool.name))
        builder.sources.append(None)
        return builder.build(progress.part(0.9, 1.0))


def _tool_of(line: str) -> _Tool | None:
    text = line.strip().lstrip("\ufeff")
    return _XPU_SMI if _XPU.fullmatch(text) else _NPU_SMI if _NPU.fullmatch(text) else None


class _Log:
    """Reads lines in order; the header may come again."""

    def __init__(self, readings: Readings, chips: int) -> None:
        self.readings = readings
        self.tool: _Tool | None = None
        self.timed = self.zoned = False
        self._columns: list[str] = []
        self._chips = chips
        self._samples: dict[int, int] = {}

    def line(self, line: str, place: int) -> None:
        if (tool := _tool_of(line)) is not None:
            self.tool, self._columns = tool, _COLUMNS.split(line.lstrip("\ufeff"))
            return
        if self.tool is None or not line:
            return
        cells = _CELLS.split(line)
        device = self._device(cells) if len(cells) == len(self._columns) else None
        moment = None if device is None else self._moment(device, cells[0])
        if device is None or moment is None:
            self.readings.unusable(line, place)
            return
        self.readings.lines += 1
        for column, cell in zip(self._columns, cells, strict=True):
            if (quantity := _QUANTITIES.get(column)) is not None:
                self.readings.add(device, column, quantity, moment, cell)

    def _device(self, cells: list[str]) -> int | None:
        """The number of a GPU; that of an NPU's chip as Ascend counts them: all chips of one card after another."""
        first, second = cells[:2]
        if self.tool is _XPU_SMI:
            return int(second) if _NUMBER.fullmatch(second) else None
        if not (_NUMBER.fullmatch(first) and _NUMBER.fullmatch(second)):
            return None
        return int(first) * self._chips + int(second)

    def _moment(self, device: int, stated: str) -> int | None:
        if self.tool is _NPU_SMI:
            count = self._samples[device] = self._samples.get(device, -1) + 1
            return count * NS_PER_S
        self.timed = True
        moment, zoned = moment_of(stated)
        self.zoned = self.zoned or zoned
        return local_ns("", stated) if moment is None else moment
