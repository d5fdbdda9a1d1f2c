"""What a trial gave, as lines, as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rules.trials.trial import Kind, Trial, Trials, Verdict
from rules.verdict import trials as wording
from viewer.appearance.plain_text import joined, one_line
from viewer.reports.rendering.blocks import Block, Points, Report, Table, Text

_COLUMNS = ("change", "tried", "promised", "result", "program")


def trial_line(trial: Trial) -> str:
    """One trial, in one line."""
    return one_line(wording.line(trial))


def trial_text(trials: Trials) -> str:
    """What is to be known after the lines of the single trials: those not measured, the whole, cautions."""
    lines: list[str] = []
    if not trials.restless:
        unreached = [each for each in trials.trials if each.verdict is Verdict.NOT_REACHED]
        compared = [
            f"{each.candidate.title}: {wording.likeness(each.loss)}"
            for each in trials.trials
            if each.loss is not None and each.candidate.kind is not Kind.START  # told with its launches
        ]
        lines += [f"  {trial_line(each)}" for each in unreached]
        lines += [f"  {one_line(each)}" for each in compared]
        lines += map(one_line, wording.left_out(trials))
    return joined([*lines, wording.summary(trials), *map(one_line, wording.caution(trials))])


def trials_json(trials: Trials, program: Mapping[str, Any]) -> dict[str, Any]:
    """The object that ``stallscope try --json`` prints; times in ns, gains as factors."""
    listed = [*([trials.control] if trials.control is not None else []), *trials.trials]
    return {
        "summary": wording.summary(trials),
        "restless": trials.restless,
        "ended": trials.ended,
        "problem": trials.problem or None,
        "program": dict(program),
        "trials": [_trial(each) for each in listed],
        "losses": [list(curve) for curve in trials.losses],
    }


def _trial(trial: Trial) -> dict[str, Any]:
    candidate, gain, loss = trial.candidate, trial.gain, trial.loss
    promised = candidate.promised
    return {
        "fix": candidate.fix or None,
        "switch": candidate.switch,
        "title": candidate.title,
        "kind": candidate.kind.value,
        "gain": round(gain.value, 4) if gain is not None else None,
        "low": round(gain.low, 4) if gain is not None else None,
        "high": round(gain.high, 4) if gain is not None else None,
        "verdict": trial.verdict.value,
        "baseline_ns": round(trial.baseline_ns) or None,
        "blocks": trial.blocks,
        "promised": {
            "low": round(promised.low, 3),
            "expected": round(promised.expected, 3),
            "high": round(promised.high, 3),
        }
        if promised is not None
        else None,
        "loss": loss.likeness.value if loss is not None else None,
        "loss_difference": loss.difference if loss is not None else None,
        "loss_baseline": loss.baseline if loss is not None else None,
        "peak_bytes": list(trial.peak_bytes) if trial.peak_bytes is not None else None,
        "settling_ns": round(trial.settling_ns) or None,
        "members": list(trial.members),
        "refused": trial.refused or candidate.against or None,
    }


def trials_report(trials: Trials, title: str) -> Report:
    """A table of the trials, as for a pull request."""
    blocks: list[Block] = [Points("", tuple(wording.caution(trials)))]
    if not trials.restless:
        rows = [
            (
                each.candidate.title,
                wording.KINDS[each.candidate.kind],
                wording.promise(each.candidate.promised) if each.candidate.promised is not None else "",
                wording.result(each),
                "; ".join(wording.about(each)),
            )
            for each in [*trials.trials, *([trials.control] if trials.control is not None else [])]
            if not each.candidate.against
        ]
        blocks += [Table("", _COLUMNS, rows), Points("", tuple(wording.left_out(trials)))]
    if any(each.candidate.kind is Kind.CEILING and each.gain for each in trials.trials):
        blocks.append(
            Text(("A ceiling is not a change to keep: something was removed to see what it costs.",))
        )
    return Report(f"{title}: {wording.summary(trials)}", tuple(blocks))
