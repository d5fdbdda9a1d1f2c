"""Which block comes next: A B B A then B A A B for each candidate, more where it is close, then the winners."""

from __future__ import annotations

from statistics import median
from typing import Callable, Dict, Generator, List, NamedTuple, Optional, Set, Tuple

Names = Tuple[str, ...]

CONTROL = "control"
TOGETHER = "together"
BLOCKS_A_ROUND = 4
MIN_ROUNDS = 2
"""Of four blocks: all of one kind before all of the other comes by chance once in 35 times."""
USUAL_ROUNDS = 3
MAX_CLOSE_ROUNDS = 3
"""Rounds more for what is close, where time is left."""
TOGETHER_SHARE = 0.2
"""Of the time, kept for the winners together."""
MIN_SHARE = 0.4
"""Of the time, for measuring, however long the launches take that compare losses afterwards."""
USUAL_WINNERS = 3
"""So many are reckoned with as long as nobody knows better."""
COMPILING = 3.0
"""Times as long as a usual candidate is what compiling is reckoned to take."""
MIN_LEAD = 0.9
"""Of all pairs of a block without and one with it, the second is the shorter (Mann and Whitney, 1947)."""


class Candidate(NamedTuple):
    """A change to try; ``weight`` is its part of the time, ``joins`` whether a winner is tried with others.

    ``group`` names what excludes each other, ``compiles`` what takes long to settle for the first time: about
    ``compiling`` seconds.
    """

    name: str
    weight: float = 1.0
    joins: bool = True
    group: str = ""
    compiles: bool = False
    compiling: float = 0.0

    @property
    def share(self) -> float:
        """Its part of the time with that of compiling."""
        return self.weight + COMPILING * self.compiles


class Block(NamedTuple):
    """Steps that are timed with these changes made: variant A without the candidate, B with it."""

    candidate: str
    variant: str
    changes: Names


class Timed(NamedTuple):
    """How long a step of a block took on the slowest rank (seconds), and elements of a batch in it, 0 if unknown."""

    step: float
    elements: float = 0.0


