"""What a remedy is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from parsers.model.late import dataclass
from rules.wording.words import Reader, Words, for_pytorch, said, told, with_native


@dataclass(frozen=True, slots=True)
class Remedy:
    """Advice for all sorts of readers, the most useful first, and code that shows the change."""

    advice: tuple[Words, ...] = ()
    code: Words = ""

    def after(self, *first: Words) -> Remedy:
        """The same with advice that comes before it."""
        return replace(self, advice=(*first, *self.advice))

    def and_then(self, *last: Words) -> Remedy:
        """The same with advice that follows it."""
        return replace(self, advice=(*self.advice, *last))

    def advice_for(self, reader: Reader) -> tuple[str, ...]:
        """What a reader can try."""
        return told(self.advice, reader)

    def code_for(self, reader: Reader) -> str:
        """A snippet that shows the change; empty where there is none for a reader."""
        return said(self.code, reader)


def remedy(
    *advice: Words, native: Iterable[Words] = (), jax: Sequence[Words] = (), code: Words = ""
) -> Remedy:
    """Advice with what takes its place for programs that are not Python, and for those of JAX."""
    return Remedy(with_native(native, advice, jax) if native or jax else advice, code)


def pytorch_remedy(*advice: Words, code: Words) -> Remedy:
    """Advice and code for programs of PyTorch alone."""
    return Remedy(tuple(map(for_pytorch, advice)), for_pytorch(code))
