"""The fixes of a recording in the order in which they would be done, each with what it promises."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache

import numpy as np

import resources
from parsers.model import Cancelled, Progress, derived
from parsers.model.late import dataclass
from rules.analysis.analysis import Analysis
from rules.analysis.recording.recording_costs import MAX_OF_GAP
from rules.analysis.steps.first_use import calls_of_first_pass
from rules.findings.base import MAX_SPEEDUP
from rules.fixes.base import Proposal, fixes
from rules.losses.asleep import mostly_asleep
from rules.replay.overlay import Overlay
from rules.replay.program import Run
from rules.replay.replay import Change, Replay, replay_of
from rules.terms import MAJORITY

FILE = "measured_bands.json"
NARROWEST = 1.15  # a band reaches at least this factor to either side: docs/predictions.md
UNCERTAIN = 1.33  # ... and this one as far as the gain is one: half of the time saved may or may not be


@dataclass(frozen=True, slots=True)
class Reach:
    """By how many margins of the gain a band goes down and up beyond what the replay says; less far where negative."""

    lower: float = 0.0
    upper: float = 0.0

    def applied(self, low: float, expected: float, high: float) -> tuple[float, float]:
        """The band of a gain, moved."""
        return low / margin(expected) ** self.lower, high * margin(expected) ** self.upper


def margin(gain: float) -> float:
    """By which factor a gain may be missed: small gains by little, large ones by ``UNCERTAIN``."""
    return max(NARROWEST, min(UNCERTAIN, 1.0 + 0.5 * (gain - 1.0)))


@cache
def measured_reaches() -> dict[str, Reach]:
    """By the id of the fix; only of fixes that were measured in enough programs."""
    told = json.loads(resources.path(FILE).read_text("utf-8"))
    return {fix: Reach(each["lower"], each["upper"]) for fix, each in told.items()}


def widest(reaches: Mapping[str, Reach], fixes: Iterable[str]) -> Reach:
    """What the band of these fixes together reaches: as far as that of the one that is known least."""
    known = [reaches.get(each, Reach()) for each in fixes]
    return Reach(
        max((each.lower for each in known), default=0.0), max((each.upper for each in known), default=0.0)
    )


# Where no steps were found: nearly all of it in so few places of each GPU, or in such a part of the program's calls.
# What a program does in each layer or round is spread over more of them: 6 % in a model of four layers.
FEW, FEW_OF_CALLS = 3, 0.02
NEARLY_ALL = 0.75  # of what is taken away
TOO_FEW_STEPS = 2  # to tell what each has from what one of them had


def comes_once(replay: Replay, change: Change) -> bool:
    """Whether a few places of the host or the GPU hold nearly all that a change takes away, and too few steps repeat.

    So does one that takes nearly all away at calls of a first pass: first launches of a kernel, and memory that a
    framework then keeps. Waiting that a change ends leaves no mark at a place: what only ends waits is never said to
    come once.
    """
    has_steps = any(span.numbers for span in replay.spans)
    if has_steps and replay.steps != TOO_FEW_STEPS:
        return False
    gpus = len(replay.analysis.active_devices)  # what happens once to a program happens to each of them
    few = gpus if has_steps else max(FEW * gpus, FEW_OF_CALLS * len(replay.host))
    before, after = replay.usual, replay.overlay([change])
    runs = np.where(before.present, before.duration, 0.0) - np.where(after.present, after.duration, 0.0)
    host = (before.gap + before.cost) - (after.gap + after.cost)
    saved = np.maximum(np.concatenate((host, before.tail - after.tail, runs)), 0.0)
    if replay.steps < TOO_FEW_STEPS:
        calls = np.flatnonzero(np.isin(replay.host.event, calls_of_first_pass(replay.analysis.trace)))
        few_first = len(calls) <= MAJORITY * len(replay.host)
        if few_first and saved.sum() > 0 and saved[calls].sum() >= NEARLY_ALL * saved.sum():
            return True
    places = np.cumsum(np.sort(saved)[::-1])
    return bool(places[-1] > 0 and 1 + np.searchsorted(places, NEARLY_ALL * places[-1]) <= few)


NOTHING = 1.03  # a smaller gain is not told
# factor by which the host may be slower or faster than the replay takes it: docs/predictions.md
HOST_UNSURE = 1.2
# of what can be the recorder's: it may have cost less, and a fix may give what it gives with it
AT_ITS_MOST = 0.95
# recorded step over the GPU's work: of a GPU that idles more, the CPU's time decides how long the step was
MOSTLY_BUSY = 1.5
IDLE_HOST = 0.05  # of a step: a CPU that has less to do by itself decides nothing
# the largest gain that was measured is 563 (docs/predictions.md): where less than a thousandth of a step would be
# left, or of a recording in which nothing repeats less than a hundredth, nobody knows how long that takes
MAX_GAIN, MAX_GAIN_ONCE = MAX_SPEEDUP, 100.0
MUCH, LITTLE = 1.5, 1.05  # a gain beside which a smaller one than this is not told
OF_BROAD = 0.8  # of what a fix gives at least counts in the order, where it changes much of the program
VAGUE = 1.8  # high over low: then what it depends on is said
MAX_FIXES = 12


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """What one fix would gain, as factors of the time of a step without a recorder."""

    id: str
    proposal: Proposal
    low: float
    expected: float
    high: float
    after_others: float

    @property
    def vague(self) -> bool:
        return self.high > VAGUE * self.low


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A step if some fixes were made together: ns without a recorder, before and after, and the band of the latter."""

    before_ns: float
    after_ns: float
    least_ns: float
    most_ns: float
    overlay: Overlay
    run: Run
    is_credible: bool = True  # else too little of a step is left to say how many times faster that is

    @property
    def gain(self) -> float:
        return self.before_ns / self.after_ns


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """All fixes of a recording; none, and a ``reason``, where it cannot be replayed.

    Of the ``withheld`` ones no gain is told: they would leave hardly anything of a step. What those in ``once`` take
    away came once, in a recording in which nothing repeats.
    """

    replay: Replay
    promises: tuple[Promise, ...] = ()
    crashed: tuple[str, ...] = field(default=())
    withheld: tuple[Proposal, ...] = ()
    once: tuple[Proposal, ...] = ()
    reaches: Mapping[str, Reach] = field(default_factory=measured_reaches)
    sleeps: str = ""  # why nothing is predicted although the recording can be replayed

    @property
    def reason(self) -> str:
        return self.replay.reason or self.sleeps

    def chosen(self, ids: Sequence[str]) -> list[Promise]:
        """The promises with these ids, in the plan's order. Raises KeyError with the first id that is unknown."""
        known = {each.id for each in self.promises}
        for each in ids:
            if each not in known:
                raise KeyError(each)
        return [each for each in self.promises if each.id in ids]

    def most(self, promise: Promise) -> float:
        """How many times faster a step can be at most with one fix made, however fast the CPU is."""
        return _limit(self.replay, [promise.proposal], promise.expected)

    def predict(self, ids: Sequence[str]) -> Outcome:
        """What these fixes do together; KeyError for an unknown id."""
        mine = [each.proposal for each in self.chosen(ids)]
        replay = self.replay
        overlay, run = replay.run([each.expected for each in mine])
        before, after = replay.usual_ns, replay.step_of(run, overlay)
        said = _band(replay, mine, before / after)
        low, high = _reaching(replay, mine, before / after, said, self.reaches)
        shortest = max(
            before / high, min(after, replay.gpu_work([each.high or each.expected for each in mine]))
        )
        credible = not mine or _is_credible(replay, mine, said[1])
        return Outcome(before, after, shortest, before / low, overlay, run, credible)


