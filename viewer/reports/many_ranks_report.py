"""The diagnosis of a run of many ranks as a report, and as the JSON object of ``stallscope diagnose --json``."""

from __future__ import annotations

from typing import Any

from parsers.model.units import duration
from rules import Diagnosis, Finding
from rules.analysis.idle.causes import Cause
from rules.analysis.ranks.run import COMMUNICATION, COMPUTE, COPIES, FIRST_IDLE
from rules.summaries import page
from rules.summaries.facts import ManyRanksDiagnosis
from rules.summaries.run import ManyRanks
from rules.verdict.verdict import share_of
from rules.wording.late_ranks import doing, when
from viewer.reports.diagnosis_report import card
from viewer.reports.json_report import SCHEMA, budget_json, finding_json, quality_json
from viewer.reports.rendering.blocks import Cards, Form, Points, Report, Table, Text
from viewer.reports.rendering.terminal_report import as_terminal_text
from viewer.reports.unchecked import unchecked

MAX_UNREAD = 5
NO_REPLAY = (
    "runs of many ranks are analysed from summaries; open a few of the ranks to see what fixes would give"
)


def about(run: ManyRanks) -> list[str]:
    """How many ranks were read, and how long a time was analysed."""
    nodes = len({row.node for row in run.rows} - {""})
    where = f" on {nodes:,} nodes" if nodes > 1 else ""
    steps = f", {run.steps_in_window} steady steps" if run.steps_in_window else ""
    return [
        f"{len(run.members):,} ranks{where}, {run.quality.events_read:,} events, read as summaries",
        f"analysed: {duration(run.window_ns)}{steps}",
    ]


def budget_rows(run: ManyRanks) -> list[tuple[str, ...]]:
    """Where the time goes, as the mean of the ranks, with the least and the most of them."""
    window = max(run.window_ns, 1)
    named = [("compute", COMPUTE), ("exposed communication", COMMUNICATION), ("exposed copies", COPIES)]
    named += [(cause.label, FIRST_IDLE + cause) for cause in Cause]
    rows = []
    for label, part in named:
        column = run.parts[:, part]
        if (mean := float(column.mean())) >= window / 1000:
            values = round(mean), int(column.min()), int(column.max())
            rows.append((label, *(share_of(value, window) for value in values)))
    return rows


