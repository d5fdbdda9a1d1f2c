"""What a trace file says about itself outside its event list: devices, rank, settings, producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import msgspec

from parsers.files.decoders import UNREADABLE
from parsers.model import CallPlace, Capture, Device, ProcessGroup
from parsers.model.arrays import MAX_NUMBER
from parsers.model.late import dataclass

_KINETO_KEYS = ("schemaVersion", "deviceProperties", "baseTimeNanoseconds", "distributedInfo", "trace_id")
XPROF = "XProf"
_OF_ROCPROF = "HSASystemAttributes."  # what rocprof writes of the system, key by key
RECORDED_BY = "recordedBy"  # who recorded what Stallscope converted
PLACES = "stallscopePlaces"  # viewer/capture/torch_runner/stallscope_recorder/places.py
MACHINE = "stallscopeMachine"  # viewer/capture/torch_runner/stallscope_recorder/machine.py
_MAX_CORES = 65_536
_MAX_PLACES, _MAX_PATH_LENGTH = 1_000, 4_096
_EPOCH_2000_US = 946_684_800_000_000
_MAX_GROUPS = 10_000
_MAX_NAME_LENGTH = 200
_MAX_PROCESSORS = 4_096  # of a GPU; the largest have a few hundred


@dataclass(frozen=True, slots=True)
class Header:
    """The top-level keys, except the event list."""

    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_kineto(self) -> bool:
        return any(key in self.keys for key in _KINETO_KEYS)

    @property
    def is_xprof(self) -> bool:
        """Whether JAX or TensorFlow recorded it."""
        metadata = self.keys.get("metadata")
        return isinstance(metadata, dict) and "highres-ticks" in metadata

    @property
    def producer(self) -> str:
        """Who wrote the file, as far as it says."""
        keys = self.keys
        if isinstance(recorder := keys.get(RECORDED_BY), str) and recorder:
            return recorder[:_MAX_NAME_LENGTH]
        if self.is_kineto:
            version = keys.get("pytorch_version") or keys.get("torch_version")
            return f"PyTorch {version} profiler" if isinstance(version, str) else "PyTorch profiler (Kineto)"
        if "viztracer_metadata" in keys:
            return "VizTracer"
        if self.is_xprof:
            return XPROF
        system = keys.get("otherData")
        if isinstance(system, dict) and any(str(key).startswith(_OF_ROCPROF) for key in system):
            return "rocprof"
        return "Chrome trace"

    @property
    def rank(self) -> int | None:
        value = self._distributed.get("rank")
        return value if isinstance(value, int) and 0 <= value < 1 << 31 else None

    @property
    def world_size(self) -> int | None:
        value = self._distributed.get("world_size")
        return value if isinstance(value, int) and value > 0 else None

    @property
    def groups(self) -> tuple[ProcessGroup, ...]:
        listed = self._distributed.get("pg_config")
        found = []
        for each in listed[:_MAX_GROUPS] if isinstance(listed, list) else []:
            if not isinstance(each, dict) or not isinstance(name := each.get("pg_name"), str):
                continue
            about, ranks = each.get("pg_desc"), each.get("ranks")
            whole = isinstance(ranks, list) and all(type(rank) is int and rank >= 0 for rank in ranks)
            found.append(
                ProcessGroup(
                    name, about if isinstance(about, str) else "", tuple(ranks) if whole and ranks else ()
                )
            )
        return tuple(found)

    @property
    def host(self) -> str:
        value = self.keys.get("host_name") or self.keys.get("hostname")
        return value if isinstance(value, str) else ""

    @property
    def _distributed(self) -> Mapping[str, Any]:
        value = self.keys.get("distributedInfo")
        return value if isinstance(value, dict) else {}

    def epoch_ns(self, first_ns: int) -> int | None:
        """Wall clock (ns) of the file's time zero; ``first_ns`` is its earliest event."""
        base = self.keys.get("baseTimeNanoseconds")
        if isinstance(base, int) and 0 < base < MAX_NUMBER and first_ns < _EPOCH_2000_US * 1000:
            return base
        return 0 if first_ns >= _EPOCH_2000_US * 1000 else None

    def capture(self) -> Capture:
        """The profiler's settings; Kineto writes a key only for what was on."""
        stated = {name: self.keys.get(name) for name in ("with_stack", "profile_memory", "record_shapes")}
        settings = {name: bool(value) for name, value in stated.items() if isinstance(value, (int, bool))}
        if settings:
            settings = {name: settings.get(name, False) for name in stated}
        return Capture(
            **settings, places=self._places, cores=self._count("cores"), threads=self._count("threads")
        )

    def _count(self, what: str) -> int | None:
        """What the program may use, as this program's own recorder noted it."""
        stated = self.keys.get(MACHINE)
        count = stated.get(what) if isinstance(stated, dict) else None
        return count if type(count) is int and 0 < count <= _MAX_CORES else None

    @property
    def _places(self) -> tuple[CallPlace, ...]:
        """Where the program calls what was recorded, as this program's own recorder noted it."""
        listed = self.keys.get(PLACES)
        found = []
        for each in listed[:_MAX_PLACES] if isinstance(listed, list) else []:
            match each:
                case [str(name), str(file), int(line), str(function), int(count)] if (
                    type(line) is type(count) is int and line > 0 < count
                ):
                    most = _MAX_NAME_LENGTH
                    file = file[:_MAX_PATH_LENGTH]
                    found.append(CallPlace(name[:most], file, line, function[:most], count))
        return tuple(found)

    def devices(self) -> list[Device]:
        listed = self.keys.get("deviceProperties")
        found = []
        for each in listed if isinstance(listed, list) else []:
            if not isinstance(each, dict) or not isinstance(number := each.get("id"), int):
                continue
            major, minor = each.get("computeMajor"), each.get("computeMinor")
            memory = each.get("totalGlobalMem")
            name = each.get("name")
            found.append(
                Device(
                    id=number,
                    name=name if isinstance(name, str) else "",
                    rank=self.rank,
                    memory_bytes=memory if isinstance(memory, int) else None,
                    sm_count=_processors(each),
                    compute_capability=(major, minor)
                    if isinstance(major, int) and isinstance(minor, int)
                    else None,
                )
            )
        return found


def _processors(device: Mapping[str, Any]) -> int | None:
    """The number of multiprocessors, under whichever name it is stated; one that no GPU has is no such number."""
    stated = (device.get("numSms"), device.get("multiProcessorCount"))
    return next((each for each in stated if type(each) is int and 0 < each <= _MAX_PROCESSORS), None)


def parse_header(header: bytes, trailer: bytes) -> Header:
    """The keys before and after the event list; what cannot be read is left out."""
    before = header.rstrip(b" \t\r\n,")
    after = trailer.strip(b" \t\r\n,")
    if not after.endswith(b"}"):
        after = after[: after.rfind(b"}") + 1]
    keys: dict[str, Any] = {}
    for text in (before + b"}", b"{" + after):
        try:
            part = msgspec.json.decode(text)
        except UNREADABLE:
            continue
        if isinstance(part, dict):
            keys |= part
    return Header(keys)
