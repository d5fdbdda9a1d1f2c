"""The commands that README and documents show, each with every option it is shown with, ready to be run.

``[...]`` may be left out, ``a|b`` stands for either, and words in capitals for what a user puts there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from parsers.model.late import dataclass

DOCUMENTS = ("README.md", "docs/*.md")
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```|((?:^ {4}[^\n]*\n|^\n)+)", re.MULTILINE | re.DOTALL)
_COMMANDS_OF_A_LINE = re.compile(r"\s{2,}(?=stallscope )")
_COMMENT = re.compile(r"\s+#.*")
_ELSE = re.compile(r"\s+\|\s+")  # between whole commands; between words there is no space
_WORD = re.compile(r"""\[|\]|\$\([^)]*\)|(?:"[^"]*"|[^\s\[\]"])+""")

# what a user puts in the place of a word
RECORDINGS = {"PATH", "RUN", "FOLDER", "BEFORE", "AFTER"}
MEANT = {
    "FILE.toml": "gates.toml",
    "LIMIT": "5%",
    "NAME": "main",
    "NAME=VALUE": "least-share=0.02",
    "RECORDED=HERE": "/home/them/train=.",
    "PRICE": "2.5",
    "PLACE": "ssh:localhost",
    "LINE": "true",
    "DIR": "traces",
    "PID": "1",
    "job:N": "job:4",
    "ID": "compile-model-1",
    "QUESTION": "cuda_gpu_kern_sum",
    '"SELECT ..."': "SELECT name, duration_ns FROM kernels",
    "HOST": "localhost",
    "ARGS": "",
    "options": "",
    "S": "30",
    "N": "4",
    "SECONDS": "120",
    "train.py": "train.py",
    "python": "python3",
    "$(git rev-parse --short HEAD)": "1a2b3c4",
}
WRITTEN = {
    "--html": "page.html",
    "--pdf": "page.pdf",
    "--markdown": "page.md",
    "--junit": "page.xml",
    "--out": "rows.csv",
    "--sarif": "found.sarif",
    "--patch": "change.patch",
}
AFTER = {"--largest": "1MB", "--memory-limit": "1GB"}  # sizes, by their option
_PLACEHOLDER = re.compile(r"[A-Z][A-Z.=]+")


@dataclass(frozen=True, slots=True)
class Documented:
    """One command as somebody would type it, without ``stallscope``; ``where`` is its document."""

    where: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.where}: {shlex.join(self.words)}"


@cache
def documented(repository: Path) -> tuple[Documented, ...]:
    """Every command of the documents, without its options, with all of them, and with each other choice."""
    found = {}
    for path in sorted(each for pattern in DOCUMENTS for each in repository.glob(pattern)):
        for line in _lines(path.read_text("utf-8")):
            for words in _typed(line):
                found.setdefault(words, Documented(path.name, words))
    return tuple(found.values())


def _lines(text: str) -> Iterator[str]:
    for fenced, indented in _BLOCK.findall(text):
        for line in (fenced or indented).splitlines():
            if line.strip().startswith("stallscope "):
                for command in _COMMANDS_OF_A_LINE.split(line.strip()):
                    yield _COMMENT.sub("", command)


def _typed(line: str) -> Iterator[tuple[str, ...]]:
    """What may be typed for one line."""
    first, *others = _ELSE.split(line)
    name = first.split()[1]
    for each in (first, *(f"stallscope {name} {other}" for other in others)):
        words = _WORD.findall(each)[1:]
        yield _chosen(words, with_options=True)
        yield _chosen(words, with_options=False)
        for place, word in enumerate(words):
            for choice in _choices(word)[1:]:
                yield _chosen([*words[:place], choice, *words[place + 1 :]], with_options=True)


def _choices(word: str) -> list[str]:
    return re.split(r"\|(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", word)


def _chosen(words: list[str], with_options: bool) -> tuple[str, ...]:
    """The first choice of each word, with what it stands for; a word that stands for nothing known is an error."""
    typed: list[str] = []
    depth = 0
    for word in words:
        depth += {"[": 1, "]": -1}.get(word, 0)
        if word in "[]" or (depth and not with_options):
            continue
        meant = _meant(_choices(word)[0].removesuffix("..."), typed[-1] if typed else "")
        if meant:
            typed.append(meant)
    return tuple(typed)


def _meant(word: str, before: str) -> str:
    if word in RECORDINGS or (not word and before):
        return word
    if word == "FILE":
        return WRITTEN[before]
    if word == "SIZE":
        return AFTER[before]
    if word in MEANT:
        return MEANT[word]
    if word == "OUT":
        return "converted"
    word = word.replace("HOST", MEANT["HOST"])
    if _PLACEHOLDER.fullmatch(word):
        raise AssertionError(f"nobody has said what {word} stands for: add it to MEANT")
    return shlex.split(word)[0] if word.startswith('"') else word
