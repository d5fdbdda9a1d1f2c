"""``stallscope self-check``: counts what this installation can read and check."""

from __future__ import annotations

import argparse
from typing import Any

from viewer.terminal.console import complain, program_version
from viewer.terminal.exit_codes import BAD_INPUT, DONE


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("self-check", help="count what this installation can read and check")
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Count; the exit code."""
    import resources
    from parsers.base import parsers
    from rules.base import EXPLANATION_HEADINGS, rules

    readers, checks = parsers(), rules()
    samples = sorted(
        path for path in resources.path("samples").iterdir() if path.suffix not in (".toml", ".py")
    )
    print(f"stallscope {program_version()}")
    print(f"formats: {len(readers)} ({', '.join(reader.format for reader in readers)})")
    print(f"rules: {len(checks)} ({', '.join(check.id for check in checks)})")
    print(f"samples: {len([path for path in samples if not path.name.startswith('_')])}")
    faults = [
        f"rule {check.id}: its explanation lacks {heading!r}"
        for check in checks
        for heading in EXPLANATION_HEADINGS
        if heading not in check.explanation
    ]
    faults += [
        f"no {what} were found" for what, found in (("formats", readers), ("rules", checks)) if not found
    ]
    for fault in faults:
        complain(fault)
    return BAD_INPUT if faults else DONE