@derived
def plan_of(analysis: Analysis) -> Plan:
    """The plan of a recording; made once."""
    return make_plan(analysis)


def make_plan(
    analysis: Analysis, progress: Progress | None = None, reaches: Mapping[str, Reach] | None = None
) -> Plan:
    """Ask every fix of the catalogue where it applies, and replay each proposal.

    ``reaches``: how much further than the replay says the bands of each fix go; by default as measured.
    """
    progress = progress or Progress()
    reaches = measured_reaches() if reaches is None else reaches
    replay = replay_of(analysis)
    if replay.reason or (sleeps := mostly_asleep(analysis)):
        return Plan(replay, sleeps="" if replay.reason else sleeps)
    catalog = fixes()
    promises: list[Promise] = []
    quiet: list[Promise] = []
    crashed: list[str] = []
    once: list[Proposal] = []
    for number, each in enumerate(catalog):
        progress.step(0.5 * number / len(catalog), f"trying what {each.id} would give")
        try:
            proposals = sorted(each.proposals(analysis, replay), key=lambda one: one.key)
            proposals = [replace(one, fix=each.id) for one in proposals]
            made = [_alone(replay, f"{each.id}-{count}", one) for count, one in enumerate(proposals, 1)]
            single = [one for one in made if comes_once(replay, one.proposal.expected)]
            once += [one.proposal for one in single if not _is_quiet(one)]
            made = [one for one in made if one not in single]
            promises += [_banded(replay, one) for one in made if not _is_quiet(one)]
        except Cancelled:
            raise
        except Exception:
            import logging  # late: no fix should fail

            logging.getLogger(__name__).exception("fix %s failed", each.id)
            crashed.append(each.id)
            continue
        quiet += [one for one in made if _is_quiet(one)]
    withheld = [each for each in promises if not _is_credible(replay, [each.proposal], each.high)]
    promises = [one for one in promises if one.high >= NOTHING and one not in withheld]
    ordered = _worth_telling(_in_order(replay, promises, progress.part(0.5, 1.0)))
    told = (*ordered, *_hidden(replay, ordered, quiet))
    told = tuple(_as_elsewhere(replay, each, reaches) for each in told)
    return Plan(replay, told, tuple(crashed), tuple(each.proposal for each in withheld), tuple(once), reaches)


