"""What is answered to assistants: plain text and plain values, bounded in size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from parsers.model import Progress
from parsers.model.units import duration
from rules.analysis.analysis import Analysis
from rules.analysis.names.software import software_of
from rules.findings.base import rules
from rules.fixes.plan import plan_of
from viewer.appearance.plain_text import safe
from viewer.assistant.recordings import Refused
from viewer.capture.trials.records import trial_records
from viewer.query.database import database_of
from viewer.query.errors import MAX_WORD, QueryError, shortened
from viewer.query.questions import questions, sql_of
from viewer.reports.fixes_report import fixes_text, outcome_text
from viewer.reports.tables_report import plain, table_of, tables_json
from viewer.reports.text_report import as_text
from viewer.tables.rows.found import findings_of
from viewer.tables.table import described, row_tables, summaries

MAX_TEXT_LENGTH = 24_000  # characters of one answer
MAX_ROWS, USUAL_ROWS = 500, 50
MAX_PLACES = 10
MAX_CELL_LENGTH = 400  # characters
MAX_BYTES = 200_000  # of one answer with rows


def bounded(text: str) -> str:
    """Text without what a terminal would act on, cut where it is too long."""
    said = safe(text)
    return said if len(said) <= MAX_TEXT_LENGTH else f"{said[:MAX_TEXT_LENGTH]}\n... truncated: ask for less"


def about(analysis: Analysis, progress: Progress) -> dict[str, Any]:
    """What a recording is: files, length, GPUs, steps, the analysed time, and what lacks."""
    trace = analysis.trace
    t0, t1 = analysis.window
    return {
        "files": [{"path": each.path, "producer": each.producer, "rank": each.rank} for each in trace.inputs],
        "events": len(trace.events),
        "length_ns": trace.duration,
        "analysed_ns": [t0, t1],
        "analysed": f"{duration(t1 - t0)}, {analysis.window_text}"
        if analysis.is_timed
        else analysis.window_text,
        "software": list(software_of(trace)),
        "devices": [
            {"rank": each.rank, "device": each.id, "name": each.name} for each in trace.devices[:MAX_ROWS]
        ],
        "steps": len(analysis.steps),
        "counters": len(trace.counters),
        "profiled_kernels": len(trace.kernels),
        "notes": [note.reason for note in trace.quality.notes[:20]],
    }


def diagnosis(analysis: Analysis, progress: Progress) -> str:
    """What `stallscope diagnose` prints."""
    records = trial_records(analysis.trace)
    return bounded(as_text(analysis.trace, findings_of(analysis), analysis, records=records))


def table(
    analysis: Analysis,
    progress: Progress,
    name: str,
    rows: int = USUAL_ROWS,
    span: Sequence[int] | None = None,
) -> dict[str, Any]:
    """The first rows of a summary or of a table of rows, of all or of [start, end) ns. Raises ``Refused``."""
    if name in summaries():
        found = table_of(analysis, name, None if span is None else (span[0], span[1]))
        told: dict[str, Any] = tables_json([found])[name]
        kept = told["rows"][: _count(rows)]
        kept = _fitting([_cells(row) for row in kept])
        return told | {"rows": kept, "rows_left_out": found.left_out + len(found.rows) - len(kept)}
    if name not in row_tables():
        said = shortened(name, MAX_WORD)
        raise Refused(
            f"There is no table {said!r}. Available tables: {', '.join((*summaries(), *row_tables()))}."
        )
    where = "" if span is None else f" WHERE start_ns >= {span[0]} AND start_ns < {span[1]}"
    columns = [
        {"name": column.name, "unit": column.unit, "about": column.about} for column in described(name)
    ]
    return {"columns": columns} | query(analysis, progress, f"SELECT * FROM {name}{where}", rows)


def tables() -> dict[str, str]:
    """Every table by name, with what one row of it is."""
    return {name: each.about for name, each in summaries().items()} | {
        name: each.about for name, each in row_tables().items()
    }


def ready_made() -> dict[str, str]:
    """Every ready-made question by name, with its title."""
    return {name: f"{each.group}: {each.title}" for name, each in questions().items()}


def query(analysis: Analysis, progress: Progress, sql: str, rows: int = USUAL_ROWS) -> dict[str, Any]:
    """The first rows of an answer, how many there are in all, and sums over all. Raises ``QueryError``."""
    found = database_of(analysis).run(sql_of(sql), _count(rows), progress)
    names = [str(name)[:MAX_CELL_LENGTH] for name in found.frame.columns]
    if len(json.dumps(names)) > MAX_BYTES:
        raise QueryError(f"An answer with {len(names):,} columns is too long.", "Ask for fewer of them.")
    columns = [plain(found.frame.iloc[:, index].tolist()) for index in range(found.frame.shape[1])]
    return {
        "columns": names,
        "rows": _fitting([_cells(row) for row in zip(*columns, strict=True)]),
        "rows_in_all": found.rows,
        "sums": {
            name[:MAX_CELL_LENGTH]: {"total": each.total, "median": each.median, "p99": each.p99}
            for name, each in found.sums.items()
        },
    }


def _fitting(rows: list[list[Any]]) -> list[list[Any]]:
    """As many of the first rows as one answer may have bytes."""
    size = 0
    for index, row in enumerate(rows):
        size += len(json.dumps(row, indent=2))  # it is sent indented
        if size > MAX_BYTES:
            return rows[:index]
    return rows


def explanation(analysis: Analysis, progress: Progress, finding: int) -> dict[str, Any]:
    """Everything about one finding, by its number from 1: numbers, advice, and how its rule decides."""
    found = _finding(analysis, finding)
    rule = next((each for each in rules() if each.id == found.rule), None)
    return {
        "title": found.title,
        "severity": found.severity.value,
        "culprit": found.culprit.text,
        "explanation": bounded(found.explanation),
        "advice": list(found.advice),
        "code": found.code,
        "ceiling_ns": int(found.ceiling_ns),
        "cannot_tell": found.cannot_tell,
        "how_the_rule_decides": bounded(rule.explanation) if rule is not None else "",
    }


def places(analysis: Analysis, progress: Progress, finding: int) -> list[dict[str, Any]]:
    """Where to see a finding: the longest places."""
    found = _finding(analysis, finding)
    longest = sorted(found.evidence, key=lambda each: each.start - each.end)[:MAX_PLACES]
    lanes = analysis.trace.lanes
    return [
        {
            "name": each.name[:MAX_CELL_LENGTH],
            "lane": lanes[each.lane].name if 0 <= each.lane < len(lanes) else "",
            "start_ns": int(each.start),
            "end_ns": int(each.end),
            "event": int(each.event),
        }
        for each in longest
    ]


def _finding(analysis: Analysis, number: int) -> Any:
    found = findings_of(analysis).findings
    if not 1 <= number <= len(found):
        raise Refused(f"There are {len(found)} findings, numbered from 1.")
    return found[number - 1]


def predictions(analysis: Analysis, progress: Progress, fixes: Sequence[str] = ()) -> str:
    """What each fix would give, or some of them together. Raises ``Refused`` for an unknown one."""
    plan = plan_of(analysis)
    if not fixes:
        return bounded("\n".join(fixes_text(analysis, findings_of(analysis), trial_records(analysis.trace))))
    try:
        chosen = plan.chosen(list(fixes))
    except KeyError as error:
        known = ", ".join(each.id for each in plan.promises) or plan.reason or "none"
        said = shortened(str(error.args[0]), MAX_WORD)
        raise Refused(f"This recording has no fix {said!r}. Available fixes: {known}.") from None
    return bounded(outcome_text(plan, plan.predict(list(fixes)), chosen))


def comparison(before: Analysis, after: Analysis, progress: Progress) -> str:
    """What `stallscope compare` prints. Raises ``TraceError`` where the two cannot be compared."""
    from rules.comparison.compare import compare
    from viewer.reports.comparison_blocks import as_text as compared

    return bounded(compared(compare(before.trace, after.trace)))


_TOOLS: Mapping[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (about, diagnosis, table, query, explanation, places, predictions, comparison)
}


def told(*analyses: Analysis, progress: Progress, tool: str, arguments: dict[str, Any]) -> Iterator[bytes]:
    """What one of the functions above says, as JSON, in the process that holds the recordings."""
    try:
        yield json.dumps({"answer": _TOOLS[tool](*analyses, progress=progress, **arguments)}).encode()
    except Refused as error:
        yield json.dumps({"refused": str(error)}).encode()


def _count(rows: int) -> int:
    return min(max(rows, 1), MAX_ROWS)


def _cells(row: Sequence[Any]) -> list[Any]:
    """Short values as they are, and the beginning of long ones."""
    found = []
    for value in row:
        is_long = isinstance(value, list | dict | int) and len(as_json := json.dumps(value)) > MAX_CELL_LENGTH
        found.append(
            as_json[:MAX_CELL_LENGTH]
            if is_long
            else value[:MAX_CELL_LENGTH]
            if isinstance(value, str)
            else value
        )
    return found
