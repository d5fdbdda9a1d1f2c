"""``stallscope diagnose``: says what is slow and why, as text, JSON or a page, and is a gate on findings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from viewer.terminal.console import json_text, print_json, program_version, recording, terminal_progress
from viewer.terminal.exit_codes import DONE, GATE_FAILED, GATE_INCONCLUSIVE
from viewer.terminal.kept_answers import Answer, Question, question_of
from viewer.terminal.option_values import (
    add_gates,
    add_reports,
    add_thresholds,
    count,
    files_asked_for,
    folder,
    price,
    thresholds_of,
    write_reports,
)

if TYPE_CHECKING:
    from parsers.model import Progress
    from rules import Diagnosis, Severity
    from rules.analysis.analysis import Analysis
    from rules.summaries.run import ManyRanks
    from viewer.reports.report_files import Makers


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("diagnose", help="show what is slow and why")
    add_options(parser)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.set_defaults(question=_question)


def add_options(parser: argparse.ArgumentParser) -> None:
    """All but the paths."""
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    add_reports(parser, ("html", "pdf", "markdown", "junit", "sarif"))
    parser.add_argument(
        "--lines", action="store_true", help='print "file:line: message" for each finding whose line is known'
    )
    parser.add_argument(
        "--map",
        type=folder,
        action="append",
        default=[],
        metavar="RECORDED=HERE",
        help="maps a source folder in a recording from another machine to one here",
    )
    parser.add_argument(
        "--tables", action="store_true", help="show every table, not only the rows that matter"
    )
    parser.add_argument(
        "--fail-on",
        choices=["high", "medium", "low"],
        help="exit with 1 on such a finding, with 3 where there is no GPU work, or no run, to judge",
    )
    add_gates(parser)
    add_thresholds(parser)
    parser.add_argument(
        "--cost-per-hour",
        type=price,
        metavar="PRICE",
        help="price of one GPU hour, in any currency: shows what idle time costs",
    )
    parser.add_argument(
        "--workers",
        type=count,
        default=0,
        metavar="N",
        help="analyse any number of ranks with N processes (default: one per core)",
    )
    parser.add_argument(
        "--scheduler",
        default="",
        metavar="ADDRESS",
        help="analyse the ranks on this Dask cluster, such as tcp://host:8786; local starts one here",
    )
    parser.set_defaults(run=run)


def diagnose_files(paths: Sequence[Path], then: Callable[[Analysis, Diagnosis], None]) -> int:
    """Print what is wrong in files of one run, as the command does without options; ``then`` gets what was found."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    options = argparse.Namespace(**vars(parser.parse_args([])), paths=[str(path) for path in paths])
    return _run(options, then)


def run(options: argparse.Namespace) -> int:
    """Diagnose; the exit code."""
    return _run(options)


def _run(options: argparse.Namespace, then: Callable[[Analysis, Diagnosis], None] | None = None) -> int:
    progress = terminal_progress()
    if (many := _many_ranks(options, progress.part(0.0, 0.9))) is not None:
        return _diagnose_many(many, options, progress.part(0.9, 1.0))
    question = None if then else _question(options)
    trace = recording(options.paths, progress.part(0.0, 0.7), lambda: _load(options.json))
    from rules import diagnosis_of
    from rules.analysis.analysis import Analysis
    from rules.fixes.plan import plan_of

    analysis = Analysis(trace, thresholds_of(options))
    diagnosis = diagnosis_of(analysis, progress.part(0.7, 1.0))
    progress.step(1.0, "")
    level = _level(options)
    undecided = _undecided(analysis, diagnosis)
    if files_asked_for(options):
        from rules.verdict.verdict import verdict
        from viewer.reports.report_files import diagnosis_files

        makers = diagnosis_files(trace, diagnosis, analysis, all_tables=options.tables)
        _write_files(options, makers, verdict(analysis, diagnosis), diagnosis, level, undecided)
    answer = Answer(_printed(options, analysis, diagnosis), *_gate(diagnosis, level, undecided))
    if question is not None and not (diagnosis.crashed or plan_of(analysis).crashed):
        question.keep(answer, trace)
    code = answer.tell()
    if then is not None:
        then(analysis, diagnosis)
    return code


def _question(options: argparse.Namespace) -> Question | None:
    """What is asked, where it can be answered from what was found out before."""
    if files_asked_for(options) or options.scheduler or options.workers:
        return None
    return question_of(
        options.paths,
        {
            "command": "diagnose",
            "json": options.json,
            "tables": options.tables,
            "price": options.cost_per_hour,
            "level": options.fail_on,
            "gates": options.gates,
            "thresholds": dict(options.threshold),
            "lines": options.lines,
            "map": options.map,
        },
    )


def _printed(options: argparse.Namespace, analysis: Analysis, diagnosis: Diagnosis) -> str:
    price, all_tables = options.cost_per_hour, options.tables
    if options.lines:
        return _lines(options, diagnosis)
    from viewer.capture.trials.records import trial_records

    records = trial_records(analysis.trace)
    if options.json:
        from viewer.reports.json_report import as_json

        told = as_json(analysis.trace, diagnosis, analysis, price, all_tables=all_tables, records=records)
        return json_text(told)
    from viewer.reports.text_report import as_text

    return as_text(analysis.trace, diagnosis, analysis, price, all_tables=all_tables, records=records)


