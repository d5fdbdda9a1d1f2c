"""Findings by lines of the user's own code, for editors and reviews: "file:line: message", and SARIF."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from rules import Diagnosis, Finding, Severity
from rules.findings.base import rules
from viewer.appearance.plain_text import one_line
from viewer.desktop.source_files import mapped

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.HIGH: "error", Severity.MEDIUM: "warning", Severity.LOW: "note", Severity.INFO: "note"}


def line_messages(diagnosis: Diagnosis, folders: Mapping[str, str]) -> list[str]:
    """A line for each finding that has one, as compilers write it: "train.py:12: warning: title [rule]"."""
    return [
        one_line(
            f"{mapped(finding.at.file, folders)}:{finding.at.line}: {_LEVELS[finding.severity]}: "
            f"{finding.title} [{finding.rule}]"
        )
        for finding in diagnosis.findings
        if finding.at is not None
    ]


def sarif(diagnosis: Diagnosis, folders: Mapping[str, str], version: str) -> bytes:
    """All findings as SARIF 2.1.0, by this version of the program; those without a line have no location."""
    known = {each.id: each for each in rules()}
    used = sorted({finding.rule for finding in diagnosis.findings})
    driver = {
        "name": "Stallscope",
        "version": version,
        "rules": [
            {"id": name, "shortDescription": {"text": _about(known[name].explanation)}} for name in used
        ],
    }
    results = [_result(finding, used, folders) for finding in diagnosis.findings]
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return (json.dumps(log, indent=1) + "\n").encode("ascii")


def _result(finding: Finding, used: Sequence[str], folders: Mapping[str, str]) -> dict[str, Any]:
    advice = "\n".join(f"* {each}" for each in finding.advice)
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": used.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.title}. {finding.explanation}\n{advice}".strip()},
        "properties": {"share": round(finding.share, 4), "ceiling_ns": int(finding.ceiling_ns)},
    }
    if finding.at is not None:
        place = {
            "artifactLocation": {"uri": _uri(mapped(finding.at.file, folders))},
            "region": {"startLine": max(finding.at.line, 1)},
        }
        result["locations"] = [{"physicalLocation": place}]
    return result


def _uri(file: str) -> str:
    """A path as a URI: relative ones as they are, for the root of the reviewed repository."""
    windows = PureWindowsPath(file)
    if windows.drive:
        return "file:///" + quote(windows.as_posix(), safe="/:")
    plain = file.replace("\\", "/") if "/" not in file else file
    return ("file://" if PurePosixPath(plain).is_absolute() else "") + quote(plain)


def _about(explanation: str) -> str:
    """The first sentence under the first heading of a rule's explanation."""
    lines = [line.strip() for line in explanation.strip().splitlines()]
    text = " ".join(lines[1 : lines.index("", 1)] if "" in lines[1:] else lines[1:])
    return text.partition(". ")[0].rstrip(".") + "."
