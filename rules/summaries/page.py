"""What is told of a run of many ranks in one page: a sentence, patterns, ten ranks, what to look at next."""

from __future__ import annotations

import numpy as np

from parsers.model.units import duration, percent, rate, size
from rules.analysis.ranks.patterns import Pattern
from rules.diagnosis import Diagnosis
from rules.summaries.facts import ManyRanksDiagnosis
from rules.terms import MIN_SHARE
from rules.verdict.verdict import first_problem
from rules.wording.late_ranks import doing, late_names, spends, when


def sentence(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> str:
    """The result with its number, and what the late ranks do."""
    run = facts.run
    lost = facts.lost_to_late
    if facts.late and lost >= run.thresholds[MIN_SHARE] * run.window_ns:
        rows = np.array(facts.late, np.int64)
        since = when(facts.course(rows), run.step_names)
        waiting, steps = len(facts.others), max(run.steps_in_window, 1)
        told = f"{waiting:,} of {len(run.rows):,} ranks wait {duration(lost / steps)}"
        told += " in every step" if run.steps_in_window else ""
        told += f" for {late_names(facts)}"
        told += f", {since}" if since and since != "in every step" else ""
        spent = spends(facts, facts.reasons(rows)[:1], len(rows) > 1)
        return f"{told}. {'They' if len(rows) > 1 else 'It'} {spent}." if spent else f"{told}."
    problem = first_problem(diagnosis)
    if problem is not None:
        return f"{problem.title}."
    return f"Nothing stands out across {len(run.rows):,} ranks: no check found a loss above 5 %."


def pattern_title(facts: ManyRanksDiagnosis, pattern: Pattern) -> str:
    """ "node 277: 8 ranks late by 13.2 ms from step 96 on"."""
    ranks = "" if len(pattern.rows) == 1 else f"{len(pattern.rows):,} ranks "
    told = when(pattern.course, facts.run.step_names)
    return f"{pattern.name}: {ranks}late by {duration(pattern.late_ns)} {told}"


def patterns(facts: ManyRanksDiagnosis) -> list[tuple[str, str]]:
    """(who is late and when, why) of each pattern."""
    return [
        (pattern_title(facts, pattern), doing(reasons, len(pattern.rows) > 1))
        for pattern, reasons in zip(facts.patterns, facts.pattern_reasons, strict=True)
    ]


def links(facts: ManyRanksDiagnosis) -> list[str]:
    """The slow links, a sentence each."""
    return [
        f"The link {link.name} reaches {rate(link.speed.bus_bandwidth)} for {link.speed.collective} of "
        f"{size(link.speed.bytes)}; usual is {rate(link.usual)}."
        for link in facts.slow_links
    ]


def balance(facts: ManyRanksDiagnosis) -> list[str]:
    """How even the work is, and what more ranks cost."""
    lines = []
    if (found := facts.imbalance) is not None:
        who = "a different one in each step" if found.rotates else f"mostly {facts.run.name(found.row)}"
        what = "Experts are loaded unevenly" if found.of_experts else "Work is uneven"
        lines.append(f"{what}: the most loaded rank has {percent(found.most - 1)} more than the mean, {who}.")
    if len(facts.scaling) > 1:
        first, *more = facts.scaling
        parts = [
            f"{percent(each.step_ns / max(first.step_ns, 1) - 1)} more with {each.ranks:,}" for each in more
        ]
        lines.append(
            f"The slowest rank of a step takes {duration(first.step_ns)} where {first.ranks:,} ranks meet, "
            f"{', '.join(parts)}: the more ranks, the likelier one of them is slow."
        )
    return lines


def groups(facts: ManyRanksDiagnosis) -> list[tuple[str, str, int]]:
    """(kind, the latest part, its mean lateness in ns a step) of each way the ranks are put together."""
    late = facts.lateness.late
    found = []
    for dimension in facts.lateness.dimensions:
        if not late.shape[1]:
            continue
        means = [float(late[dimension.members(label)].mean()) for label in range(len(dimension.names))]
        worst = max(range(len(means)), key=lambda label: means[label])
        found.append((dimension.kind, dimension.names[worst], max(int(means[worst]), 0)))
    return found


def next_steps(facts: ManyRanksDiagnosis) -> list[str]:
    """What to look at next: three things at most."""
    run, lines = facts.run, []
    if facts.slowest >= 0 and facts.typical >= 0:
        slow, usual = (run.members[run.rows[row].member] for row in (facts.slowest, facts.typical))
        lines.append(
            f"Open {run.name(facts.slowest)} ({slow.summary.words.input.path}) beside {run.name(facts.typical)} "
            f"({usual.summary.words.input.path}), a typical one: replaying both shows what fixes would gain."
        )
    nodes = {run.rows[row].node for row in facts.late} - {""}
    if len(nodes) == 1:
        lines.append(
            f"Log the clocks and power of {nodes.pop()} while it runs, and those of another node to compare."
        )
    if facts.slow_links:
        lines.append(f"Measure the link {facts.slow_links[0].name} on its own with nccl-tests.")
    return lines[:3]
