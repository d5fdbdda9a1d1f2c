"""How well a kernel uses memory: coalescing, bank conflicts, sectors, caches, and memory beyond the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.model import KernelProfile
from parsers.model.late import dataclass
from rules.findings.base import Category
from rules.kernels.checks.speed_of_light import (
    L1,
    KernelRuleResult,
    check,
    dram_percent,
    first_number,
    numbers,
)

CONFLICT_SHARE = 0.10
MAX_WAYS = 40.0  # more means that the requests were counted incompletely
REMOTE_SHARE = 0.40
REMOTE_L2_PERCENT = 50.0
SECTOR_BYTES = 32.0
FULL_SECTORS_PER_REQUEST = 16.0  # 32 threads that read 16 bytes each; more sectors than that are waste
_L1_ELAPSED = "l1tex__throughput.avg.pct_of_peak_sustained_elapsed"
_L2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed"
_DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
_OPERATIONS = {"ld": ("loads", "read"), "st": ("stores", "write")}


def dram_bytes(kernel: KernelProfile) -> float | None:
    """What the kernel moves between L2 and DRAM, both ways; None where it was not counted."""
    whole = kernel.number("dram__bytes.sum")
    if whole is not None:
        return whole
    read = first_number(kernel, "dram__bytes_read.sum", "dram__bytes_op_read.sum")
    written = first_number(kernel, "dram__bytes_write.sum", "dram__bytes_op_write.sum")
    return None if read is None or written is None else read + written


def needed_of_dram(kernel: KernelProfile) -> float:
    """The part of the kernel's time (0 to 1) that DRAM needs for its data alone; 0 where that was not counted.

    What L1 and L2 put together again costs DRAM nothing: no order of the accesses makes the kernel faster than this.
    """
    moved, busy = dram_bytes(kernel), dram_percent(kernel)
    ideal = kernel.number("memory_l2_theoretical_sectors_global_ideal")
    if not moved or busy is None or ideal is None:
        return 0.0
    return min(busy, 100.0) / 100.0 * min(ideal * SECTOR_BYTES / moved, 1.0)


@check
def shared_memory_conflicts(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether shared-memory accesses are split because several threads need the same bank."""
    looked = fired = False
    for op, (shown, _) in _OPERATIONS.items():
        measured = numbers(
            kernel,
            f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum",
            f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum",
        )
        if measured is None:
            continue
        looked = True
        conflicts, wavefronts = measured
        share = conflicts / wavefronts if wavefronts > 0 else 0.0
        if share < CONFLICT_SHARE:
            continue
        fired = True
        throughput = kernel.number(L1)
        requests = shared_requests(kernel, op)
        times = wavefronts / requests if requests else 0.0
        ways = f" ({times:.1f}-way on average)" if 0 < times <= MAX_WAYS else ""
        text = (
            f"{100 * share:.0f} % of the passes of shared-memory {shown} exist only because of bank conflicts"
            f"{ways}."
        )
        yield KernelRuleResult(
            "SharedMemoryConflicts",
            "MemoryWorkloadAnalysis_Tables",
            True,
            text,
            Category.BANK_CONFLICTS,
            None if throughput is None else share * throughput,
            subject=shown,
        )
    if looked and not fired:
        text = "Shared memory is accessed with few bank conflicts, or not at all."
        yield KernelRuleResult("SharedMemoryConflicts", "MemoryWorkloadAnalysis_Tables", False, text)


def shared_requests(kernel: KernelProfile, op: str) -> float:
    """Shared-memory requests of loads ("ld", with matrix loads) or stores ("st"); 0 when unknown."""
    requests = kernel.number(f"smsp__sass_inst_executed_op_shared_{op}.sum") or 0.0
    return requests + (kernel.number("smsp__inst_executed_op_ldsm.sum") or 0.0) * (op == "ld")


@dataclass(frozen=True, slots=True)
class Traffic:
    """Loads or stores of one address space: useful bytes of a 32-byte sector, and the level where waste costs most."""

    space: str
    operation: str
    bytes_per_sector: float
    most_bytes: float
    level: str
    percent: float


