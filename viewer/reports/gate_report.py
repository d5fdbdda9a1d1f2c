"""What a gate answered: as lines, as JSON, and as JUnit XML, which build servers show as tests."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from parsers.model.late import regex
from rules.comparison.gate import Decision
from rules.diagnosis import Diagnosis
from rules.findings.base import Severity
from rules.gates.judging import Answer, overall
from viewer.appearance.plain_text import safe

_NO_XML = regex("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def comparison_junit(verdict: str, answers: Sequence[Answer]) -> str:
    """One test a limit; the verdict is the suite's output."""
    suite = _suite("stallscope compare", len(answers))
    for answer in answers:
        case = _case(suite, "stallscope.compare", f"{answer.limit.written} {answer.limit.percent:g} %")
        if answer.decision is Decision.FAILED:
            _add(case, "failure", answer.why)
        elif answer.decision is Decision.INCONCLUSIVE:
            _add(case, "error", answer.why)
    return _written(suite, verdict)


def diagnosis_junit(verdict: str, diagnosis: Diagnosis, level: Severity, undecided: str = "") -> str:
    """One test a rule: failed by a finding of ``level`` or above; ``undecided`` says why nothing can be judged."""
    levels = list(Severity)
    loud = levels[: levels.index(level) + 1]
    found = {finding.rule for finding in diagnosis.findings}
    names = sorted({*found, *diagnosis.quiet, *diagnosis.skipped, *diagnosis.crashed})
    suite = _suite("stallscope diagnose", len(names) + bool(undecided))
    if undecided:
        _add(_case(suite, "stallscope.diagnose", "what was recorded"), "error", undecided)
    for name in names:
        case = _case(suite, "stallscope.diagnose", name)
        accused = [each for each in diagnosis.findings if each.rule == name and each.severity in loud]
        for finding in accused:
            _add(case, "failure", finding.title, finding.explanation)
        if name in diagnosis.crashed:
            _add(case, "error", "this check failed")
        elif name in diagnosis.skipped and not accused:
            _add(case, "skipped", diagnosis.skipped[name])
    return _written(suite, verdict)


def _suite(name: str, count: int) -> ET.Element:
    return ET.Element("testsuite", name=name, tests=str(count))


def _case(suite: ET.Element, group: str, name: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=group, name=_legal(name))


def _add(case: ET.Element, kind: str, message: str, text: str = "") -> None:
    ET.SubElement(case, kind, message=_legal(message)).text = _legal(text or message)


def _written(suite: ET.Element, verdict: str) -> str:
    for kind, attribute in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(kind) is not None for case in suite)))
    ET.SubElement(suite, "system-out").text = _legal(verdict)
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _legal(text: str) -> str:
    """Without what XML cannot hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", safe(text))


def gate_json(answers: Sequence[Answer]) -> dict[str, Any]:
    """The keys ``gate`` and ``limits``; the bounds are those of after over before."""
    if not answers:
        return {}
    return {
        "gate": overall(answers).value,
        "limits": [
            {
                "on": answer.limit.written,
                "percent": answer.limit.percent,
                "decision": answer.decision.value,
                "why": answer.why,
                "before": answer.before or None,
                "after": answer.after or None,
                "low": answer.low,
                "high": answer.high,
            }
            for answer in answers
        ],
    }
