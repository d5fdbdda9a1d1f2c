"""Which block comes next: A B B A then B A A B for each candidate, more where it is close, then the winners."""

from __future__ import annotations

from statistics import median
from typing import Callable, Dict, Generator, List, NamedTuple, Optional, Tuple

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
COMPILING = 3.0
"""Times as long as a usual candidate is what compiling is reckoned to take."""
MIN_LEAD = 0.9
"""Of all pairs of a block without and one with it, the second is the shorter (Mann and Whitney, 1947)."""


class Candidate(NamedTuple):
    """A change to try; ``weight`` is its part of the time, ``joins`` whether a winner is tried with others.

    ``group`` names what excludes each other, ``compiles`` what takes long to settle for the first time.
    """

    name: str
    weight: float = 1.0
    joins: bool = True
    group: str = ""
    compiles: bool = False

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
    ``spare`` are seconds more for as long as nothing has won, which are kept for comparing the losses of winners.
    ``known`` holds the whole rounds of earlier launches of the program, which this one continues.
    """

    def __init__(
        self,
        candidates: List[Candidate],
        seconds: float,
        elapsed: Callable[[], float],
        rounds: int = USUAL_ROUNDS,
        known: "Optional[Dict[str, List[Tuple[str, Timed]]]]" = None,
        spare: float = 0.0,
    ) -> None:
        self._candidates = candidates
        self._spare = spare
        self._seconds = seconds
        self._elapsed = elapsed
        self._rounds = rounds
        self.standings: Dict[str, Standing] = {
            name: Standing.of(blocks) for name, blocks in (known or {}).items()
        }
        self.together: Names = ()
        self.out_of_time = False
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
        joining = any(candidate.joins for candidate in self._candidates)
        mine = self._seconds * (1 - TOGETHER_SHARE) if joining else self._seconds
        share = mine / (1 + len(self._candidates))
        yield from self._candidate(CONTROL, (), (), self._rounds, is_control=True, until=share)
        control = self.standings[CONTROL]
        while control.seems_to_differ and control.rounds < self._most_rounds and not self._is_over():
            yield from self._round(CONTROL, (), ())
        waiting = list(self._candidates)
        while waiting:
            if self._elapsed() >= mine and len(self._won()) > 1:
                self.out_of_time = True
                break
            candidate = waiting.pop(0)
            shares = candidate.share + sum(each.share for each in waiting)
            until = self._elapsed() + max(mine - self._elapsed(), 0.0) * candidate.share / shares
            yield from self._candidate(candidate.name, (), (candidate.name,), self._rounds, until=until)
            if self._is_over():
                self.out_of_time = bool(waiting)
                return
        yield from self._close_ones(mine)
        yield from self._winners_together()

    def _close_ones(self, until: float) -> "Generator[Block, Optional[Timed], None]":
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
                if self._elapsed() >= until:
                    return
                yield from self._round(each.name, (), (each.name,))

    def _winners_together(self) -> "Generator[Block, Optional[Timed], None]":
        """The best first, then what adds to it by more than chance; at last all of them against nothing."""
        won = self._won()
        if not won:
            return
        chosen = [won[0]]
        for each in won[1:]:
            if each.group and any(each.group == other.group for other in chosen):
                continue
            if self._is_over():
                break
            names = tuple(other.name for other in chosen)
            name = "{} after {}".format(each.name, " and ".join(names))
            yield from self._candidate(name, names, (*names, each.name), MIN_ROUNDS)
            if self.standings[name].refused or self.standings[name].lead < MIN_LEAD:
                break
            chosen.append(each)
        self.together = tuple(each.name for each in chosen)
        if len(chosen) > 1:
            yield from self._candidate(TOGETHER, (), self.together, self._rounds)

    def _won(self) -> List[Candidate]:
        """What can be kept and is faster in nearly all pairs, the best first."""
        won = []
        for each in self._candidates:
            standing = self.standings.get(each.name)
            if each.joins and standing is not None and not standing.refused and standing.lead >= MIN_LEAD:
                won.append(each)
        return sorted(won, key=lambda each: -self.standings[each.name].gain)

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

    def _is_over(self) -> bool:
        elapsed = self._elapsed()
        if elapsed < self._seconds:
            return False
        return elapsed >= self._seconds + self._spare or bool(self._won())
