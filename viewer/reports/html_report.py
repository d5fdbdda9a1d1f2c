"""The diagnosis as one self-contained HTML page; every text from a recording is escaped."""

from __future__ import annotations

from html import escape

from parsers.model import Trace
from parsers.model.units import duration
from rules import Diagnosis, Finding
from rules.analysis.analysis import Analysis
from viewer.reports.plain_text import safe
from viewer.reports.wording import budget_parts, ceiling, place_name, share_of, verdict

_COLOURS = {
    "compute": "#4c8dff",
    "communication": "#c86fc9",
    "copy": "#3aa99f",
    "other": "#8b94a7",
    "launch-bound": "#e9b44c",
    "input-bound": "#f08a24",
    "host-bound": "#e4572e",
    "synchronization": "#d64550",
    "allocator": "#b0713a",
    "dependency": "#7c8396",
    "unknown": "#b9bfca",
    "residual": "#555b68",
}
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.05rem; margin: 0; }
.quiet { color: #767d8c; }
.bar { display: flex; height: 1.6rem; border-radius: 4px; overflow: hidden; margin: .4rem 0; }
.bar span { overflow: hidden; white-space: nowrap; padding: 0 .5rem;
  font-size: .8rem; line-height: 1.6rem; color: #10131a; }
article { border-left: 4px solid #8b94a7; padding: .2rem 0 .2rem 1rem; margin: 1.4rem 0; }
article.high { border-color: #d64550; } article.medium { border-color: #e9b44c; }
pre { background: #8b94a722; padding: .7rem; border-radius: 4px; overflow-x: auto; }
.gain { float: right; color: #767d8c; } li { margin: .2rem 0; }
"""


def as_html(trace: Trace, diagnosis: Diagnosis, analysis: Analysis) -> str:
    """A page that needs no network and runs no script."""
    title = escape(verdict(analysis, diagnosis))
    files = escape(", ".join(f"{each.path} ({each.producer})" for each in trace.inputs))
    budgets = "".join(_budget(trace, analysis, index) for index in range(len(trace.devices)))
    cards = "".join(_card(trace, finding) for finding in diagnosis.findings)
    skipped = "".join(
        f"<li>{escape(rule)}: {escape(reason)}</li>" for rule, reason in sorted(diagnosis.skipped.items())
    )
    return safe(
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{title}</title><style>{_STYLE}</style></head><body>"
        f'<h1>{title}</h1><p class="quiet">{files}</p>{budgets}{cards}'
        f'<h2>Not checked</h2><ul class="quiet">{skipped}</ul>{_changed_thresholds(diagnosis)}</body></html>\n'
    )


def _changed_thresholds(diagnosis: Diagnosis) -> str:
    changed = "".join(f"<li>{escape(phrase)}</li>" for phrase in diagnosis.thresholds.changed())
    return f'<h2>Thresholds that were changed</h2><ul class="quiet">{changed}</ul>' if changed else ""


def _budget(trace: Trace, analysis: Analysis, index: int) -> str:
    budget = analysis.budget(index, *analysis.window)
    if not budget.window_ns:
        return ""
    device = trace.devices[index]
    name = escape(
        (f"rank {device.rank}, " if device.rank is not None else "") + f"GPU {device.id} {device.name}"
    )
    spans = "".join(
        f'<span style="width:{100 * ns / budget.window_ns:.3f}%;background:{_COLOURS[key]}" '
        f'title="{escape(label)}: {duration(ns)}">{escape(label)} {share_of(ns, budget.window_ns)}</span>'
        for key, label, ns in budget_parts(budget, analysis.idle)
    )
    return f'<div class="quiet">{name}, {duration(budget.window_ns)}</div><div class="bar">{spans}</div>'


def _card(trace: Trace, finding: Finding) -> str:
    advice = "".join(f"<li>{escape(each)}</li>" for each in finding.advice)
    code = f"<pre>{escape(finding.code)}</pre>" if finding.code else ""
    places = "".join(
        f"<li>{escape(place_name(each))} at {duration(each.start)}, {duration(each.end - each.start)}</li>"
        for each in finding.evidence[:5]
    )
    limits = f"<p><em>Cannot tell: {escape(finding.cannot_tell)}</em></p>" if finding.cannot_tell else ""
    return (
        f'<article class="{finding.severity.value}"><span class="gain">{escape(ceiling(finding))}</span>'
        f"<h2>{escape(finding.title)}</h2><p>{escape(finding.explanation)}</p><ul>{advice}</ul>{code}{limits}"
        f'<ul class="quiet">{places}</ul></article>'
    )
