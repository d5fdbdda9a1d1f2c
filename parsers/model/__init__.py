"""The shared model of a recording: numpy columns and small frozen dataclasses, nothing else."""

from importlib import import_module
from typing import TYPE_CHECKING

from parsers.model.derived import DerivedValues, derived, derived_by
from parsers.model.errors import (
    SYSTEM_ERRORS,
    Cancelled,
    Excessive,
    Malformed,
    TraceError,
    UnknownFormat,
    refused_by_system,
)
from parsers.model.progress import Progress

if TYPE_CHECKING:
    from parsers.model.arrays import BOOL, F64, I8, I32, I64, U8, U32, U64, Array
    from parsers.model.attributes import (
        Attribute,
        AttributeColumn,
        CollectiveState,
        CopyKind,
        MemoryKind,
        SyncKind,
    )
    from parsers.model.counters import Counter
    from parsers.model.events import EventTable, Links
    from parsers.model.kernels import KernelProfile, KernelSource, RuleResult, SourcePlace
    from parsers.model.lanes import (
        AUTOGRAD,
        GPU_LANES,
        GPU_WORK,
        CallPlace,
        Capture,
        Device,
        EventKind,
        Lane,
        LaneKind,
        ProcessGroup,
        Rank,
        TraceInput,
    )
    from parsers.model.quality import KERNEL_COUNTERS, Effect, Quality, QualityNote, QualityRecorder
    from parsers.model.results import ResultColumn, ResultTable
    from parsers.model.trace import SOURCE_BITS, ArgumentSource, Trace
else:
    _HOMES = "arrays", "attributes", "lanes", "quality", "events", "trace", "counters", "results", "kernels"

    def __getattr__(name: str) -> object:
        """What stands on numpy, found when it is first asked for: help, refusals and kept answers need none of it."""
        for home in () if name.startswith("_") else _HOMES:
            found = getattr(import_module(f"{__name__}.{home}"), name, None)
            if found is not None:
                globals()[name] = found
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
