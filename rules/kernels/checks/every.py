"""Every check of one profiled launch, from its raw metrics alone: the place to ask what is wrong inside a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from weakref import WeakKeyDictionary

from parsers.model import KernelProfile, RuleResult
from rules.findings.base import Category
from rules.kernels.checks import compute as kernel_compute
from rules.kernels.checks import launch as kernel_launch
from rules.kernels.checks import memory as kernel_memory
from rules.kernels.checks import occupancy as kernel_occupancy
from rules.kernels.checks import speed_of_light as kernel_speed_of_light
from rules.kernels.checks import stalls as kernel_stalls
from rules.kernels.checks.speed_of_light import KernelRuleResult, checks
from rules.kernels.checks.stalls import CATEGORY_OF_STALL

_CATEGORIES: dict[str, Category | None] = {
    "CPIStall": Category.LATENCY_BOUND,
    "FPInstructions": None,
    "HighPipeUtilization": Category.PIPE_SATURATED,
    "IssueSlotUtilization": Category.LATENCY_BOUND,
    "ThreadDivergence": Category.DIVERGENCE,
    "SOLFPRoofline": Category.FP64,
    "SharedMemoryConflicts": Category.BANK_CONFLICTS,
    "UncoalescedSharedAccess": Category.BANK_CONFLICTS,
    "UncoalescedGlobalAccess": Category.UNCOALESCED_ACCESS,
    "MemoryCacheAccessPattern": Category.UNCOALESCED_ACCESS,
    "WorkloadImbalance": Category.IMBALANCE,
    "TheoreticalOccupancy": Category.LOW_OCCUPANCY,
    "AchievedOccupancy": Category.LOW_OCCUPANCY,
    "Occupancy": Category.LOW_OCCUPANCY,
}
_CONCLUSIONS = frozenset({"optimization", "warning"})
_STALL_WORDS = (
    (r"queue.*local and global|\bLG\b", "lg_throttle"),
    (r"TEX.*queue|texture.*queue", "tex_throttle"),
    (r"MIO.*queue", "mio_throttle"),
    (r"scoreboard.*L1TEX \(", "long_scoreboard"),
    (r"scoreboard.*MIO", "short_scoreboard"),
    (r"after EXIT|exit.*outstanding memory", "drain"),
    (r"fixed latency", "wait"),
    (r"memory barrier", "membar"),
    (r"barrier", "barrier"),
    (r"constant cache", "imc_miss"),
    (r"branch target", "branch_resolving"),
    (r"instruction (to be|was) (selected|fetched)|instruction cache|next instruction", "no_instruction"),
    (r"(math|execution) pipe", "math_pipe_throttle"),
    (r"not selected|micro ?scheduler to select|selected by the", "not_selected"),
    (r"dispatch", "dispatch_stall"),
    (r"sleep", "sleeping"),
)
_UNITS = {
    "SMSP": "schedulers",
    "L1 Slice": "L1 caches",
    "L2 Slice": "L2 slices",
    "DRAM": "DRAM channels",
    "SM": "SMs",
}


def stored_results(kernel: KernelProfile, computed: Collection[str]) -> Iterator[KernelRuleResult]:
    """What the report itself concluded, for rules that are not among the ``computed`` ones."""
    for stored in kernel.rule_results:
        if stored.rule in computed or stored.rule not in _CATEGORIES:
            continue
        fired = stored.kind in _CONCLUSIONS
        subject = _subject(stored) if fired else ""
        yield KernelRuleResult(
            stored.rule,
            stored.section,
            fired,
            stored.text,
            _category(stored, subject),
            stored.speedup_percent,
            bool(stored.speedup_is_global),
            subject,
        )


def _category(stored: RuleResult, subject: str) -> Category | None:
    if stored.rule == "CPIStall":
        return CATEGORY_OF_STALL.get(subject, Category.LATENCY_BOUND)
    return _CATEGORIES.get(stored.rule)


def _subject(stored: RuleResult) -> str:
    if stored.rule == "CPIStall":
        return stall_named_in(stored.text)
    if stored.rule == "WorkloadImbalance":
        return next((shown for word, shown in _UNITS.items() if re.search(rf"\b{word}s?\b", stored.text)), "")
    return ""


def stall_named_in(text: str) -> str:
    """The stall reason that a stored conclusion speaks of; empty when it names none that is known."""
    sentence = text.partition("stalled")[2].partition(". ")[0] or text
    found = (reason for words, reason in _STALL_WORDS if re.search(words, sentence, re.IGNORECASE))
    return next(found, "")


__all__ = ["CHECK_MODULES", "KernelRuleResult", "evaluate"]

CHECK_MODULES = (
    kernel_speed_of_light,
    kernel_compute,
    kernel_stalls,
    kernel_memory,
    kernel_launch,
    kernel_occupancy,
)


def evaluate(kernel: KernelProfile) -> tuple[KernelRuleResult, ...]:
    """What each check concludes; where metrics are missing, what the report itself concluded.

    A check may appear several times, once for each subject (a stall reason, loads and stores). Thresholds and
    estimates follow those of Nsight Compute's own rules, so that both can be compared by ``rule``. Ten rules ask of
    every kernel: the answer stays for as long as the launch does.
    """
    if (known := _concluded.get(kernel)) is None:
        known = _concluded[kernel] = _evaluated(kernel)
    return known


_concluded: WeakKeyDictionary[KernelProfile, tuple[KernelRuleResult, ...]] = WeakKeyDictionary()


def _evaluated(kernel: KernelProfile) -> tuple[KernelRuleResult, ...]:
    computed = tuple(result for check in checks() for result in check(kernel))
    return (*computed, *stored_results(kernel, {each.rule for each in computed}))
