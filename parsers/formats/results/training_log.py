"""Logs of training programs that print what each iteration took, and how long it waited for its data."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from parsers.files.base import Source, parser
from parsers.files.texts import utf8
from parsers.model import F64, Progress, ResultColumn, ResultTable, Trace
from parsers.model.late.dataclass import dataclass
from parsers.model.late.regex import regex
from parsers.model.results import TimeOf, Totals
from parsers.model.units import duration, percent
from parsers.nccl_messages import nccl_tables
from parsers.printed_profile import read_profile

MIN_LINES = 3  # of one sort: a single one may be anybody's
MIN_WAITING = 0.5  # of the iterations: what waits as long is told as what takes the program's time
MIN_SLOW = 2.0  # times the median: one iteration of twenty that takes as long is told, and so is the first
_S, _MS = 1e9, 1e6
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"


@dataclass(frozen=True, slots=True)
class _Sort:
    """How one family of programs prints an iteration; its times are in ``unit`` ns."""

    name: str
    line: re.Pattern[str]
    unit: float


def _sort(name: str, line: str, unit: float = _S) -> _Sort:
    words = line.replace("STEP", r"(?P<step>\d{1,12})").replace("TIME", rf"(?P<time>{_NUMBER})")
    return _Sort(name, regex(words.replace("DATA", rf"(?P<data>{_NUMBER})")), unit)


_SORTS = (  # what is looked for stands near the beginning of a line, and in this order
    _sort("timm", r"Train: \d{1,6} \[ {0,9}STEP/[^\n]{0,200}?Time: TIMEs,[^\n]{0,200}?Data: DATA "),
    _sort("torchvision", r"\[ {0,9}STEP/\d{1,12}\] [^\n]{0,600}?\btime: TIME {1,4}data: DATA\b"),
    _sort(
        "PyTorch's examples",
        r"\[ {0,9}STEP/\d{1,12}\]\s{1,4}Time\s{1,4}TIME \([^\n]{1,30}?\)\s{1,4}Data\s{1,4}DATA \(",
    ),
    _sort("detectron2", r"\biter: STEP {1,4}[^\n]{0,600}?\btime: TIME {1,4}[^\n]{0,60}?\bdata_time: DATA\b"),
    _sort("MMEngine", r"\[ {0,9}STEP/\d{1,12}\][^\n]{0,300}?\btime: TIME,? {1,4}data_time: DATA\b"),
    _sort(
        "Paddle",
        r"\b(?:[Ii]ter: |step:)STEP\b[^\n]{0,300}?\bbatch_cost: TIME(?: s(?:ec)?)?, (?:reader|data)_cost: DATA\b",
    ),
    _sort(
        "Megatron",
        r"\biteration {1,12}STEP/ {0,12}\d{1,12} \|[^\n]{0,200}?elapsed time per iteration \(ms\): {1,6}TIME",
        _MS,
    ),
    _sort("DeepSpeed", r"\bsteps: STEP loss: [^\n]{1,60}? iter time \(s\): TIME"),
    _sort("MaxText", r"\bcompleted step: STEP, seconds: TIME,"),
    _sort("NeMo", r"\bglobal_step=STEP\b[^\n]{0,300}?train_step_timing in s=TIME"),
    _sort("nanoGPT", r"\biter STEP: loss [^\n]{1,30}?, time TIMEms", _MS),
    _sort("nanoGPT", r"\bstep {1,8}STEP \| loss: [^\n]{1,200}?\| dt: TIMEms", _MS),
)
_COLUMNS = (
    ResultColumn("iteration"),
    ResultColumn("took", "ms"),
    ResultColumn("of it waiting for data", "ms"),
)
_PARTS = (ResultColumn("Part"), ResultColumn("Time on average", "ms"), ResultColumn("Share", "%"))


@parser
class TrainingLog:
    """Recognised by a few lines as one of the families of programs prints them."""

    format: ClassVar[str] = "training-log"
    accompanies: ClassVar[bool] = True
    title: ClassVar[str] = "training programs"
    files: ClassVar[str] = (
        "logs with the time of each iteration: timm, torchvision, detectron2, Megatron and others"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".txt", ".out")
    priority: ClassVar[int] = 66
    version: ClassVar[int] = 1

    def recognises(self, source: Source) -> bool:
        return any(_sort_of(each.decode("utf-8", "replace")) is not None for each in source.printed)

    def read(self, source: Source, progress: Progress) -> Trace:
        return read_profile(source, progress, (self.format, "a training program"), _tables)


def _sort_of(text: str) -> _Sort | None:
    """The family with the most lines."""
    counted = [(sum(1 for _ in each.line.finditer(text)), -place) for place, each in enumerate(_SORTS)]
    count, place = max(counted)
    return _SORTS[-place] if count >= MIN_LINES else None


def _tables(content: bytes) -> Iterator[ResultTable]:
    text = utf8(content).decode("utf-8", "replace")
    sort = _sort_of(text)
    if sort is None:
        return
    found = [each.groupdict() for each in sort.line.finditer(text)]
    took = np.array([float(each["time"]) for each in found]) * sort.unit
    if not took.any():
        return
    waits = "data" in found[0]
    waited = np.array([float(each["data"]) for each in found]) * sort.unit if waits else np.zeros(len(found))
    rows = tuple(
        (float(each["step"]), ns / _MS, wait / _MS if waits else None)
        for each, ns, wait in zip(found, took.tolist(), waited.tolist(), strict=True)
    )
    waiting = float(waited[1:].sum() / max(took[1:].sum(), 1.0))  # the first one starts everything
    if waits and MIN_WAITING <= waiting <= 1.0:
        yield _parts(took[1:], waited[1:])
    yield ResultTable(_told(sort.name, took, waiting if waits else None), _COLUMNS, rows)
    yield from nccl_tables(text)


def _told(name: str, took: F64, waiting: float | None) -> str:
    """ "Log of timm: an iteration takes 412 ms (median of 250), 3.1 % of it waiting for data"."""
    usual = float(np.median(took))
    slow = float(np.percentile(took[1:], 95.0))
    said = f"Log of {name}: an iteration takes {duration(usual)} (median of {len(took):,})"
    if waiting is not None and waiting <= 1.0:
        said += f", {percent(waiting)} of it waiting for data"
    if usual and slow >= MIN_SLOW * usual:
        said += f", one of twenty {duration(slow)} or more"
    if usual and took[0] >= MIN_SLOW * usual:
        said += f", the first {duration(float(took[0]))}"
    return said


def _parts(took: F64, waited: F64) -> ResultTable:
    """The means of the iterations that were printed, which are some of all; so their shares count, not their sums."""
    whole, waiting = float(took.mean()) / _MS, float(waited.mean()) / _MS
    rows = (
        ("waiting for data", waiting, waiting / whole * 100.0),
        ("the rest of an iteration", whole - waiting, (whole - waiting) / whole * 100.0),
    )
    return ResultTable("Parts of an iteration", _PARTS, rows, totals=(Totals(TimeOf.PROGRAM, 0, -1, 2),))
