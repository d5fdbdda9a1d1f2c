"""The diagnosis as a report: pictures, budgets, fixes, findings, tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from parsers.model import Trace
from parsers.model.names.devices import device_name
from parsers.model.units import duration
from rules import Diagnosis, Finding
from rules.analysis.analysis import Analysis
from rules.fixes.plan import plan_of
from rules.memory.summary import memory_of
from rules.verdict.promises import about_replay, first_step, gain, held_back, usually, worded
from rules.verdict.verdict import (
    first_problem,
    gpus_that_ran,
    lacks_a_gpu,
    share_of,
    shows_no_run,
    time_parts,
    verdict,
    what_lacks_a_gpu,
)
from rules.wording.memory import memory_lines
from rules.wording.words import Reader
from viewer.appearance.naming import place_name
from viewer.appearance.plain_text import one_line
from viewer.reports.charts import budget_chart
from viewer.reports.fixes_report import advice_beside, numbers_of_changes
from viewer.reports.interactive.recording import packed_recording
from viewer.reports.pictures.timeline_picture import shown_stretch, timeline_picture
from viewer.reports.rendering.blocks import (
    Block,
    Card,
    Cards,
    Change,
    Changes,
    Chart,
    Form,
    Points,
    Report,
    Spot,
    Table,
    Text,
)
from viewer.reports.rendering.pages import page_of
from viewer.reports.tables_report import (
    FEW,
    MAX_ON_PAGE,
    MAX_PRINTED,
    every_table,
    rows_that_matter,
    tables_blocks,
)
from viewer.reports.unchecked import unchecked

MAX_PLACES = 5
MAX_GPUS = 4  # where room is scarce
MIN_SHARE = 0.005  # of the window


def as_html(trace: Trace, diagnosis: Diagnosis, analysis: Analysis, *, all_tables: bool = False) -> str:
    """The whole diagnosis as a page."""
    return page_of(diagnosis_report(trace, diagnosis, analysis, all_tables=all_tables)).text


def diagnosis_report(
    trace: Trace, diagnosis: Diagnosis, analysis: Analysis, *, all_tables: bool = False
) -> Report:
    """The whole diagnosis of one run."""
    plan, reader = plan_of(analysis), Reader.of(trace)
    is_run = not shows_no_run(analysis, diagnosis)
    shown = gpus_that_ran(trace) if is_run else []
    first = first_step(plan, diagnosis)
    files = one_line(", ".join(f"{each.path} ({each.producer})" for each in trace.inputs))
    blocks: list[Block] = [Text((first,))] if first else []
    blocks.append(Text((files,), quiet=True))
    if len(trace.events):
        problem = first_problem(diagnosis)
        t0, t1, words = shown_stretch(analysis, problem.evidence if problem else ())
        draw = partial(timeline_picture, analysis)
        pack = partial(packed_recording, analysis, (t0, t1))
        blocks.append(Chart(lambda ink: draw(ink=ink), caption=words, recording=pack, form=Form.PAGE))
    blocks += [
        _budget(trace, analysis, diagnosis, index, Form.EVERYWHERE if place < MAX_GPUS else Form.PAGE)
        for place, index in enumerate(shown)
        if analysis.window_ns
    ]
    numbers = numbers_of_changes(plan.promises, reader) if is_run else {}
    changes = tuple(
        Change(
            each.proposal.title,
            ". ".join(
                told for told in (worded(each), held_back(plan, each).rstrip("."), usually(each)) if told
            ),
            each.proposal.remedy.advice_for(reader),
            each.proposal.remedy.code_for(reader),
        )
        for each in plan.promises
        if is_run
    )
    skipped = (
        what_lacks_a_gpu(trace, diagnosis)
        if lacks_a_gpu(trace, diagnosis)
        else [f"{checks}: {reason}" for checks, reason in unchecked(diagnosis)]
    )
    memory = [line for each in memory_of(analysis) for line in memory_lines(each, analysis)]
    tables = (
        tables_blocks(every_table(analysis), MAX_ON_PAGE, MAX_PRINTED)
        if all_tables
        else tables_blocks(rows_that_matter(analysis, MAX_ON_PAGE), MAX_ON_PAGE, FEW)
    )
    return Report(
        verdict(analysis, diagnosis),
        (
            *blocks,
            Changes("What to change, in this order", changes),
            Text((about_replay(plan) if is_run else "",), quiet=True, form=Form.PAGE),
            Cards(
                tuple(
                    card(each, gain(each, plan), gain(each, plan, short=True), numbers)
                    for each in diagnosis.findings
                )
            ),
            Points("Memory", tuple(memory), form=Form.PAGE),
            *tables,
            Points("Not checked", tuple(skipped), form=Form.PAGE),
            Points("Thresholds that were changed", tuple(diagnosis.thresholds.changed()), form=Form.PAGE),
        ),
    )


def _budget(trace: Trace, analysis: Analysis, diagnosis: Diagnosis, index: int, form: Form) -> Chart:
    time = time_parts(analysis, diagnosis, index)
    name = f"{device_name(trace, index)} {trace.devices[index].name}".rstrip()
    rows = [
        (share_of(ns, time.whole_ns), duration(ns), label)
        for _, label, ns in time.parts
        if ns >= MIN_SHARE * time.whole_ns
    ]
    return Chart(
        partial(budget_chart, time),
        caption=f"{name}, {time.of or duration(time.whole_ns)}",
        table=Table("", ("share", "time", name), rows),
        form=form,
    )


def card(finding: Finding, gives: str, short: str, changes: Mapping[str, int]) -> Card:
    """A finding with what mending it gives, and the advice that no change says."""
    return Card(
        severity=finding.severity.value,
        title=finding.title,
        gives=gives,
        short=short,
        explanation=finding.explanation,
        advice=advice_beside(finding, changes),
        code="" if finding.code in changes else finding.code,
        cannot_tell=finding.cannot_tell,
        places=tuple(
            Spot(
                f"{place_name(each)} at {duration(each.start)}, {duration(each.end - each.start)}",
                each.lane,
                int(each.start),
                int(each.end),
            )
            for each in finding.evidence[:MAX_PLACES]
        ),
        line=finding.at.told if finding.at is not None else "",
    )
