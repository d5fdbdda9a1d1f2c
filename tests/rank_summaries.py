"""Summaries of simulated ranks, made without writing and reading their recordings: of thousands in a second or two."""

from __future__ import annotations

from typing import Any

import numpy as np

from parsers.model import Device, ProcessGroup, Quality, Rank, TraceInput
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.collectives import CollectiveKind
from rules.analysis.ranks.run import COMMUNICATION, COMPUTE, FIRST_IDLE
from rules.summaries.rank_summary import Alone, RankSummary, SummaryWords
from rules.summaries.reduction import narrow
from tests.rank_runs import REDUCE, Run

WHAT = ("tp", "dp", "all")


def summaries_of(run: Run, clocks: bool = False) -> list[RankSummary]:
    """One summary for each rank; with ``clocks`` the straggler's clock falls as it slows."""
    starts = np.array([[start for _, start, _ in step] for step in run.times])  # (steps, phases, ranks)
    ends = np.array([[end for _, _, end in step] for step in run.times])
    names = [what for what, _, _ in run.times[0]]
    groups = {name: ProcessGroup(name, "", tuple(range(run.ranks))) for name in ("0",)}
    listed: dict[tuple[str, int], ProcessGroup] = {}
    for about, label, prefix in (
        ("TENSOR_MODEL_PARALLEL_GROUP", run.tensor_group, "tp"),
        ("DATA_PARALLEL_GROUP", run.data_group, "dp"),
        ("PIPELINE_MODEL_PARALLEL_GROUP", run.rank % (run.tensor * run.data), "pp"),
    ):
        order = np.argsort(label, kind="stable")
        edges = np.flatnonzero(np.diff(label[order], prepend=-1))
        for members in np.split(order, edges[1:]):
            number = int(label[members[0]])
            listed[prefix, number] = ProcessGroup(f"{prefix}{number}", about, tuple(members.tolist()))
    return [_summary(run, rank, starts[:, :, rank], ends[:, :, rank], names, listed, groups["0"], clocks)
            for rank in range(run.ranks)]  # fmt: skip


def _summary(
    run: Run,
    rank: int,
    start: np.ndarray[Any, np.dtype[np.int64]],
    end: np.ndarray[Any, np.dtype[np.int64]],
    names: list[str],
    listed: dict[tuple[str, int], ProcessGroup],
    world: ProcessGroup,
    clocks: bool,
) -> RankSummary:
    steps = len(start)
    own = {
        "tp": listed["tp", int(run.tensor_group[rank])],
        "dp": listed["dp", int(run.data_group[rank])],
        "pp": listed["pp", rank % (run.tensor * run.data)],
        "all": world,
    }
    sends = np.array([name != "compute" for name in names])
    kind = np.array([WHAT.index(name) for name in names if name != "compute"])
    edges = np.append(start.ravel(), end[-1, -1])
    part = np.where(np.tile(sends, steps), COMMUNICATION, COMPUTE).astype(np.uint8)
    busy_until = end.ravel()
    gaps = np.flatnonzero(busy_until[:-1] < edges[1:-1])
    edges = np.insert(edges, gaps + 1, busy_until[gaps])
    part = np.insert(part, gaps + 1, FIRST_IDLE + Cause.LAUNCH).astype(np.uint8)
    begins = start[:, 0] - 10_000
    finish = np.append(begins[1:], end[-1, -1])
    columns = {
        "step.start": begins,
        "step.end": finish,
        "step.steady": np.ones(steps, np.uint8),
        "collective.device": narrow(np.zeros(steps * len(kind), np.int64)),
        "collective.start": start[:, sends].ravel(),
        "collective.end": end[:, sends].ravel(),
        "collective.kind": narrow(np.tile(kind, steps)),
        "collective.name": narrow(np.zeros(steps * len(kind), np.int64)),
        "collective.sequence": narrow(np.full(steps * len(kind), -1, np.int64)),
        "collective.step": narrow(np.repeat(np.arange(steps), len(kind))),
        "0.edge": edges,
        "0.part": part,
        "0.alone.start": start[:, sends].ravel(),
        "0.alone.end": end[:, sends].ravel(),
        "0.blocks": np.round(1000 * run.work[:, rank]).astype(np.int64),
    }
    in_steps = (end - start)[:, ~sends].sum(axis=1)
    columns |= {
        "0.kernel.name": np.zeros(1, np.int64),
        "0.kernel.count": np.array([steps * run.operators]),
        "0.kernel.time": np.array([in_steps.sum()]),
        "0.kernel.blocks": np.array([columns["0.blocks"].sum()]),
    }
    if clocks:
        columns["0.clock"] = 1980 / (run.scale[:, rank] / run.work[:, rank])
    compute = (end - start)[:, ~sends].sum(axis=1)
    needed = float(compute.mean())
    device = Device(rank % run.tensor, "Benchmark GPU", rank)
    words = SummaryWords(
        input=TraceInput(f"rank{rank}.pt.trace.json", "chrome", "simulated", rank),
        rank=Rank(rank, run.ranks, groups=tuple(own.values())),
        epoch_ns=1_790_857_026_000_000_000,
        duration=int(end[-1, -1]),
        devices=(device,),
        step_names=tuple(f"ProfilerStep#{step}" for step in range(steps)),
        found_by="ProfilerStep",
        window=(int(begins[0]), int(finish[-1])),
        kinds=(
            CollectiveKind("allreduce", own["tp"].name, 8 << 20, run.tensor),
            CollectiveKind("allreduce", own["dp"].name, 64 << 20, run.data),
            CollectiveKind("allreduce", "0", 8, run.ranks),
        ),
        collective_names=(REDUCE,),
        culprits=(),
        findings=(),
        outside_ns=(),
        skipped={},
        crashed={},
        quiet=(),
        quality=Quality(100, 100),
        alone=Alone(needed, needed, needed),
        launches=100,
        launches_without_operation=0,
        lost_records=False,
        operations=((100, 100),),
        span=((int(start[0, 0]), int(end[-1, -1])),),
    )
    return RankSummary(words, columns)
