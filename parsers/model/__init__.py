"""The shared model of a recording: numpy columns and small frozen dataclasses, nothing else."""

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
from parsers.model.events import EventTable, Links
from parsers.model.kernels import KernelProfile, KernelSource, RuleResult, SourcePlace
from parsers.model.lanes import (
    AUTOGRAD,
    GPU_LANES,
    GPU_WORK,
    Capture,
    Device,
    EventKind,
    Lane,
    LaneKind,
    ProcessGroup,
    Rank,
    TraceInput,
)
from parsers.model.progress import Progress
from parsers.model.quality import KERNEL_COUNTERS, Effect, Quality, QualityNote, QualityRecorder
from parsers.model.results import ResultColumn, ResultTable
from parsers.model.trace import SOURCE_BITS, ArgumentSource, Trace
