"""The numbers of a kernel report: one row a launch, and what flows between the levels of memory."""

from __future__ import annotations

import pandas as pd

from parsers.model import KernelProfile, Trace
from parsers.model.late import dataclass
from parsers.model.names.kernels import kernel_name
from rules.kernels.checks.occupancy import ACHIEVED, THEORETICAL
from rules.kernels.checks.speed_of_light import first_number, speed_of_light
from rules.kernels.checks.stalls import label_of, stalls

LIMITS = {
    "memory-bound": "memory",
    "compute-bound": "compute",
    "latency-bound": "waiting",
    "small-grid": "small grid",
    "balanced": "both",
}


def launch_table(trace: Trace) -> pd.DataFrame:
    """One row for each profiled launch, in the order of the report; percentages are 0 to 100, times ns."""
    nan = float("nan")
    rows = []
    for index, kernel in enumerate(trace.kernels):
        sol = speed_of_light(kernel)
        waiting = [stall for stall in stalls(kernel) if stall.reason != "selected"]
        rows.append(
            {
                "id": kernel.id,
                "name": kernel.name,
                "short": kernel_name(kernel.name),
                "duration": _or_nan(kernel.duration_ns),
                "limit": LIMITS.get(sol.bound.value, sol.bound.value) if sol is not None else "",
                "compute": sol.compute / 100 if sol is not None else nan,
                "memory": sol.memory / 100 if sol is not None else nan,
                "occupancy": _or_nan(first_number(kernel, ACHIEVED, THEORETICAL)),
                "stall": label_of(waiting[0].reason) if waiting else "",
                "registers": _or_nan(kernel.number("launch__registers_per_thread")),
                "grid": _shape(kernel.grid),
                "block": _shape(kernel.block),
                "launches": kernel.invocations,
                "kernel": index,
            }
        )
    return pd.DataFrame(rows)


def launches_by_kernel(launches: pd.DataFrame) -> pd.DataFrame:
    """One row a kernel, grid and block of ``launch_table``: how often, how long in all; else of its longest."""
    by = ["name", "grid", "block"]
    longest = launches.sort_values("duration", ascending=False, kind="stable").drop_duplicates(by)
    of_all = launches.groupby(by, sort=False)["duration"].agg(["size", "sum"])
    joined = longest.join(of_all, on=by)
    joined["launches"], joined["duration"] = joined["size"], joined["sum"]
    return joined.drop(columns=["size", "sum"]).sort_values("kernel").reset_index(drop=True)


def _or_nan(value: float | None) -> float:
    return float("nan") if value is None else value


def _shape(dimensions: tuple[int, int, int]) -> str:
    x, y, z = dimensions
    return f"{x:,} × {y:,} × {z:,}" if z > 1 else f"{x:,} × {y:,}" if y > 1 else f"{x:,}"


@dataclass(frozen=True, slots=True)
class Level:
    """One level of memory: its hit rate and how busy it was, 0 to 100; None where it was not measured."""

    name: str
    hit_percent: float | None = None
    busy_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """Bytes that moved between two neighbouring levels, down (reads) and up (writes); None: not measured."""

    read: float | None = None
    written: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryFlow:
    """Levels from the SM down to DRAM, and the flow below each of them but the last; times in ns."""

    levels: tuple[Level, ...]
    flows: tuple[Flow, ...]
    duration_ns: float | None

    @property
    def measured(self) -> bool:
        return any(flow.read is not None or flow.written is not None for flow in self.flows)


SECTOR = 32.0


def memory_flow(kernel: KernelProfile) -> MemoryFlow:
    """Bytes between SM, L1, L2 and DRAM, from the counters that the report has."""

    def sectors(*metrics: str) -> float | None:
        value = first_number(kernel, *metrics)
        return None if value is None else value * SECTOR

    def peak(unit: str) -> float | None:
        return first_number(
            kernel,
            f"{unit}__throughput.avg.pct_of_peak_sustained_elapsed",
            f"{unit}__throughput.avg.pct_of_peak_sustained_active",
        )

    levels = (
        Level("SM", None, first_number(kernel, "sm__throughput.avg.pct_of_peak_sustained_elapsed")),
        Level("L1", first_number(kernel, "l1tex__t_sector_hit_rate.pct"), peak("l1tex")),
        Level("L2", first_number(kernel, "lts__t_sector_hit_rate.pct"), peak("lts")),
        Level(
            "DRAM",
            None,
            first_number(
                kernel,
                "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                "dram__throughput.avg.pct_of_peak_sustained_elapsed",
            ),
        ),
    )
    flows = (
        Flow(
            sectors("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
            sectors("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
        ),
        Flow(
            sectors("lts__t_sectors_srcunit_tex_op_read.sum", "lts__t_sectors_op_read.sum"),
            sectors("lts__t_sectors_srcunit_tex_op_write.sum", "lts__t_sectors_op_write.sum"),
        ),
        Flow(first_number(kernel, "dram__bytes_read.sum"), first_number(kernel, "dram__bytes_write.sum")),
    )
    return MemoryFlow(levels, flows, kernel.duration_ns)