def wasteful_traffic(kernel: KernelProfile) -> list[Traffic]:
    """Every kind of access that uses only a part of the sectors it moves."""
    found = []
    for space in ("global", "local"):
        for op, (_, direction) in _OPERATIONS.items():
            stem = f"smsp__sass_average_data_bytes_per_sector_mem_{space}_op_{op}"
            ratio = kernel.number(f"{stem}.ratio")
            most = kernel.number(f"{stem}.max_rate") or SECTOR_BYTES
            if ratio is None or not 0 < ratio < most:
                continue
            level, percent = _costliest_level(kernel, space, op, direction, 1 - ratio / most)
            if level:
                found.append(Traffic(space, op, ratio, most, level, percent))
    return found


def _costliest_level(
    kernel: KernelProfile, space: str, op: str, direction: str, wasted: float
) -> tuple[str, float]:
    l1_miss = _miss(kernel.number(f"l1tex__t_sector_pipe_lsu_mem_{space}_op_{op}_hit_rate.pct"))
    l2_miss = _miss(kernel.number(f"lts__t_sector_op_{direction}_hit_rate.pct"))
    levels = {"L1": (_L1_ELAPSED, 1.0), "L2": (_L2, l1_miss), "DRAM": (_DRAM, l1_miss * l2_miss)}
    costs = {
        level: wasted * reaching * throughput
        for level, (metric, reaching) in levels.items()
        if (throughput := kernel.number(metric)) is not None
    }
    worst = max(costs, key=lambda each: costs[each], default="")
    return worst, costs.get(worst, 0.0)


def _miss(hit_percent: float | None) -> float:
    """The share that misses; everything when unknown, and also for a perfect hit rate, as the profiler counts it."""
    miss = 1.0 if hit_percent is None else 1 - hit_percent / 100.0
    return miss or 1.0