def as_text(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> str:
    """One page for a terminal."""
    return as_terminal_text(many_ranks_report(facts, diagnosis))


def many_ranks_report(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> Report:
    """What was found, patterns, ten ranks; nothing is replayed, and it says so."""
    run = facts.run
    costly = [
        (run.name(each.row), run.rows[each.row].node, duration(each.cost_ns), duration(each.late_ns),
         f"{each.latest_in:,}", doing(each.reasons))
        for each in facts.costly
    ]  # fmt: skip
    left_out = [f"{path}: {reason}" for path, reason in run.unread[:MAX_UNREAD]]
    if len(run.unread) > MAX_UNREAD:
        left_out.append(f"and {len(run.unread) - MAX_UNREAD:,} more files (see --json)")
    skipped = [f"{checks}: {reason}" for checks, reason in unchecked(diagnosis)]
    return Report(
        page.sentence(facts, diagnosis),
        (
            Text((*about(run), f"What fixes would give is not predicted: {NO_REPLAY}."), quiet=True),
            Points("Left out", tuple(left_out)),
            Table("Where the time goes", ("", "mean", "least", "most"), budget_rows(run)),
            Points("Who is late", tuple(f"{who}, {why}" for who, why in page.patterns(facts))),
            Table(
                "Ranks that cost the most",
                ("", "node", "others wait in a step", "late by", "latest in steps", "why"),
                costly,
                prose=(0, 1, 5),
            ),
            Points("Links and balance", (*page.links(facts), *page.balance(facts))),
            Cards(tuple(card(each, "", "", {}) for each in diagnosis.findings)),
            Points("Look at next", tuple(page.next_steps(facts))),
            Points("Not checked", tuple(skipped), form=Form.PAGE),
            Points("Thresholds that were changed", tuple(diagnosis.thresholds.changed()), form=Form.PAGE),
        ),
    )


def as_json(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> dict[str, Any]:
    """The same object as of a full reading, with ``ranks`` for what only many of them show. Times are integer ns.

    What fixes would give is not known here, so nothing is said to be done first and no causes are joined.
    """
    run = facts.run
    words = [placed.summary.words for placed in run.members]
    return {
        "schema": SCHEMA,
        "inputs": [
            {
                "path": each.input.path,
                "format": each.input.format,
                "producer": each.input.producer,
                "rank": placed.rank,
            }
            for placed, each in zip(run.members, words, strict=True)
        ],
        "quality": quality_json(run.quality),
        "completeness": _completeness(run),
        "headline": {"sentence": page.sentence(facts, diagnosis), "do_first": ""},
        "causes": [],
        "window_ns": run.window_ns,
        "steps": [step for member in range(len(words)) for step in _steps(run, member)],
        "devices": [_device(run, row) for row in range(len(run.rows))],
        "memory": [],
        "kernels": [],
        "tables": [],
        "statistics": {},
        "findings": [finding_json(finding, _device_id(run, finding), []) for finding in diagnosis.findings],
        "fixes": [],
        "replay": {"error": None, "recorder_share": None, "steps": 0, "reason": NO_REPLAY, "withheld": []},
        "critical_path": {},
        "ranks": _ranks(facts, diagnosis),
        "skipped": dict(sorted(diagnosis.skipped.items())),
        "crashed": dict(sorted(diagnosis.crashed.items())),
        "quiet": list(diagnosis.quiet),
        "thresholds": dict(sorted(diagnosis.thresholds.chosen.items())),
    }


def _completeness(run: ManyRanks) -> dict[str, Any]:
    words = [placed.summary.words for placed in run.members]
    launches, lost = (
        sum(each.launches for each in words),
        sum(each.launches_without_operation for each in words),
    )
    return {
        "launches": launches,
        "launches_without_operation": lost,
        "share": round(1 - lost / max(launches, 1), 4),
        "lost_records": any(each.lost_records for each in words),
    }


def _steps(run: ManyRanks, member: int) -> list[dict[str, Any]]:
    words = run.members[member].summary.words
    start, end, steady = run.steps_of_member[member]
    return [
        {
            "name": name,
            "rank": run.members[member].rank,
            "start_ns": first,
            "end_ns": last,
            "steady": bool(is_steady),
            "found_by": words.found_by,
        }
        for name, first, last, is_steady in zip(
            words.step_names, start.tolist(), end.tolist(), steady.tolist(), strict=True
        )
    ]


def _device(run: ManyRanks, row: int) -> dict[str, Any]:
    found = run.rows[row]
    words = run.members[found.member].summary.words
    device = words.devices[found.device]
    first, last = words.span[found.device]
    operations, kernels = words.operations[found.device]
    return {
        "rank": found.rank,
        "device": device.id,
        "name": device.name,
        "node": found.node or None,
        "gpu_events": operations,
        "kernels": kernels,
        "span_ns": last - first,
        "busy_ns": run.busy_ns(row),
        "budget": budget_json(run.budget(row)),
        "step": None,
        "energy_j": None,
    }


def _device_id(run: ManyRanks, finding: Finding) -> int | None:
    if finding.device is None:
        return None
    row = run.rows[finding.device]
    return run.members[row.member].summary.words.devices[row.device].id


def _ranks(facts: ManyRanksDiagnosis, diagnosis: Diagnosis) -> dict[str, Any]:
    """What only many ranks show."""
    run, meetings = facts.run, facts.run.meetings
    waited, blamed = meetings.by_row(meetings.waiting), facts.lateness.started
    return {
        "sentence": page.sentence(facts, diagnosis),
        "read_as_summaries": len(run.members),
        "left_out": [{"path": path, "reason": reason} for path, reason in run.unread],
        "late": [run.name(row) for row in facts.late],
        "lost_to_late_ns": facts.lost_to_late,
        "by_rank": [
            {
                "rank": row.rank,
                "node": row.node or None,
                "waits_ns": int(waits),
                "makes_wait_ns": round(caused),
            }
            for row, waits, caused in zip(run.rows, waited, blamed, strict=True)
        ],
        "costly": [
            {
                "rank": run.rows[each.row].rank,
                "makes_wait_ns_per_step": each.cost_ns,
                "late_by_ns": each.late_ns,
                "latest_in_steps": each.latest_in,
                "why": doing(each.reasons),
            }
            for each in facts.costly
        ],
        "patterns": [
            {
                "kind": pattern.kind,
                "name": pattern.name,
                "ranks": [run.rows[row].rank for row in pattern.rows.tolist()],
                "late_by_ns": pattern.late_ns,
                "when": when(pattern.course, run.step_names),
                "why": doing(reasons, len(pattern.rows) > 1),
            }
            for pattern, reasons in zip(facts.patterns, facts.pattern_reasons, strict=True)
        ],
        "slow_links": [
            {
                "name": link.name,
                "ranks": [run.rows[row].rank for row in link.rows.tolist()],
                "collective": link.speed.collective,
                "bytes": link.speed.bytes,
                "bus_bandwidth": round(link.speed.bus_bandwidth),
                "usual_bus_bandwidth": round(link.usual),
            }
            for link in facts.slow_links
        ],
        "groups": [
            {"kind": kind, "latest": name, "late_by_ns": late} for kind, name, late in page.groups(facts)
        ],
        "scaling": [{"ranks": each.ranks, "slowest_ns": each.step_ns} for each in facts.scaling],
        "typical": None if facts.typical < 0 else run.rows[facts.typical].rank,
        "next": page.next_steps(facts),
    }
