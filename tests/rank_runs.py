"""Runs of any number of ranks, simulated with tensor, pipeline and data parallel groups and with faults put in.

Every rank computes, meets its tensor group after each layer, its data group and everybody at the end of a step. A rank
is written as the PyTorch profiler would: process groups, operators, launches, kernels, flows, steps.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from parsers.model.late import dataclass
from tests.benchmarks.kineto_like import flow, microseconds

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

START = 4_361_618_166_342_612  # ns, as Kineto's clock
EVENTS_OF_OPERATOR = 6
LAYERS = 4
OF_A_LAUNCH = 8_000  # ns of an operator on the CPU
KERNEL = "void at::native::vectorized_elementwise_kernel<8, at::native::GeluCUDAKernelImpl>(int)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True)
class Run:
    """How many ranks, how they are put together, and what is wrong; ``slow_*`` are factors, 1 is sound."""

    ranks: int = 64
    steps: int = 6
    operators: int = 20  # of one layer
    tensor: int = 8
    stages: int = 4
    kernel_ns: int = 20_000
    straggler: int = -1
    slow_compute: float = 1.6
    since: int = 0
    slow_group: int = -1  # index of a data group
    slow_link: float = 3.0
    slow_stage: int = -1
    slow_layers: float = 1.15
    every: int = 0  # the straggler is late in every so many steps only
    rotating: bool = False  # another rank has twice the work in each step

    @property
    def data(self) -> int:
        """Copies of the model."""
        return self.ranks // (self.tensor * self.stages)

    @cached_property
    def rank(self) -> I64:
        return np.arange(self.ranks)

    @property
    def tensor_group(self) -> I64:
        return self.rank // self.tensor

    @property
    def stage(self) -> I64:
        """Stages are far apart, so that a tensor group is a node."""
        return self.rank // (self.tensor * self.data)

    @property
    def data_group(self) -> I64:
        """Ranks of one stage with the same place in their tensor group."""
        return self.stage * self.tensor + self.rank % self.tensor

    def groups_of(self, rank: int) -> list[dict[str, object]]:
        """What the recording states of a rank's process groups."""

        def listed(name: str, about: str, members: I64) -> dict[str, object]:
            return {"pg_name": name, "pg_desc": about, "pg_size": len(members), "ranks": members.tolist()}

        own = self.tensor * self.data
        return [
            listed("0", "default_pg", self.rank),
            listed(
                f"tp{self.tensor_group[rank]}",
                "TENSOR_MODEL_PARALLEL_GROUP",
                np.flatnonzero(self.tensor_group == self.tensor_group[rank]),
            ),
            listed(
                f"dp{self.data_group[rank]}",
                "DATA_PARALLEL_GROUP",
                np.flatnonzero(self.data_group == self.data_group[rank]),
            ),
            listed(
                f"pp{rank % own}", "PIPELINE_MODEL_PARALLEL_GROUP", np.arange(rank % own, self.ranks, own)
            ),
        ]

    @cached_property
    def scale(self) -> F64:
        """(steps, ranks): how many times as long each rank computes."""
        found = self.work + np.random.default_rng(7).uniform(0, 0.01, self.work.shape)
        if self.straggler >= 0:
            late = np.arange(self.since, self.steps)
            late = late[(late - self.since) % self.every == 0] if self.every else late
            found[late, self.straggler] *= self.slow_compute
        return found

    @cached_property
    def work(self) -> F64:
        """(steps, ranks): how many times as many blocks each rank's kernels have."""
        found = np.ones((self.steps, self.ranks))
        if self.slow_stage >= 0:
            found[:, self.stage == self.slow_stage] *= self.slow_layers
        if self.rotating:
            found[np.arange(self.steps), (np.arange(self.steps) * 7) % self.ranks] *= 2
        return found

    @cached_property
    def times(self) -> list[list[tuple[str, I64, I64]]]:
        """For each step: (what, start, end) of each phase of all ranks, in ns; "compute", "tp", "dp" or "all"."""
        at = np.full(self.ranks, 20_000, np.int64)
        steps = []
        for step in range(self.steps):
            phases: list[tuple[str, I64, I64]] = []
            compute = (self.operators * self.kernel_ns * self.scale[step]).astype(np.int64)
            for _ in range(LAYERS):
                phases.append(("compute", at, at + compute))
                at = at + compute
                end = _last(at, self.tensor_group) + 60_000
                phases.append(("tp", at, end))
                at = end
            transfer = np.where(self.data_group == self.slow_group, round(400_000 * self.slow_link), 400_000)
            end = _last(at, self.data_group) + transfer
            phases.append(("dp", at, end))
            at = np.full(self.ranks, int(end.max()) + 30_000)
            phases.append(("all", end, at))
            steps.append(phases)
            at = at + 10_000
        return steps

    def write(self, folder: Path, only: range | None = None) -> list[Path]:
        """A file for each rank; their names."""
        folder.mkdir(exist_ok=True)
        paths = []
        for rank in only or range(self.ranks):
            path = folder / f"rank{rank}.pt.trace.json"
            path.write_text(self.text(rank))
            paths.append(path)
        return paths

    def text(self, rank: int) -> str:
        """The recording of one rank."""
        device = rank % self.tensor
        head = {
            "schemaVersion": 1,
            "deviceProperties": [
                {"id": each, "name": "Benchmark GPU", "totalGlobalMem": 80_000_000_000}
                for each in range(self.tensor)
            ],
            "distributedInfo": {
                "backend": "nccl",
                "rank": rank,
                "world_size": self.ranks,
                "pg_config": self.groups_of(rank),
            },
            "baseTimeNanoseconds": 1_790_857_026_000_000_000,
        }
        events = ",\n".join(self._events(rank, device))
        return f'{json.dumps(head, indent=2)[:-2]},\n  "traceEvents": [\n{events}\n  ]\n}}\n'

    def _events(self, rank: int, device: int) -> Iterator[str]:
        number = 0
        groups = {
            "tp": (f"tp{self.tensor_group[rank]}", self.tensor, 4 << 20),
            "dp": (f"dp{self.data_group[rank]}", self.data, 32 << 20),
            "all": ("0", self.ranks, 4),
        }
        for step, phases in enumerate(self.times):
            begin = int(phases[0][1][rank]) - 10_000
            for what, starts, ends in phases:
                start, end = int(starts[rank]), int(ends[rank])
                if what == "compute":
                    edges = np.linspace(start, end, self.operators + 1).astype(np.int64).tolist()
                    for first, last in pairwise(edges):
                        number += 1
                        blocks = f'"grid": [{round(1000 * self.work[step, rank])}, 1, 1]'
                        kernel = KERNEL if number % 3 else GEMM
                        yield from _operator(number, first, last - 300, device, kernel, 7, blocks)
                else:
                    number += 1
                    group, size, count = groups[what]
                    said = (
                        f'"Collective name": "allreduce", "In msg nelems": {count // 2}, "Group size": {size}, '
                        f'"dtype": "BFloat16", "Process Group Name": "{group}"'
                    )
                    yield from _operator(number, start, end, device, REDUCE, 20, said)
            finish = int(phases[-1][2][rank])
            yield _complete(
                "user_annotation",
                f"ProfilerStep#{step}",
                '1, "tid": 1',
                begin,
                finish - begin - 10_000,
                '"x": 1',
            )


