"""Several ranks that never talk to each other."""

from __future__ import annotations

from collections.abc import Iterable

from rules.analysis.analysis import Analysis
from rules.analysis.cpu.cpu_time import collectives_on_cpu
from rules.analysis.gpu.inside_window import operations
from rules.findings.base import Category, Finding, Need, Rule, remedy, rule
from rules.losses.lost_time import event_evidence
from rules.remedies.communication import BESIDE_COMPUTATION
from rules.wording.headline import Headline
from rules.wording.words import for_python

_CODE = """torch.distributed.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[local_rank])
# without this (or FSDP) every rank trains a model of its own"""


@rule
class NoCommunication(Rule):
    """A distributed run without a single collective."""

    id = "no-communication"
    category = Category.EXPOSED_COMMUNICATION
    needs = frozenset({Need.GPU_EVENTS, Need.SEVERAL_RANKS})
    explanation = """
What it found
    Several ranks were recorded, and none of them ran a communication kernel.

Why it costs time
    It may cost no time at all, but it is suspicious: ranks that train one model must exchange gradients.

How it decides
    At least two ranks have GPU work, no kernel's name belongs to NCCL, RCCL, NVSHMEM or another known library, and no
    collective ran on the CPU (gloo, MPI).

What to try
    Check that the model is wrapped (DistributedDataParallel, FSDP) and that the recording contains whole steps.

When it is wrong
    Independent workers, such as inference replicas, need no communication; nor do copies between GPUs of one process.
"""

    def check(self, analysis: Analysis) -> Iterable[Finding]:
        trace = analysis.trace
        ranks = {trace.devices[device].rank for device in analysis.active_devices} - {None}
        if len(ranks) < 2 or len(trace.collective_kernels) or len(collectives_on_cpu(trace)):
            return
        yield self.finding(
            analysis,
            headline=Headline(f"{len(ranks)} ranks and no communication between them"),
            account=(
                f"{len(ranks)} ranks were recorded and ran GPU work, but none of their kernels is a "
                "collective. If they train one model, gradients are not exchanged."
            ),
            remedy=remedy(
                for_python("Check that the model is wrapped in DistributedDataParallel or FSDP."),
                native=(BESIDE_COMPUTATION,),
                code=for_python(_CODE),
            ),
            evidence=event_evidence(trace, operations(analysis, analysis.active_devices[0]), 1),
            unknown=("Whether communication happens outside the recorded steps: record whole steps.",),
            confidence="low",
        )