def _lines(options: argparse.Namespace, diagnosis: Diagnosis) -> str:
    from viewer.reports.line_reports import line_messages

    lines = line_messages(diagnosis, dict(options.map))
    if not lines:
        sys.stderr.write(
            "No finding has a line: the recording has no stacks of the program's own code (--stacks).\n"
        )
    return "".join(f"{line}\n" for line in lines)


def _load(json: bool) -> None:
    """Load what judges and tells, while another process reads."""
    from rules.analysis.names.families import classify
    from rules.findings.base import rules
    from rules.fixes.base import fixes

    rules(counters=False)
    fixes()
    classify("")  # makes the patterns of all families
    if json:
        from viewer.reports import json_report  # noqa: F401
    else:
        from viewer.reports import text_report  # noqa: F401


def _level(options: argparse.Namespace) -> Severity | None:
    """Of the option, or of the file of gates."""
    from rules import Severity

    if options.fail_on:
        return Severity(options.fail_on)
    kept: Severity | None = options.gates.fail_on if options.gates else None
    return kept


def _write_files(
    options: argparse.Namespace,
    makers: Makers,
    title: str,
    diagnosis: Diagnosis,
    level: Severity | None,
    undecided: str,
) -> None:
    from rules import Severity
    from viewer.reports.gate_report import diagnosis_junit

    def junit() -> bytes:
        text = diagnosis_junit(title, diagnosis, level or Severity.HIGH, undecided)
        return text.encode("utf-8", "replace")

    def lines() -> bytes:
        from viewer.reports.line_reports import sarif

        return sarif(diagnosis, dict(options.map), program_version())

    write_reports(options, {**makers, "junit": junit, "sarif": lines})


def _undecided(analysis: Analysis, diagnosis: Diagnosis) -> str:
    """Why the absence of findings says nothing; empty where it does."""
    from rules.verdict.verdict import shows_no_run

    if not (len(analysis.trace.gpu_operations) or analysis.trace.kernels):
        return "no GPU work was recorded"
    if shows_no_run(analysis, diagnosis):
        return "the recording does not contain a complete run"
    return _crashed(diagnosis)


def _diagnose_many(run: ManyRanks, options: argparse.Namespace, progress: Progress) -> int:
    from rules.summaries.findings import diagnosis_of_many
    from viewer.reports.many_ranks_report import as_json, as_text, many_ranks_report

    facts, diagnosis = diagnosis_of_many(run, progress)
    progress.step(1.0, "")
    level = _level(options)
    if files_asked_for(options):
        from rules.summaries.page import sentence
        from viewer.reports.report_files import makers_of

        makers = makers_of(lambda: many_ranks_report(facts, diagnosis))
        _write_files(options, makers, sentence(facts, diagnosis), diagnosis, level, _crashed(diagnosis))
    if options.json:
        print_json(as_json(facts, diagnosis))
    else:
        sys.stdout.write(as_text(facts, diagnosis))
    sys.stdout.flush()
    return Answer("", *_gate(diagnosis, level, _crashed(diagnosis))).tell()


def _many_ranks(options: argparse.Namespace, progress: Progress) -> ManyRanks | None:
    """The run of so many ranks that it is judged by summaries, or of any number where that is asked; else None."""
    from parsers.files.fetched import is_address
    from viewer.loading.ranks.asking import FULL_RANKS, may_be_many
    from viewer.remote.addresses import SSH, bring_here, path_of

    paths = [path_of(name) for name in options.paths]
    at_services = [name for name in options.paths if is_address(name) and not name.startswith(f"{SSH}://")]
    if not (at_services or options.scheduler or options.workers or may_be_many(paths)):
        return None
    from viewer.loading.ranks.opening import FilesOfRun, Workers, files_of_many, many_ranks_of, open_many
    from viewer.loading.ranks.remote_files import listed

    thresholds = thresholds_of(options)
    always = bool(options.scheduler or options.workers)
    there = tuple(each for name in options.paths for each in listed(name)) if at_services else ()
    if there and (always or len(there) > FULL_RANKS):
        files: FilesOfRun | None = FilesOfRun(there, ())
    elif "-" in options.paths:
        return None
    elif always:
        bring_here(paths, progress.part(0.0, 0.05))
        files = files_of_many(paths, progress.part(0.0, 0.05), always=True)
    else:
        opened = many_ranks_of(paths, progress, thresholds)
        return opened[1] if opened is not None else None
    if files is None:
        return None
    workers = Workers(options.workers, options.scheduler)
    return open_many(files, progress.part(0.05, 1.0), thresholds, workers)


def _crashed(diagnosis: Diagnosis) -> str:
    return f"these checks failed: {', '.join(sorted(diagnosis.crashed))}" if diagnosis.crashed else ""


def _gate(diagnosis: Diagnosis, level: Severity | None, undecided: str) -> tuple[int, str]:
    """The exit code and why: it fails on a finding of the level or above; what cannot be judged does not pass."""
    from rules import Severity

    if level is None:
        return DONE, ""
    levels = list(Severity)
    loud = levels[: levels.index(level) + 1]
    found = [finding for finding in diagnosis.findings if finding.severity in loud]
    if found:
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        return GATE_FAILED, f"The gate failed: {found[0].title} [{found[0].severity}]{more}."
    if undecided:
        return GATE_INCONCLUSIVE, f"The gate cannot decide: {undecided}."
    return DONE, ""