def _is_credible(replay: Replay, proposals: Sequence[Proposal], high: float) -> bool:
    """Whether the GPU keeps some work, and enough of the time is left to say how many times faster that is."""
    likely = replay.gpu_work([each.expected for each in proposals])
    return math.isfinite(high) and high <= _most_gain(replay) and likely > 0


def _most_gain(replay: Replay) -> float:
    return MAX_GAIN if any(span.numbers for span in replay.spans) else MAX_GAIN_ONCE


def _hidden(replay: Replay, done: list[Promise], quiet: list[Promise]) -> list[Promise]:
    """What gives nothing by itself but much once the others are made: the GPU was busy meanwhile until then."""
    changes = [each.proposal.expected for each in done if not each.proposal.redesign]
    found: list[Promise] = []
    before = replay.time(changes) if changes and quiet else replay.usual_ns
    if replay.usual_ns < MUCH * before:
        return found
    for one in sorted(quiet, key=lambda each: -each.expected):
        after = replay.time([*changes, one.proposal.expected])
        banded = _banded(replay, one)
        credible = _is_credible(replay, [one.proposal], max(banded.high, replay.usual_ns / after))
        if before >= NARROWEST * after and credible:
            found.append(replace(banded, after_others=before / after))
            changes.append(one.proposal.expected)
            before = after
    return found


def _worth_telling(promises: list[Promise]) -> list[Promise]:
    """Beside what gives much, what gives little by itself and after the others only hides what matters."""
    much = max((each.expected for each in promises), default=1.0) >= MUCH
    return [
        each
        for each in promises
        if not much or each.proposal.redesign or max(each.expected, each.after_others) >= LITTLE
    ]


def _alone(replay: Replay, name: str, proposal: Proposal) -> Promise:
    """What a proposal most likely gives by itself."""
    gain = replay.gain([proposal.expected])
    return Promise(name, proposal, gain, gain, gain, gain)


def _is_quiet(promise: Promise) -> bool:
    """Whether it gives too little by itself to be told."""
    return not promise.proposal.redesign and not promise.expected >= NOTHING


def _banded(replay: Replay, promise: Promise) -> Promise:
    proposal = promise.proposal
    if proposal.high is not None and replay.gpu_work([proposal.high]) <= 0:
        proposal = replace(proposal, high=None)  # nobody can say how much faster a GPU without work is
    low, high = _band(replay, [proposal], promise.expected)
    return replace(promise, proposal=proposal, low=low, high=high)


def _as_elsewhere(replay: Replay, promise: Promise, reaches: Mapping[str, Reach]) -> Promise:
    said = promise.low, promise.high
    low, high = _reaching(replay, [promise.proposal], promise.expected, said, reaches)
    return replace(promise, low=low, high=high)


def _reaching(
    replay: Replay,
    proposals: Sequence[Proposal],
    expected: float,
    said: tuple[float, float],
    reaches: Mapping[str, Reach],
) -> tuple[float, float]:
    """The band that the replay says of some proposals, as far as the same fixes reached in other programs."""
    low, high = widest(reaches, (each.fix for each in proposals)).applied(said[0], expected, said[1])
    if high > said[1]:
        high = min(high, max(said[1], min(_limit(replay, proposals, expected), _most_gain(replay))))
    return min(low, expected), max(expected, high)


def _band(replay: Replay, proposals: Sequence[Proposal], expected: float) -> tuple[float, float]:
    """The least and the most that some proposals give together, on a faster and on a slower host.

    A step stays at least as long as what they leave to do keeps the GPU busy. How long the step was is not known better
    than the CPU's time where that decides it, and how much is left to do is an estimate where they change it.
    """
    likely = [each.expected for each in proposals]
    least: list[Change] = [each.low or each.expected for each in proposals]
    most: list[Change] = [each.high or each.expected for each in proposals]
    low, high = expected / margin(expected), expected * margin(expected)
    slower = max(HOST_UNSURE, replay.host_with_half_the_frames)
    on_hosts = {host: replay.gain(likely, host=host) for host in (slower, 1.0 / HOST_UNSURE)}
    low, high = min(low, *on_hosts.values()), max(high, *on_hosts.values())
    if replay.recorder_share >= AT_ITS_MOST * MAX_OF_GAP:
        high = max(high, replay.gain_recorded(likely))
    if any(each.low for each in proposals):
        low = min(low, *(replay.gain(least, host=host) for host in on_hosts))
    if any(each.high for each in proposals):
        high = max(high, replay.gain(most))
    return low, max(expected, min(high, _limit(replay, proposals, expected)))


