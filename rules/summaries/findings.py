"""The findings of a run of many ranks: about all of them together, and what single ranks show, told once each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from parsers.model import Progress
from parsers.model.units import duration, how_many, percent, rate, size
from rules.analysis.arithmetic.intervals import Intervals, length
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.groups import NEIGHBOURS, PIPELINE, messages_passed_on
from rules.analysis.ranks.run import COMPUTE, FIRST_IDLE
from rules.catalog.exposed_communication import matter
from rules.catalog.gpu_bound import MIN_COMPUTE, GpuBound
from rules.catalog.ranks import SMALL_BYTES, UNKNOWN, PipelineBubble, bubble, told_of
from rules.diagnosis import Diagnosis
from rules.findings.base import Category, Finding, Severity, severity_of
from rules.ranking import ranked
from rules.remedies.communication import EQUAL_STAGES, full_pipeline, keep_up
from rules.remedies.remedy import remedy
from rules.summaries.facts import Imbalance, ManyRanksDiagnosis
from rules.summaries.run import ManyRanks
from rules.terms import MIN_SHARE, NOBODY, Culprit, CulpritKind
from rules.wording.late_ranks import because, cannot_tell, explanation, headline, late_names, spends, when
from rules.wording.words import Headline, Part, ours, part_of_steps


def pipeline_bubble(run: ManyRanks) -> Iterator[Finding]:
    """The finding about empty stages, where the run is a pipeline and they are empty long enough."""
    waits = {row: length(_bubble(run, row)) for row in run.stages}
    ceiling = sum(waits.values()) // max(len(waits), 1)
    if not waits or ceiling < run.thresholds[MIN_SHARE] * run.window_ns:
        return
    worst = max(waits, key=lambda row: waits[row])
    whole = max(run.window_ns, 1)
    part = Part(ceiling / whole, run.steps_in_window)
    yield Finding(
        rule=PipelineBubble.id,
        category=PipelineBubble.category,
        severity=severity_of(ceiling, run.window_ns),
        headline=Headline("Pipeline stages wait for one another", part),
        account=told_of(
            str(part),
            [f"{run.name(row)} {percent(waits[row] / whole)}" for row in waits],
            _micro_batches(run),
        ),
        remedy=full_pipeline(len(waits)),
        ceiling_ns=ceiling,
        window_ns=run.window_ns,
        culprit=NEIGHBOURS,
        rank=run.rows[worst].rank,
        device=worst,
        unknown=(UNKNOWN,),
    )


def _bubble(run: ManyRanks, row: int) -> Intervals:
    shift = run.members[run.rows[row].member].shift
    start, end = run.states(row).intervals(FIRST_IDLE + Cause.NEIGHBOURS)
    assert run.collectives is not None
    return bubble(run.collectives, row, run.alone(row), (start + shift, end + shift), run.window)


def _micro_batches(run: ManyRanks) -> int:
    steady = [(start[kept], end[kept]) for start, end, kept in run.steps_of_member if kept.any()]
    if not steady or run.collectives is None:
        return 0
    first = min(int(start.min()) for start, _ in steady)
    last = max(int(end.max()) for _, end in steady)
    return round(messages_passed_on(run.collectives, first, last) / run.steps_in_window)


MIN_LINK_SHARE = 0.01  # of the window
OF_THE_WHOLE_RUN = ("late-rank", "exposed-communication")  # what one rank alone cannot judge
SMALL_MESSAGES = "many-small-collectives"  # of which one rank alone takes waiting for transfers


def findings_of_many(facts: ManyRanksDiagnosis) -> list[Finding]:
    """Every finding, in no order."""
    return [
        *_late(facts),
        *_transfers(facts),
        *_links(facts),
        *_uneven(facts),
        *pipeline_bubble(facts.run),
        *_of_single_ranks(facts),
    ]


def _part(facts: ManyRanksDiagnosis, ns: float) -> Part:
    return Part(ns / max(facts.run.window_ns, 1), facts.run.steps_in_window)


def _of_step(facts: ManyRanksDiagnosis, ns: float) -> str:
    return part_of_steps(ns, facts.run.window_ns, facts.run.steps_in_window)


def _late(facts: ManyRanksDiagnosis) -> Iterator[Finding]:
    run, late, ceiling = facts.run, facts.late, facts.late_ceiling
    if not late or run.stages or ceiling < run.thresholds[MIN_SHARE] * run.window_ns:
        return
    yield Finding(
        rule="late-rank",
        category=Category.STRAGGLER,
        severity=severity_of(ceiling, run.window_ns),
        headline=headline(facts, ceiling),
        account=explanation(facts, ceiling),
        remedy=keep_up(facts).and_then(f"Open the trace of {run.name(late[0])} beside a typical one."),
        ceiling_ns=ceiling,
        window_ns=run.window_ns,
        culprit=Culprit(CulpritKind.RANK, late_names(facts)),
        because=because(facts),
        rank=run.rows[late[0]].rank,
        device=late[0],
        unknown=(cannot_tell(facts).rstrip(),),
        confidence="medium" if facts.unrecorded else "high",
    )


def _transfers(facts: ManyRanksDiagnosis) -> Iterator[Finding]:
    run, ceiling = facts.run, facts.transfers_alone
    if ceiling < run.thresholds[MIN_SHARE] * run.window_ns:
        return
    worst = facts.late[0] if facts.late else int(facts.exposed.argmax())
    known = [
        each
        for each in run.members[run.rows[worst].member].summary.words.findings
        if each.rule == "exposed-communication"
    ]
    if not known:
        known = [
            each
            for placed in run.members
            for each in placed.summary.words.findings
            if each.rule == "exposed-communication"
        ][:1]
    if not known:
        return
    text = f"Transfers between GPUs are exposed for {_of_step(facts, ceiling)}, averaged over the ranks."
    if facts.late:
        text += f" Time spent waiting for {late_names(facts)} is not counted here."
    if facts.collectives:
        largest = facts.collectives[0]
        text += (
            f" The largest: {largest.collective} of {size(largest.bytes)} over {len(largest.rows):,} ranks, "
            f"{duration(largest.transfer_ns)}, bus bandwidth {rate(largest.bus_bandwidth)}."
        )
    yield replace(
        known[0],
        severity=severity_of(ceiling, run.window_ns),
        headline=Headline(matter(facts.in_turn, ceiling), _part(facts, ceiling)),
        account=text,
        ceiling_ns=ceiling,
        window_ns=run.window_ns,
        rank=run.rows[worst].rank,
        device=worst,
        evidence=(),
        unknown=(cannot_tell(facts).rstrip(),),
    )


def _links(facts: ManyRanksDiagnosis) -> Iterator[Finding]:
    run = facts.run
    for link in facts.slow_links[:2]:
        speed = link.speed
        ceiling = min(link.lost_ns, run.window_ns)
        if ceiling < MIN_LINK_SHARE * run.window_ns:
            continue
        yield Finding(
            rule="slow-link",
            category=Category.EXPOSED_COMMUNICATION,
            severity=severity_of(ceiling, run.window_ns),
            headline=Headline(
                f"The link {link.name} is slow",
                f"{percent(speed.bus_bandwidth / link.usual)} of the usual speed",
            ),
            account=(
                f"{speed.collective} of {size(speed.bytes)} reaches {rate(speed.bus_bandwidth)} there, against a "
                f"median of {rate(link.usual)} in groups that send the same: {duration(speed.transfer_ns)} each, "
                f"{speed.count:,} in the analysed time. {how_many(link.groups, 'group')} share "
                "it."
            ),
            remedy=remedy(
                ours(
                    "See how these GPUs are connected ($Topology) and whether a link has errors ($LinkState)."
                ),
                "Measure the same message size between just these machines with nccl-tests.",
            ),
            ceiling_ns=ceiling,
            window_ns=run.window_ns,
            culprit=Culprit(CulpritKind.COLLECTIVE, link.name),
            rank=run.rows[int(link.rows[0])].rank,
            device=int(link.rows[0]),
            unknown=("Whether all of these transfers could hide behind computation.",),
            confidence="medium",
        )


def _uneven(facts: ManyRanksDiagnosis) -> Iterator[Finding]:
    run = facts.run
    for pattern, reasons in zip(facts.patterns, facts.pattern_reasons, strict=True):
        if pattern.kind != PIPELINE:
            continue
        ceiling = min(pattern.late_ns * run.steps_in_window, run.window_ns)
        spent = spends(facts, reasons, several=True)
        why = f" They {spent}." if spent else ""
        yield Finding(
            rule="uneven-stages",
            category=Category.LOAD_IMBALANCE,
            severity=severity_of(ceiling, run.window_ns),
            headline=Headline(f"{pattern.name.capitalize()} has more work", _part(facts, ceiling)),
            account=(
                f"The {len(pattern.rows):,} ranks of {pattern.name} take {duration(pattern.late_ns)} longer for a step "
                f"than the median stage, {when(pattern.course, run.step_names)}.{why} All other stages wait for them."
            ),
            remedy=remedy(EQUAL_STAGES),
            ceiling_ns=ceiling,
            window_ns=run.window_ns,
            culprit=Culprit(CulpritKind.RANK, pattern.name),
            rank=run.rows[int(pattern.rows[0])].rank,
            device=int(pattern.rows[0]),
        )
    found = facts.imbalance
    cost = int(facts.lateness.waited.sum(axis=1).mean()) if facts.lateness.waited.size else 0
    if found is None or facts.late or cost < run.thresholds[MIN_SHARE] * run.window_ns:
        return
    yield _uneven_work(facts, found, cost)


def _uneven_work(facts: ManyRanksDiagnosis, found: Imbalance, ceiling: int) -> Finding:
    run = facts.run
    who = run.name(found.row)
    what = (
        "Ranks take turns having the most work"
        if found.rotates
        else f"{'Experts get' if found.of_experts else 'Ranks get'} unequal work"
    )
    return Finding(
        rule="uneven-work",
        category=Category.LOAD_IMBALANCE,
        severity=severity_of(ceiling, run.window_ns),
        headline=Headline(what, _part(facts, ceiling)),
        account=(
            f"The most loaded rank of a step runs {percent(found.most - 1)} more blocks of kernels than the average "
            "of its peers"
            + (", a different one in each step" if found.rotates else f", mostly {who}")
            + f". The others wait for it, {_of_step(facts, ceiling)} averaged over the ranks."
        ),
        remedy=remedy(
            "Give all ranks the same number of tokens in every step: sort or pack samples by length."
            if found.rotates
            else "Spread tokens evenly over the experts: a balancing loss, a capacity limit, or more experts per "
            "rank."
            if found.of_experts
            else f"Give {who} the same share of the work as the others."
        ),
        ceiling_ns=ceiling,
        window_ns=run.window_ns,
        culprit=NOBODY if found.rotates else Culprit(CulpritKind.RANK, who),
        rank=None if found.rotates else run.rows[found.row].rank,
        device=found.row,
    )


def _of_single_ranks(facts: ManyRanksDiagnosis) -> Iterator[Finding]:
    """What ranks show by themselves: each rule once, told of the rank where it costs most, its cost the mean of all."""
    run = facts.run
    by_rule: dict[str, list[tuple[int, Finding]]] = {}
    first_row: dict[int, int] = {}
    for number, row in enumerate(run.rows):
        first_row.setdefault(row.member, number)
    for index, placed in enumerate(run.members):
        words = placed.summary.words
        for finding, outside in zip(words.findings, words.outside_ns, strict=True):
            if finding.rule in OF_THE_WHOLE_RUN or index not in first_row:
                continue
            if first_row[index] in run.stages:  # which wait for the others then, and for nothing of their own
                finding = replace(finding, ceiling_ns=max(finding.ceiling_ns - outside, 0))
            by_rule.setdefault(finding.rule, []).append((index, finding))
    for found in by_rule.values():
        index, worst = max(found, key=lambda each: each[1].share)
        mean = sum(finding.share for _, finding in found) / len(run.members)
        if worst.rule == GpuBound.id and not _all_compute(run):
            continue
        if worst.rule == SMALL_MESSAGES:
            mean = min(mean, _small_transfers(facts) / max(run.window_ns, 1))
        told_less = worst.rule == SMALL_MESSAGES or (run.stages and worst.severity is not Severity.INFO)
        if told_less and mean < run.thresholds[MIN_SHARE]:
            continue
        at = first_row[index]
        told = f" That is {run.name(at)}"
        told += (
            f", where it costs most; {len(found):,} of {len(run.members):,} ranks show it."
            if len(found) > 1
            else "; no other rank shows it."
        )
        ceiling = round(mean * run.window_ns)
        yield replace(
            worst,
            severity=severity_of(ceiling, run.window_ns),
            headline=_times(worst.headline, mean / worst.share if worst.share else 1.0),
            account=worst.account + told,
            ceiling_ns=ceiling,
            window_ns=run.window_ns,
            rank=run.rows[at].rank,
            device=at,
            evidence=(),
        )


def _times(headline: Headline, factor: float) -> Headline:
    """A headline whose part of the time is so many times as large."""
    amount = headline.amount
    if isinstance(amount, Part):
        return replace(headline, amount=replace(amount, share=amount.share * factor))
    return headline


def _all_compute(run: ManyRanks) -> bool:
    """Whether every GPU computes nearly all the time, as the rule asks of those that are read together."""
    busy = run.parts[:, COMPUTE] + run.parts[:, FIRST_IDLE + Cause.DEPENDENCY]
    return bool(busy.min() >= run.thresholds[MIN_COMPUTE] * run.window_ns)


def _small_transfers(facts: ManyRanksDiagnosis) -> float:
    """Exposed time of small messages after all were there (ns), mean over the rows."""
    meetings = facts.run.meetings
    small = np.array([0 < kind.bytes < facts.run.thresholds[SMALL_BYTES] for kind in meetings.kinds], bool)
    return float(meetings.transferring[small[meetings.kind]].sum()) / max(len(facts.run.rows), 1)


def diagnosis_of_many(
    run: ManyRanks, progress: Progress | None = None
) -> tuple[ManyRanksDiagnosis, Diagnosis]:
    """What the run's summaries tell, and the findings, in the order of ``rules.ranking``."""
    progress = progress or Progress()
    run.__dict__["meetings"] = run.matched(progress.part(0.0, 0.7))
    facts = ManyRanksDiagnosis(run)
    progress.step(0.8, "finding who is late")
    findings: list[Finding] = findings_of_many(facts)
    progress.step(1.0, "finding who is late")
    words = [placed.summary.words for placed in run.members]
    skipped = dict(words[0].skipped) if words else {}
    for each in words[1:]:
        skipped = {rule: reason for rule, reason in skipped.items() if rule in each.skipped}
    told = {each.rule for each in findings}
    crashed = {rule: report for each in words for rule, report in each.crashed.items()}
    quiet = sorted({rule for each in words for rule in each.quiet} - told - set(crashed))
    return facts, Diagnosis(
        tuple(ranked(findings)),
        {rule: reason for rule, reason in skipped.items() if rule not in told},
        crashed,
        tuple(quiet),
        run.thresholds,
    )
