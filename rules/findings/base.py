"""What a rule is, what it finds, and how rules are discovered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from parsers.model.catalogs import loading, modules_of
from parsers.model.late import dataclass
from rules.findings.category import Category as Category
from rules.remedies.remedy import Remedy as Remedy
from rules.remedies.remedy import remedy as remedy
from rules.terms import MAJORITY, NOBODY, Culprit, SourceLine
from rules.wording.words import ANYBODY, Headline, Reader, Words, ours, said, told

if TYPE_CHECKING:
    from parsers.model import Trace
    from rules.analysis.analysis import Analysis


class Severity(StrEnum):
    """How much of the analysed window a finding could give back."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


LOUD = (Severity.HIGH, Severity.MEDIUM)
MAX_SPEEDUP = 1_000.0  # of a larger one not even the order of magnitude is known
SEVERITY_SHARE = {Severity.HIGH: 0.15, Severity.MEDIUM: 0.05, Severity.LOW: 0.01}  # ceiling / window


def severity_of(ceiling_ns: float, window_ns: float) -> Severity:
    """Severity from the ceiling's share of the window."""
    share = ceiling_ns / window_ns if window_ns > 0 else 0.0
    return next((level for level, least in SEVERITY_SHARE.items() if share >= least), Severity.INFO)


def severity_of_once(ceiling_ns: float, window_ns: float) -> Severity:
    """That of what comes once, such as start-up: never high, unless it is most of the recording."""
    severity = severity_of(ceiling_ns, window_ns)
    return Severity.MEDIUM if severity is Severity.HIGH and ceiling_ns <= MAJORITY * window_ns else severity