def _limit(replay: Replay, proposals: Sequence[Proposal], expected: float) -> float:
    """How many times faster a step is at most, by the work that some proposals leave the GPU, and what they take."""
    likely = [each.expected for each in proposals]
    most = [each.high or each.expected for each in proposals]
    ways = [likely] if most == likely else [likely, most]
    work = [replay.gpu_work(changes) for changes in ways]
    limit = max(replay.limit(each) for each in [each for each in work if each > 0] or work[:1])
    if not all(map(replay.leaves_gpu_work, ways)):
        kept = min(_limit_of_kept(replay, [each for way in ways for each in way]), HOST_UNSURE * limit)
        return kept if most != likely else min(kept, _limit_of_taken(replay, likely, expected))
    return limit if limit < MOSTLY_BUSY else HOST_UNSURE * limit


def _limit_of_kept(replay: Replay, changes: Sequence[Change]) -> float:
    """How many times faster a step is at most if all the work that some changes shorten took no time.

    A step was no longer than it was recorded, unless the CPU's time decides that and they shorten it. If they shorten
    nothing else, it keeps all its other time; where the GPU idles much of it, on a CPU that may be faster than the
    recorded one.
    """
    work, rest = replay.left_of(changes)
    if work <= 0:
        return math.inf
    limit = replay.limit(work)
    if limit >= MOSTLY_BUSY and not replay.leaves_host_time(changes):
        limit *= HOST_UNSURE
    if replay.leaves_host(changes):
        saved, before = replay.usual_ns - rest, replay.gpu_work()
        idles = replay.limit(before) >= MOSTLY_BUSY
        shortest = max(before, replay.usual_ns / HOST_UNSURE) if idles else replay.usual_ns
        limit = min(limit, shortest / max(shortest - saved, shortest / limit))
    return max(1.0, limit)


def _limit_of_taken(replay: Replay, changes: Sequence[Change], expected: float) -> float:
    """How many times faster a step is at most without the copies and calls that some changes end or shorten.

    Where the CPU has hardly any time of its own, nothing else becomes shorter, but that may run while the GPU works.
    Unlimited elsewhere, and where the replay says much more: work of the GPU then overlaps.
    """
    whole, of_host = replay.usual_ns, replay.host_work_ns
    left = whole - replay.taken(changes) - of_host
    if of_host > IDLE_HOST * whole or left <= 0 or expected > NARROWEST * whole / left:
        return math.inf
    return max(expected, whole / left)


def _rank(promise: Promise) -> float:
    """What a fix counts for in the order: less than expected where its least is uncertain, or much must be changed."""
    if promise.proposal.redesign:
        return promise.low
    if promise.proposal.broad:
        return 1.0 + OF_BROAD * (promise.low - 1.0)
    return (promise.low * promise.expected) ** 0.5 if promise.proposal.low else promise.expected


def _in_order(replay: Replay, promises: list[Promise], progress: Progress) -> list[Promise]:
    """Greedily by what each adds to those before it.

    What a fix adds hardly ever grows by others being made, so only those are replayed again whose last known gain could
    still be the largest (Minoux's lazy greedy selection).
    """
    left = sorted(promises, key=lambda each: -_rank(each))[:MAX_FIXES]
    adds = {each.id: _rank(each) for each in left}
    done: list[Promise] = []
    changes: list[Change] = []
    before = replay.usual_ns
    while left:
        progress.step(len(done) / (len(done) + len(left)), "ordering the fixes")
        known: dict[str, float] = {}
        while len(done) and len(known) < len(left):
            first = max(left, key=lambda each: adds[each.id])
            if first.id in known:
                break
            known[first.id] = before / replay.time([*changes, first.proposal.expected])
            adds[first.id] = known[first.id] * _rank(first) / max(first.expected, 1e-9)
        chosen = max(left, key=lambda each: adds[each.id])
        left.remove(chosen)
        gain = known.get(chosen.id, chosen.low if chosen.proposal.redesign else chosen.expected)
        gain = min(gain, max(1.0, _most_gain(replay) * before / replay.usual_ns))
        done.append(replace(chosen, after_others=gain))
        if not chosen.proposal.redesign:
            changes.append(chosen.proposal.expected)
            before /= max(gain, 1e-9)
        elif known:
            done[-1] = replace(chosen, after_others=min(gain, chosen.low))
    return done