def _last(at: I64, group: I64) -> I64:
    """When the last of each one's group is there."""
    last = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(last, group, at)
    return last[group]


def _operator(
    number: int, start: int, end: int, device: int, kernel: str, stream: int, said: str
) -> Iterator[str]:
    """An operator with an inner one, its launch, the kernel, and both ends of the flow between them."""
    thread, gpu = '1, "tid": 1', f'{device}, "tid": {stream}'
    launch = start - 6_000
    yield _complete("cpu_op", "aten::linear", thread, launch - 1_500, 7_000, f'"External id": {number}')
    yield _complete("cpu_op", "aten::addmm", thread, launch - 1_000, 6_000, f'"External id": {number}')
    yield _complete(
        "cuda_runtime", "cudaLaunchKernel", thread, launch, 3_000, f'"cbid": 211, "correlation": {number}'
    )
    yield flow("s", thread, START + launch, number)
    about = f'"device": {device}, "stream": {stream}, "correlation": {number}, "block": [128, 1, 1], {said}'
    yield _complete("kernel", kernel, gpu, start, end - start, about)
    yield flow("f", gpu, START + start, number)


def _complete(category: str, name: str, place: str, start: int, duration: int, arguments: str) -> str:
    return (
        f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {place},\n'
        f'    "ts": {microseconds(START + start)}, "dur": {microseconds(duration)},\n'
        f'    "args": {{\n      {arguments}\n    }}\n  }}'
    )