class Standing:
    """The blocks of one candidate so far."""

    def __init__(self) -> None:
        self.times: Dict[str, List[Timed]] = {"A": [], "B": []}
        self.rounds = 0
        self.refused = False

    @classmethod
    def of(cls, blocks: List[Tuple[str, Timed]]) -> "Standing":
        """A candidate whose blocks were timed before."""
        standing = cls()
        for variant, timed in blocks:
            standing.add(variant, timed)
        standing.rounds = len(blocks) // BLOCKS_A_ROUND
        return standing

    def add(self, variant: str, timed: Timed) -> None:
        self.times[variant].append(timed)

    @property
    def lead(self) -> float:
        """The share of pairs in which the block with the change is the shorter; 0.5 is none."""
        without, with_it = (self._comparable(self.times[variant]) for variant in "AB")
        pairs = [(a, b) for a in without for b in with_it]
        if not pairs:
            return 0.5
        return sum(1.0 if b < a else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)

    @property
    def is_clear(self) -> bool:
        """Whether every block of one kind is shorter than all of the other."""
        return self.rounds >= MIN_ROUNDS and self.lead in (0.0, 1.0)

    @property
    def seems_to_differ(self) -> bool:
        """Whether nearly all pairs say the same, which of a few blocks may be chance."""
        return not 1 - MIN_LEAD < self.lead < MIN_LEAD

    @property
    def gain(self) -> float:
        """Ratio of medians; above one is faster."""
        without, with_it = (sorted(self._comparable(self.times[variant])) for variant in "AB")
        if not without or not with_it or median(with_it) <= 0:
            return 1.0
        return median(without) / median(with_it)

    def _comparable(self, times: List[Timed]) -> List[float]:
        """Times of a step, or of an element of its batch, each relative to the level of its own round."""
        every = [timed for kind in self.times.values() for timed in kind]
        by_element = all(timed.elements > 0 for timed in every)
        steps = [timed.step / timed.elements if by_element else timed.step for timed in times]
        return [step / self._level(number // 2, by_element) for number, step in enumerate(steps)]

    def _level(self, round_number: int, by_element: bool) -> float:
        """The mean time of a step in one round, so that a machine that changes its speed does not blur the rest."""
        own = slice(2 * round_number, 2 * round_number + 2)
        blocks = self.times["A"][own] + self.times["B"][own]
        if len(blocks) < BLOCKS_A_ROUND:
            return 1.0
        times = [timed.step / timed.elements if by_element else timed.step for timed in blocks]
        return max(sum(times) / len(times), 1e-12)


class Schedule:
    """Gives block after block, and is given back how long each took; ``None`` for one that failed.

    ``elapsed`` says how many seconds of the limit are spent, the same on every rank, so all ranks decide alike.
    ``known`` holds the whole rounds of earlier launches of the program, which this one continues. ``launch`` is how
    long each later launch takes that compares the losses of a winner, 0 where none follows.
    """

    def __init__(
        self,
        candidates: List[Candidate],
        seconds: float,
        elapsed: Callable[[], float],
        rounds: int = USUAL_ROUNDS,
        known: "Optional[Dict[str, List[Tuple[str, Timed]]]]" = None,
        launch: float = 0.0,
    ) -> None:
        self._candidates = candidates
        self._launch = launch
        self._seconds = seconds
        self._elapsed = elapsed
        self._rounds = rounds
        self.standings: Dict[str, Standing] = {
            name: Standing.of(blocks) for name, blocks in (known or {}).items()
        }
        self.together: Names = ()
        self.out_of_time = False
        self._is_joining = False
        self._left_out: Set[str] = set()
        self._blocks = self._all()
        self._next: Optional[Block] = None

    def next(self, timed: Optional[Timed]) -> Optional[Block]:
        """The block after the one that took this long; ``None`` at the end. The first time nothing is known yet."""
        try:
            self._next = self._blocks.send(timed) if self._next is not None else next(self._blocks)
        except StopIteration:
            self._next = None
        return self._next

    def _all(self) -> "Generator[Block, Optional[Timed], None]":
        quick = [each for each in self._candidates if not each.compiles]
        slow = [each for each in self._candidates if each.compiles]
        until = self._until([], planned_limit(self._seconds, self._launch)) / (1 + len(self._candidates))
        yield from self._candidate(CONTROL, (), (), self._rounds, is_control=True, until=until)
        control = self.standings[CONTROL]
        while control.seems_to_differ and control.rounds < self._most_rounds and not self._is_over():
            yield from self._round(CONTROL, (), ())
        if quick:
            yield from self._part(quick, slow)
        left = [each for each in quick if each.name not in self.standings]
        yield from self._part([*left, *slow], [])
        self.out_of_time = any(each.name not in self.standings for each in self._candidates)

    def _part(
        self, candidates: List[Candidate], others: List[Candidate]
    ) -> "Generator[Block, Optional[Timed], None]":
        yield from self._in_turn(candidates, others)
        yield from self._close_ones(others)
        yield from self._winners_together()

    def _until(self, others: List[Candidate], limit: float) -> float:
        """When what comes now must end, so that the winners together and the ``others`` have their part.

        What compiles gets the seconds that it is known to take and those of its blocks, at most half of all.
        """
        mine = limit * (1 - TOGETHER_SHARE) if any(each.joins for each in self._candidates) else limit
        if not others:
            return mine
        every = sum(each.share for each in self._candidates)
        usual = mine * (1 - sum(each.share for each in others) / every)
        blocks = mine * sum(each.weight for each in others) / every
        compiling = sum(each.compiling for each in others)
        after_them = (mine if len(self._won()) > 1 else limit) - compiling - blocks
        return min(usual, max(after_them, mine / 2)) if compiling else usual

    def _in_turn(
        self, waiting: List[Candidate], others: List[Candidate]
    ) -> "Generator[Block, Optional[Timed], None]":
        """Every candidate once, each with its part of the time that is left.

        Where something won, compiling of which nothing is promised doesn't begin if it would take the time for that.
        """
        waiting = list(waiting)
        while waiting:
            mine, now = self._until(others, self._limit), self._elapsed()
            candidate = waiting.pop(0)
            takes_too_long = candidate.weight <= 1.0 and now + candidate.compiling >= self._limit
            won = len(self._won())
            if self._is_over() or (now >= mine and won > 1) or (takes_too_long and won):
                return
            shares = candidate.share + sum(each.share for each in waiting)
            until = now + max(mine - now, 0.0) * candidate.share / shares
            yield from self._candidate(candidate.name, (), (candidate.name,), self._rounds, until=until)

    def _close_ones(self, others: List[Candidate]) -> "Generator[Block, Optional[Timed], None]":
        """More rounds for what might still be a gain, the likeliest first."""
        while True:
            standings = [
                (self.standings[each.name], each) for each in self._candidates if each.name in self.standings
            ]
            close = [
                (standing, each)
                for standing, each in standings
                if not standing.refused and not standing.is_clear and standing.rounds < self._most_rounds
            ]
            if not close:
                return
            close.sort(key=lambda pair: -pair[0].lead)
            for _, each in close:
                if self._elapsed() >= self._until(others, self._limit):
                    return
                yield from self._round(each.name, (), (each.name,))

    def _winners_together(self) -> "Generator[Block, Optional[Timed], None]":
        """The best first, then what adds to it by more than chance; at last all of them against nothing.

        What won since the last time is joined to those that were chosen then.
        """
        won = self._won()
        if not won:
            return
        self._is_joining = True
        before = self.together
        chosen = [each for each in won if each.name in before] or [won[0]]
        for each in won:
            names = tuple(other.name for other in chosen)
            is_rival = each.group and any(each.group == other.group for other in chosen)
            if each in chosen or is_rival or each.name in self._left_out:
                continue
            if self._is_over():
                break
            name = "{} after {}".format(each.name, " and ".join(names))
            yield from self._candidate(name, names, (*names, each.name), MIN_ROUNDS)
            if self.standings[name].refused or self.standings[name].lead < MIN_LEAD:
                self._left_out.update(other.name for other in won if other not in chosen)
                break
            chosen.append(each)
        self.together = tuple(each.name for each in chosen)
        if len(chosen) > 1 and self.together != before:
            if len(before) > 1:
                self.standings.pop(TOGETHER)
            yield from self._candidate(TOGETHER, (), self.together, self._rounds)
            if len(before) > 1 and not self.standings[TOGETHER].rounds:
                self.together = before
        self._is_joining = False

    def _won(self) -> List[Candidate]:
        """What can be kept and is faster in nearly all pairs, the best first."""
        won = []
        for each in self._candidates:
            standing = self.standings.get(each.name)
            enough = standing is not None and not standing.refused and standing.rounds >= MIN_ROUNDS
            if each.joins and enough and self.standings[each.name].lead >= MIN_LEAD:
                won.append(each)
        return sorted(won, key=lambda each: -self.standings[each.name].gain)

    def _kept(self) -> List[Candidate]:
        """Of the winners those that nothing better excludes: the losses of others are compared if time is left."""
        won = self._won()
        groups = [each.group for each in won]
        return [each for at, each in enumerate(won) if not each.group or each.group not in groups[:at]]

    def _candidate(
        self,
        name: str,
        base: Names,
        changes: Names,
        rounds: int,
        is_control: bool = False,
        until: float = float("inf"),
    ) -> "Generator[Block, Optional[Timed], None]":
        standing = self.standings.setdefault(name, Standing())
        for number in range(standing.rounds, rounds):
            is_clear = standing.is_clear and not is_control
            enough = number >= min(MIN_ROUNDS, rounds) and (is_clear or self._elapsed() >= until)
            if standing.refused or self._is_over() or enough:
                return
            yield from self._round(name, base, changes)

    def _round(self, name: str, base: Names, changes: Names) -> "Generator[Block, Optional[Timed], None]":
        standing = self.standings[name]
        for variant in "ABBA" if standing.rounds % 2 == 0 else "BAAB":
            timed = yield Block(name, variant, changes if variant == "B" else base)
            if timed is None:
                standing.refused = True
                return
            standing.add(variant, timed)
        standing.rounds += 1

    @property
    def _most_rounds(self) -> int:
        return self._rounds + MAX_CLOSE_ROUNDS

    @property
    def _limit(self) -> float:
        """Seconds of measuring that leave time to compare the losses of the winners, or of all of them together."""
        won = len(self._kept())
        comparisons = 1 if self._is_joining else won + (won > 1)
        return limit_before(self._seconds, self._launch, comparisons) if won else self._seconds

    def _is_over(self) -> bool:
        return self._elapsed() >= self._limit


def limit_before(seconds: float, launch: float, comparisons: int) -> float:
    """Of so many seconds those for measuring, where as many launches follow and one of the unchanged program."""
    return max(MIN_SHARE * seconds, seconds - launch * (1 + comparisons))


def planned_limit(seconds: float, launch: float) -> float:
    """The same before anything is known: for the usual number of winners, and all of them together."""
    return limit_before(seconds, launch, USUAL_WINNERS + 1)
