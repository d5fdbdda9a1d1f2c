"""What is no problem in a recording: parts of the time that no finding or fix is about, with how little they are."""

from __future__ import annotations

from parsers.model.late import dataclass
from parsers.model.units import percent
from rules.analysis.analysis import Analysis
from rules.analysis.idle.causes import OF_HOST
from rules.causes import PARTS_OF_FAMILIES
from rules.diagnosis import Diagnosis
from rules.fixes.plan import plan_of
from rules.verdict.promises import MIN_SPEEDUP
from rules.verdict.verdict import BUDGET_LABELS, shows_no_run, time_parts
from rules.wording.words import listed

MAX_SHARE = 0.05  # of a step: what takes more is no problem only by chance
MIN_SHARE = 0.001  # of a step: less is told as that


@dataclass(frozen=True, slots=True)
class Absent:
    """A part of the time without a finding or a fix; ``share`` is the largest of any GPU's step, between 0 and 1."""

    key: str
    label: str
    share: float


def absent(analysis: Analysis, diagnosis: Diagnosis) -> tuple[Absent, ...]:
    """The parts that could have been a problem and are none, the largest first; none where the CPU was not recorded."""
    capture = analysis.trace.capture
    if shows_no_run(analysis, diagnosis) or not analysis.active_devices or not capture.has_api_calls:
        return ()
    about = {each.category.about for each in diagnosis.findings} | _mended(analysis)
    labels = {cause.key: analysis.idle.label(cause) for cause in OF_HOST if cause not in about}
    labels |= {key: BUDGET_LABELS[key] for family, key in PARTS_OF_FAMILIES.items() if family not in about}
    shares = dict.fromkeys(labels, 0.0)
    for device in analysis.active_devices:
        time = time_parts(analysis, diagnosis, device)
        for key, _, ns in time.parts:
            if key in shares and time.whole_ns:
                shares[key] = max(shares[key], ns / time.whole_ns)
    if len(analysis.trace.ranks) < 2 and not shares.get("communication"):
        shares.pop("communication", None)
    found = [Absent(key, labels[key], share) for key, share in shares.items() if share < MAX_SHARE]
    return tuple(sorted(found, key=lambda each: -each.share))


def _mended(analysis: Analysis) -> set[object]:
    """What fixes with a gain are for: whatever little time it takes, it holds something up."""
    plan = plan_of.kept(analysis)
    promises = [each for each in plan.promises if each.vague or each.expected >= MIN_SPEEDUP] if plan else []
    return {category.about for each in promises for category in each.proposal.categories}


def absent_in_a_line(analysis: Analysis, diagnosis: Diagnosis) -> str:
    """ "No problem here: exposed copies 1.0 % of a step; waiting for data below 0.1 %."; empty without any."""
    found = absent(analysis, diagnosis)
    told = ", ".join(f"{each.label} {percent(each.share)}" for each in found if each.share >= MIN_SHARE)
    rest = listed([each.label for each in found if each.share < MIN_SHARE])
    whole = "a step" if analysis.steps_in_window else "the time"
    parts = [f"{told} of {whole}"] if told else []
    parts += [f"{rest} below {percent(MIN_SHARE)}{'' if told else f' of {whole}'}"] if rest else []
    return f"No problem here: {'; '.join(parts)}." if parts else ""