class Need(Enum):
    """What a rule cannot do without; the value says what is missing when it is."""

    value: Words

    GPU_OPERATIONS = "no timeline of a GPU was recorded"
    GPU_EVENTS = "the recording does not contain a complete run"  # GPU operations of a run that can be judged
    API_CALLS = ours("no $CUDA_API calls were recorded")
    LAUNCH_LINKS = "no kernel is linked to the call that launched it"
    CPU_EVENTS = "no CPU operators or regions were recorded"
    SEVERAL_RANKS = "only one rank"
    COLLECTIVES = "no communication kernels"
    SHAPES = "tensor shapes were not recorded"
    MEMORY = "memory use was not recorded"
    DEVICE_LOG = "no GPU log"
    ALLOCATIONS = "no memory snapshot was opened"
    FLIGHT_RECORDER = "no flight recorder dump"
    COMPILER_LOG = "no compiler log"
    SERVED_REQUESTS = "no inference server trace"
    EXECUTION_TRACE = "no execution trace"
    GPU_METRICS = "no GPU metrics were sampled"
    KERNEL_TIMES = "no profile of kernel times"
    LOAD_TEST = "no load test of a server"
    PRINTED_TIMES = "no table of times that a profiler printed"
    PRINTED_METRICS = "no table of metrics that nvprof printed"
    INSIDE_KERNELS = "no kernel was measured from the inside"
    SAMPLED_STACKS = "no CPU stack samples"
    CLOCKS = ours("no clocks were logged: open an $GpuMonitor log from the same time alongside it")
    KERNEL_COUNTERS = ours("$CountersOfNvidia")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One place on the timeline; ``event`` is an index into the event table, -1 for a gap between events."""

    lane: int
    start: int
    end: int
    name: str
    event: int = -1


@dataclass(frozen=True, slots=True)
class Finding:
    """One answer to "why is it slow": what, how much at most, where, what to change, when it may be wrong.

    Times are ns. ``ceiling_ns`` is the most the analysed window of ``window_ns`` could shrink if this alone were
    gone; ``intervals`` are the disjoint (start, end) times it rests on, so that ceilings can be combined without
    counting twice.

    What it says are values: a headline, a culprit, a remedy, and words that ``rules.wording`` says to its ``reader`` in
    ``title``, ``explanation``, ``advice``, ``code`` and ``cannot_tell``. Nobody reads these sentences back.
    """

    rule: str
    category: Category
    severity: Severity
    headline: Headline
    account: Words  # what happens, with its numbers
    remedy: Remedy
    ceiling_ns: int
    window_ns: int
    culprit: Culprit = NOBODY
    because: str = ""  # one short sentence, where the culprit's name alone does not say what it does
    rank: int | None = None
    device: int | None = None  # index into Trace.devices
    kernel: str | None = None  # KernelProfile.id
    evidence: tuple[Evidence, ...] = ()
    intervals: Sequence[tuple[int, int]] = ()
    after_steps: tuple[int, ...] = ()  # bytes that are held after each step, where that is what it speaks of
    unknown: tuple[
        Words, ...
    ] = ()  # what this trace does not say, and which capture would; the first that fits
    confidence: str = "high"  # "high", "medium" or "low"
    divided: bool = False  # several pieces of code share it, and none has half of it
    of_the_cpu_alone: bool = False  # no GPU waits meanwhile, and its ceiling is less by what remains
    of_recording: bool = False  # the recording would be shorter without this time, the run itself no faster
    at: SourceLine | None = None  # the line to open, where the recording says which
    once: float = (
        0.0  # the part of it that is one wait, like no other here and shorter than what the GPU computes
    )
    usual_share: float | None = None  # of a step without the recorder; None where that was not replayed
    with_delays: float = 0.0  # the part of such a step that goes with it: its own time and what it delays
    fix: str = ""  # the id of the promise that takes it away
    leads: bool = True  # among what that promise takes away it tells best what is wrong
    reader: Reader = ANYBODY

    @property
    def title(self) -> str:
        return self.headline.said(self.reader)

    @property
    def title_beside_its_cost(self) -> str:
        """The title without a share of the step that stands beside it."""
        return self.headline.beside_its_cost(self.reader)

    @property
    def title_in_short(self) -> str:
        """The title with its share of a step in one figure."""
        return self.headline.in_short(self.reader)

    @property
    def explanation(self) -> str:
        """What happens, in sentences."""
        return said(self.account, self.reader)

    @property
    def advice(self) -> tuple[str, ...]:
        """What its reader can try, the most useful first."""
        return self.remedy.advice_for(self.reader)

    @property
    def code(self) -> str:
        """A snippet that shows the change; empty where there is none for its reader."""
        return self.remedy.code_for(self.reader)

    @property
    def cannot_tell(self) -> str:
        """What this recording does not say, and which would."""
        return next(iter(told(self.unknown, self.reader)), "")

    @property
    def share(self) -> float:
        """The part of a step that is its own time: without the recorder, where that is known."""
        return self.recorded_share if self.usual_share is None else self.usual_share

    @property
    def cost(self) -> float:
        """The part of a step that it could give back at most: its own time and what it delays."""
        return max(self.share, self.with_delays)

    @property
    def recorded_share(self) -> float:
        """The same part of the window as recorded."""
        return self.ceiling_ns / max(self.window_ns, 1)

    @property
    def speedup_at_most(self) -> float | None:
        """T / (T - R); None where hardly anything would be left, so that the share alone says something."""
        if not self.window_ns:
            return 1.0
        left = 1.0 - self.cost
        return 1.0 / left if left * MAX_SPEEDUP >= 1.0 else None


class Rule(Protocol):
    """One check. ``explanation`` has the five fixed headings of ``EXPLANATION_HEADINGS``."""

    id: ClassVar[str]
    category: ClassVar[Category]
    needs: ClassVar[frozenset[Need]] = frozenset({Need.GPU_EVENTS})
    explanation: ClassVar[str]
    of_the_cpu_alone: ClassVar[bool] = False  # it finds nothing where a GPU worked, and is not asked there

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        """The findings of this rule; none when all is well."""

    def finding(self, analysis: Analysis, *, ceiling_ns: int = 0, **said: Any) -> Finding:
        """What this rule found in the analysed window; ``said`` are the other fields of a ``Finding``."""
        window_ns = said.pop("window_ns", analysis.window_ns)
        return Finding(
            rule=self.id,
            category=said.pop("category", self.category),
            severity=said.pop("severity", None) or severity_of(ceiling_ns, window_ns),
            ceiling_ns=ceiling_ns,
            window_ns=window_ns,
            **said,
        )


class NeedsMore:
    """A rule that needs more of a recording than the sorts of data that ``Need`` names.

    It is no abstract class: every rule is asked whether it is one of these, which such a class answers slowly.
    """

    def lacking(self, trace: Trace) -> str:
        """Why it cannot judge this recording; empty where it can."""
        raise NotImplementedError


EXPLANATION_HEADINGS = (
    "What it found",
    "Why it costs time",
    "How it decides",
    "What to try",
    "When it is wrong",
)

R = TypeVar("R", bound=type)
_RULES: dict[str, Rule] = {}
CATALOG, OF_COUNTERS = f"{__package__.rpartition('.')[0]}.catalog", "kernel_"


def rule(cls: R) -> R:
    """Register a rule class."""
    instance = cls()
    _RULES[instance.id] = instance
    return cls


def registered() -> dict[str, Rule]:
    """The rules that are loaded, by id."""
    return _RULES


@cache
def _load(counters: bool) -> None:
    for _ in loading(CATALOG, lambda name: counters or not name.startswith(OF_COUNTERS)):
        pass


def rules(counters: bool = True) -> list[Rule]:
    """Every rule of ``rules.catalog``, by id; those about hardware ``counters`` may be left out."""
    _load(counters)
    return [_RULES[name] for name in sorted(_RULES)]


@cache
def counter_rules() -> tuple[str, ...]:
    """The ids of the rules about hardware counters: as their modules are called."""
    return tuple(name.replace("_", "-") for name in modules_of(CATALOG) if name.startswith(OF_COUNTERS))
