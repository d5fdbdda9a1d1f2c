"""``stallscope self-check``: counts what this installation can read and check, and tries whether this machine does."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from parsers.model.units import parse_size, size
from viewer.terminal.console import complain, print_json, program_version, terminal_progress
from viewer.terminal.exit_codes import BAD_INPUT, DONE
from viewer.terminal.option_values import seconds

if TYPE_CHECKING:
    from viewer.doctor.examination import Trial

MIN_SIZE, MAX_SIZE = 1_000, 4 * 10**9


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser(
        "self-check", help="check this installation: list the formats it reads and the rules it applies"
    )
    parser.add_argument(
        "--deep",
        action="store_true",
        help="open synthetic recordings in every way and report what is slow or broken",
    )
    parser.add_argument(
        "--largest",
        type=_size,
        default=500 * 10**6,
        metavar="SIZE",
        help="size of these recordings (default 500MB)",
    )
    parser.add_argument(
        "--limit",
        type=seconds,
        metavar="SECONDS",
        help="seconds after which opening a recording counts as hung",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Count, and try where that is asked; the exit code."""
    from parsers.files.base import parsers
    from rules.findings.base import EXPLANATION_HEADINGS, rules

    readers, checks = parsers(), rules()
    samples = _samples()
    faults = [
        f"rule {check.id}: its explanation lacks {heading!r}"
        for check in checks
        for heading in EXPLANATION_HEADINGS
        if heading not in check.explanation
    ]
    faults += [
        f"no {what} were found" for what, found in (("formats", readers), ("rules", checks)) if not found
    ]
    if not options.json:
        print(f"stallscope {program_version()}")
        print(f"formats: {len(readers)} ({', '.join(reader.format for reader in readers)})")
        print(f"rules: {len(checks)} ({', '.join(check.id for check in checks)})")
        print(f"samples: {samples}", flush=True)
    trials = _tried(options) if options.deep else []
    faults += [
        f"{each.kind} of {size(each.bytes)}, {each.way}: {each.broken}" for each in trials if each.broken
    ]
    if options.json:
        print_json(
            {
                "version": program_version(),
                "formats": [reader.format for reader in readers],
                "rules": [check.id for check in checks],
                "samples": samples,
                "trials": [_trial_json(each) for each in trials],
                "faults": faults,
            }
        )
    elif options.deep:
        broken = sum(bool(each.broken) for each in trials)
        slow = sum(bool(each.slow and not each.broken) for each in trials)
        print(f"{len(trials)} tries: {broken} broken, {slow} slow on this machine.")
    for fault in faults:
        complain(fault)
    return BAD_INPUT if faults else DONE


def _samples() -> int:
    import resources

    found = (path for path in resources.path("samples").iterdir() if path.suffix not in (".toml", ".py"))
    return len([path for path in found if not path.name.startswith("_")])


def _tried(options: argparse.Namespace) -> list[Trial]:
    """All trials, each told as a line as soon as it is over."""
    from viewer.doctor.examination import examine

    progress, done = terminal_progress(), []
    if not options.json:
        print(f"\n{'recording':<15}{'size':>9}  {'opened by':<14}{'time':>9}{'MB/s':>8}{'x bare':>8}")
    for trial in examine(options.largest, options.limit, lambda doing: progress.step(0.0, doing)):
        progress.step(1.0, "")
        done.append(trial)
        if not options.json:
            sys.stdout.write(f"{_line(trial)}\n")
            sys.stdout.flush()
    return done


def _line(trial: Trial) -> str:
    """A row of the table; ``x bare`` is the time in times of reading the file's bytes."""
    bare = f"{trial.seconds / trial.bare:,.0f}" if trial.bare else ""
    return (
        f"{trial.kind:<15}{size(trial.bytes):>9}  {trial.way:<14}{trial.seconds:>7.2f} s"
        f"{trial.bytes_per_s / 1e6:>8.1f}{bare:>8}  {trial.broken or trial.slow or 'good'}"
    )


def _trial_json(trial: Trial) -> dict[str, Any]:
    return {
        "recording": trial.kind,
        "bytes": trial.bytes,
        "way": trial.way,
        "seconds": round(trial.seconds, 4),
        "seconds_to_read_bytes": round(trial.bare, 4),
        "broken": trial.broken or None,
        "slow": trial.slow or None,
    }


def _size(text: str) -> int:
    value = parse_size(text) or 0.0
    if not MIN_SIZE <= value <= MAX_SIZE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size between 1KB and 4GB, such as 100MB")
    return int(value)