@check
def cache_access_pattern(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether loads and stores use the whole of every 32-byte sector that they move."""
    if "average_data_bytes_per_sector" not in "\n".join(kernel.metrics):
        return
    wasteful = wasteful_traffic(kernel)
    for each in wasteful:
        shown, _ = _OPERATIONS[each.operation]
        text = (
            f"{each.space.capitalize()} {shown} use {each.bytes_per_sector:.1f} of the {each.most_bytes:.0f} bytes"
            f" of every sector they move; the waste costs most in {each.level}."
        )
        yield KernelRuleResult(
            "MemoryCacheAccessPattern",
            "MemoryWorkloadAnalysis_Tables",
            True,
            text,
            Category.UNCOALESCED_ACCESS if each.space == "global" else Category.LOCAL_MEMORY,
            each.percent,
            subject=f"{each.space} {shown}",
        )
    if not wasteful:
        text = "Every sector that is moved is used in full."
        yield KernelRuleResult("MemoryCacheAccessPattern", "MemoryWorkloadAnalysis_Tables", False, text)


@check
def uncoalesced_global(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether the addresses of a warp need more sectors than their amount of data does."""
    yield from _excess(
        kernel,
        "UncoalescedGlobalAccess",
        "memory_l2_theoretical_sectors_global",
        "derived__memory_l2_theoretical_sectors_global_excessive",
        "lts",
        "Global memory accesses need {total:,.0f} sectors; neatly ordered ones would need {ideal:,.0f}."
        " {share:.0f} % of the traffic is waste.",
        Category.UNCOALESCED_ACCESS,
    )


@check
def uncoalesced_shared(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether the addresses of a warp need more passes through shared memory than their amount of data does."""
    yield from _excess(
        kernel,
        "UncoalescedSharedAccess",
        "memory_l1_wavefronts_shared",
        "derived__memory_l1_wavefronts_shared_excessive",
        "l1tex",
        "Shared memory accesses need {total:,.0f} passes; without conflicts they would need {ideal:,.0f}."
        " {share:.0f} % are waste.",
        Category.BANK_CONFLICTS,
    )


def _excess(
    kernel: KernelProfile,
    rule: str,
    metric: str,
    excess_metric: str,
    unit: str,
    text: str,
    category: Category,
) -> Iterator[KernelRuleResult]:
    measured = numbers(kernel, metric, f"{metric}_ideal")
    if measured is None:
        return
    total, ideal = measured
    fired = total > max(ideal, 0)
    percent: float | None = None
    cycles = numbers(kernel, f"{unit}__cycles_active.sum", f"{unit}__cycles_elapsed.sum")
    if fired:
        excess = kernel.number(excess_metric)
        excess = total - ideal if excess is None else excess
        busy = first_number(kernel, f"{unit}__throughput.avg.pct_of_peak_sustained_elapsed")
        if cycles is not None and cycles[1] > 0:
            percent = 100.0 * cycles[0] / cycles[1] * excess / total
        elif busy is not None:
            percent = busy * excess / total
        text = text.format(total=total, ideal=ideal, share=100.0 * excess / total)
    else:
        text = "The addresses of each warp lie as closely together as they can."
    yield KernelRuleResult(rule, "SourceCounters", fired, text, category, percent)


@check
def memory_beyond_the_gpu(kernel: KernelProfile) -> Iterator[KernelRuleResult]:
    """Whether most L2 misses go to the host's memory or another GPU's."""
    measured = numbers(
        kernel,
        "lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed",
        "lts__t_sectors_srcunit_tex_lookup_miss.sum",
        "dram__bytes.sum.per_second",
    )
    if measured is None:
        return
    busy, misses, dram = measured
    for aperture, shown, links in (
        ("sysmem", "the host's memory", ("pcie__read_bytes", "pcie__write_bytes")),
        ("peer", "another GPU's memory", ("nvlrx__bytes", "nvltx__bytes", "pcie__read_bytes")),
    ):
        remote = kernel.number(f"lts__t_sectors_srcunit_tex_aperture_{aperture}_lookup_miss.sum")
        if remote is None or misses <= 0 or busy <= REMOTE_L2_PERCENT or remote / misses <= REMOTE_SHARE:
            continue
        share = remote / misses
        link = max((kernel.number(f"{each}.sum.per_second") or 0.0) for each in links)
        percent = 100.0 * share * max(0.0, 1 - link / dram) if dram > 0 else None
        yield KernelRuleResult(
            "MemoryApertureUsage",
            "MemoryWorkloadAnalysis_Chart",
            True,
            f"{100 * share:.0f} % of the L2 misses go to {shown}, over a link much slower than the GPU's memory.",
            Category.MEMORY_BOUND,
            percent,
            subject=shown,
        )


def global_waste(kernel: KernelProfile) -> float:
    """The share of global traffic whose bytes nobody uses, loads and stores weighed by their sectors."""
    wasted = total = 0.0
    for op in _OPERATIONS:
        stem = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}"
        ratio, most = kernel.number(f"{stem}.ratio"), kernel.number(f"{stem}.max_rate") or SECTOR_BYTES
        sectors = kernel.number(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum")
        requests = kernel.number(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum")
        if not sectors:
            continue
        if ratio is None and requests:
            ratio, most = (
                min(FULL_SECTORS_PER_REQUEST / max(sectors / requests, FULL_SECTORS_PER_REQUEST), 1.0),
                1.0,
            )
        if ratio is not None and 0 < ratio <= most:
            wasted += sectors * (1 - ratio / most)
            total += sectors
    return wasted / total if total else 0.0


def local_share(kernel: KernelProfile) -> float:
    """The share of loads and stores that go to local memory: of sectors, of instructions where those are missing."""
    for stem in ("l1tex__t_sectors_pipe_lsu_mem_{}_op_{}.sum", "smsp__sass_inst_executed_op_{}_{}.sum"):
        local, other = (
            [kernel.number(stem.format(space, op)) for op in _OPERATIONS] for space in ("local", "global")
        )
        if all(value is not None for value in local):
            inside = sum(value or 0.0 for value in local)
            total = inside + sum(value or 0.0 for value in other)
            return inside / total if total > 0 else 0.0
    return 0.0


def spilled_requests(kernel: KernelProfile) -> float:
    """Memory requests or instructions that exist only because registers were spilled; 0 when none was counted."""
    names = ("derived__local_spilling_requests", "sass__inst_executed_register_spilling")
    return max((kernel.number(name) or 0.0 for name in names), default=0.0)


def atomic_share(kernel: KernelProfile) -> float:
    """The share of requests to global and shared memory that are atomic operations."""
    requests = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
    atomic = sum(
        max(
            kernel.number(requests.format(op)) or 0.0,
            kernel.number(f"smsp__inst_executed_op_global_{op}.sum") or 0.0,
        )
        for op in ("red", "atom")
    )
    atomic += kernel.number("smsp__inst_executed_op_shared_atom.sum") or 0.0
    plain = sum(
        max(
            kernel.number(f"smsp__sass_inst_executed_op_{space}_{op}.sum") or 0.0,
            kernel.number(f"l1tex__t_requests_pipe_lsu_mem_{space}_op_{op}.sum") or 0.0,
        )
        for space in ("global", "shared")
        for op in _OPERATIONS
    )
    return atomic / (atomic + plain) if atomic > 0 and atomic + plain > 0 else 0.0
