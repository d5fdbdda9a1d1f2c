"""Many patterns searched in many names that share most of their words: word by word, each word once.

Words that differ in numbers which no pattern speaks of are one word. For this a number in a pattern must follow a
letter or "_", so that it begins where a number in a word begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from parsers.model.late import dataclass, regex

_WORD = regex(r"\w+", re.ASCII)
# What a match of such an alternative consists of, and what it looks ahead for, lies inside one word.
_INSIDE_A_WORD = regex(r"(\(\?[:!]|\\[wd]|\[[A-Za-z0-9-]+\]|[A-Za-z0-9_()|?*+{},])+")
_INNERMOST_GROUP = regex(r"(?<!\\)\([^()]*\)[?*+]?")
_OPTIONAL = regex(r"\\[a-zA-Z]|(?<!\\)\[[^]]*\]|.(?:[?*+]|\{[^}]*\})|[.^$|]")
_LITERAL = regex(r"[\w :<]+")
_NUMBER = regex(r"\d+")
_NO_NUMBER = regex(r"\\d|\{[^}]*\}")
_WORDS_AT_ONCE = 200_000  # known words that are kept


class NamePatterns:
    """Patterns with their flags, known by their numbers."""

    def __init__(self, patterns: Sequence[tuple[str, int]]) -> None:
        self._complete = patterns
        self._in_word: list[tuple[int, re.Pattern[str]]] = []
        self._across: list[tuple[int, str, str, int]] = []
        for number, (pattern, flags) in enumerate(patterns):
            parts = alternatives(pattern)
            inside = [part for part in parts if _INSIDE_A_WORD.fullmatch(part)]
            if inside:
                self._in_word.append((1 << number, re.compile("|".join(inside), flags)))
            across = [part for part in parts if part not in inside]
            self._across += [(number, needed_text(part), part, flags) for part in across]
        self._any_needed = re.compile("|".join(re.escape(needed) for _, needed, _, _ in self._across))
        self._words: dict[str, int] = {}
        spoken_of = {each for pattern, _ in patterns for each in _NUMBER.findall(_NO_NUMBER.sub("", pattern))}
        self._numbers = {each[:length] for each in spoken_of for length in range(len(each) + 1)}

    def read(self, name: str) -> Found:
        if not name.isascii():  # there a letter may be more than two that differ by their case
            found = (bool(_compiled(*each).search(name)) << n for n, each in enumerate(self._complete))
            return Found(name, sum(found), [])
        bits = 0
        for word in _WORD.findall(name):
            known = self._words.get(word)
            bits |= self._learn(word) if known is None else known
        lower = name.lower()
        if not self._any_needed.search(lower):
            return Found(name, bits, [])
        across = [(number, _compiled(*part)) for number, needed, *part in self._across if needed in lower]
        return Found(name, bits, across)

    def alike(self, name: str) -> str:
        """One spelling of all names that differ in nothing but numbers which no pattern speaks of."""
        return _NUMBER.sub(self._alike, name)

    def _learn(self, word: str) -> int:
        if len(self._words) >= _WORDS_AT_ONCE:
            self._words.clear()
        alike = self.alike(word)
        told = self._words.get(alike)
        if told is None:
            told = sum(bit for bit, pattern in self._in_word if pattern.search(alike))
        self._words[word] = self._words[alike] = told
        return told

    def _alike(self, match: re.Match[str]) -> str:
        """A number as far as patterns speak of it, and one more digit where it goes on."""
        number = match[0]
        same = next((n for n in range(len(number)) if number[: n + 1] not in self._numbers), len(number))
        if same == len(number):
            return number
        other = (number[:same] + digit for digit in "0123456789")
        return next((each for each in other if each not in self._numbers), number)


@cache
def _compiled(pattern: str, flags: int) -> re.Pattern[str]:
    """Most names never need most of the patterns, and compiling them all takes longer than a small recording."""
    return re.compile(pattern, flags)


@dataclass(frozen=True, slots=True)
class Found:
    """Which of the patterns are found in one name."""

    name: str
    in_words: int  # a bit for each pattern that is found inside a word
    across: list[
        tuple[int, re.Pattern[str]]
    ]  # what may be found beyond, with the pattern's number, ascending

    def __contains__(self, number: int) -> bool:
        return self.first(range(number, number + 1)) == number

    def first(self, numbers: range) -> int:
        """The first of some patterns that is found; -1 where none is."""
        bits = self.in_words >> numbers.start & (1 << len(numbers)) - 1
        first = numbers.start + (bits & -bits).bit_length() - 1 if bits else numbers.stop
        for number, pattern in self.across:
            if number in numbers and number < first and pattern.search(self.name):
                return number
        return first if bits else -1


def alternatives(pattern: str) -> list[str]:
    """The alternatives of a pattern that are not inside of parentheses or brackets."""
    parts = [""]
    depth = 0
    for letter in re.findall(r"\\.|\[[^]]{0,200}\]|.", pattern):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def needed_text(alternative: str) -> str:
    """The longest lower-case text without which a pattern that is no alternation cannot be found."""
    while (shorter := _INNERMOST_GROUP.sub("|", alternative)) != alternative:
        alternative = shorter
    plain = re.sub(r"\\(?=[^\w])", "", _OPTIONAL.sub("|", alternative))
    return max(_LITERAL.findall(plain), key=len, default="").lower()
