"""A finding as a ticket in Markdown: what is wrong, what to do, where to see it, and what was noted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent

from parsers.model import Trace
from rules import Finding
from rules.fixes.plan import Plan
from rules.verdict.promises import gain, promise_for, worded
from viewer.appearance.plain_text import one_line
from viewer.reports.diagnosis_report import card
from viewer.reports.rendering.blocks import Points, Report, Text
from viewer.reports.rendering.markdown_report import as_markdown

_BESIDE = "    "  # such lines are shown as they are


def command_at(paths: Sequence[Path], when_ns: float) -> str:
    """The command that opens these files at a moment (ns from the trace start)."""
    names = " ".join(shlex.quote(str(path)) for path in paths)
    return f"stallscope {names} --at {when_ns / 1e6:.3f}ms"


def finding_ticket(
    trace: Trace,
    finding: Finding,
    plan: Plan | None,
    *,
    picture: str,
    command: str,
    notes: Sequence[str] = (),
) -> str:
    """The ticket; ``picture`` is the name of the file with the picture beside it, ``command`` opens the moment."""
    promise = promise_for(finding, plan)
    gives = worded(promise) if promise is not None else gain(finding, plan)
    fixing = "Fixing it"
    if promise is not None and not finding.leads:
        fixing = f"Fixed by “{promise.proposal.title}”"
    told = card(finding, gives, gives, {})
    devices = ", ".join(dict.fromkeys(device.name for device in trace.devices if device.name))
    files = ", ".join(f"{Path(each.path).name} ({each.producer})" for each in trace.inputs)
    report = Report(
        finding.title,
        (
            Text((f"{fixing}: {gives}",) if gives else ()),
            Text((finding.explanation,)),
            Points("What to do", tuple(finding.advice)),
            Points("Where", (*([told.line] if told.line else []), *(spot.text for spot in told.places))),
            Points("Notes", tuple(notes)),
            Text((one_line(f"{files}, {devices}" if devices else files),)),
        ),
    )
    heading, _, rest = as_markdown(report).partition("\n")
    parts = [heading, "", f"![The timeline](<{picture}>)", rest.rstrip(), "", "To see it:", ""]
    parts.append(indent(one_line(command), _BESIDE))
    if finding.code:
        parts += ["", "For example:", "", indent(finding.code.rstrip(), _BESIDE)]
    return "\n".join(parts) + "\n"
