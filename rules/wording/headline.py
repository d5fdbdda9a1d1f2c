"""What a finding is called: who or what it speaks of, what happens, and how much of the time that takes."""

from __future__ import annotations

from dataclasses import replace

from parsers.model.late.dataclass import dataclass
from parsers.model.units import percent
from rules.wording.words import Reader, Words, said


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the analysed time; of ``steps`` steady steps, ``few`` hold it (0: many share it).

    ``with_delays`` is that part with what it delays, 0 where that is no more.
    """

    share: float
    steps: int
    few: int = 0
    with_delays: float = 0.0

    @property
    def is_of_a_step(self) -> bool:
        """Whether it is told as a part of each step."""
        return self.steps > 0 and not self.few

    def __str__(self) -> str:
        """ "57 % of every step", "57 % of the recorded time" without steps, or "30 % of the time, in 2 of 12 steps".

        "3.0 % of every step, 40 % with delays" where what it delays is part of it.
        """
        if self.few:
            return f"{percent(self.share)} of the time, in {self.few} of {self.steps} steps"
        if not self.steps:
            return f"{percent(self.share)} of the recorded time{self._delays}"
        return f"{percent(self.share)} of {'every' if self.steps > 1 else 'the'} step{self._delays}"

    @property
    def in_short(self) -> str:
        """ "57 %", or "3.0 %, 40 % with delays": of what is known already."""
        return f"{percent(self.share)}{self._delays}"

    @property
    def _delays(self) -> str:
        return f", {percent(self.with_delays)} with delays" if self.with_delays else ""


@dataclass(frozen=True, slots=True)
class Headline:
    """``subject`` is a name from the recording that stands in front; ``amount`` a part of the time, or other words."""

    what: Words
    amount: Part | str = ""
    subject: str = ""
    names_culprit: bool = False

    def said(self, reader: Reader) -> str:
        return self._put_together(said(self.what, reader), str(self.amount))

    def beside_its_cost(self, reader: Reader) -> str:
        """The title without a share of the step that stands beside it in a table."""
        of_a_step = isinstance(self.amount, Part) and self.amount.is_of_a_step
        return self._put_together(said(self.what, reader), "" if of_a_step else str(self.amount))

    def in_short(self, reader: Reader) -> str:
        """The title with its share of a step alone, "The GPU waits for Python: 57 %", where that is what it tells."""
        amount = self.amount
        share = amount.in_short if isinstance(amount, Part) and amount.is_of_a_step else str(amount)
        return self._put_together(said(self.what, reader), share)

    def matter(self, reader: Reader) -> str:
        """What happens, without how much of it, inside a sentence."""
        return replace(self, amount="").inside_a_sentence(reader)

    def inside_a_sentence(self, reader: Reader) -> str:
        """The title without its capital; names and abbreviations such as GPU keep theirs."""
        what = said(self.what, reader)
        if not self.subject and what[1:2].islower():
            what = what[:1].lower() + what[1:]
        return self._put_together(what, str(self.amount))

    def _put_together(self, what: str, amount: str) -> str:
        return ": ".join(each for each in (self.subject, what, amount) if each)
