"""Logs of training programs that print what each iteration took, and how long it waited for its data."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from parsers.files.base import Source, parser
from parsers.model import BOOL, F64, ResultTable
from parsers.model.arrays import median_of, percentile_of
from parsers.model.late import dataclass, regex
from parsers.model.results import TimeOf, Totals, titled
from parsers.model.units import duration, percent
from parsers.nccl_messages import nccl_tables
from parsers.printed_profile import PrintedProfile
from parsers.smi.clock import local_ns

MIN_LINES = 3  # of one sort: a single one may be anybody's
MIN_UPDATES = 10  # of a progress bar, or of a counter, which many programs have for something else
MIN_APART_S = 10  # of two lines whose times are whole seconds: else these say too little
MIN_WAITING = 0.5  # of the iterations: what waits as long is told as what takes the program's time
MIN_SLOW = 2.0  # times the median: one iteration of twenty that takes as long is told, and so is the first
MIN_EPOCHS = 3  # whose first iterations are told together
MIN_OF_LONGEST = 0.1  # of the time of the bar that takes longest: other bars are named from here on
_S, _MS = 1e9, 1e6
_NUMBER = r"\d{1,9}(?:\.\d{1,9})?"
_STEP = r"(?P<step>\d{1,3}(?:,\d{3}){1,3}|\d{1,12})"  # "20,100" too


@dataclass(frozen=True, slots=True)
class _Sort:
    """How one family of programs prints an iteration: ``key`` is in each line; its times are in ``unit`` ns."""

    name: str
    key: str
    line: re.Pattern[str]
    unit: float


def _sort(name: str, key: str, line: str, unit: float = _S) -> _Sort:
    words = line.replace("STEP", _STEP)
    for part in ("MEAN_TIME", "MEAN_DATA", "TIME", "DATA"):
        words = words.replace(part, rf"(?P<{part.lower()}>{_NUMBER})")
    return _Sort(name, key, regex(words), unit)


_SORTS = (  # what is looked for stands near the beginning of a line, and in this order
    _sort("timm", "Data: ", r"Train: \d{1,6} \[ {0,9}STEP/[^\n]{0,200}?Time: TIMEs,[^\n]{0,200}?Data: DATA "),
    _sort("torchvision", "data: ", r"\[ {0,9}STEP/\d{1,12}\] [^\n]{0,600}?\btime: TIME {1,4}data: DATA\b"),
    _sort(
        "PyTorch's examples",
        "Data ",
        r"\[ {0,9}STEP/\d{1,12}\]\s{1,4}Time\s{1,4}TIME \( {0,4}MEAN_TIME\)\s{1,4}"
        r"Data\s{1,4}DATA \( {0,4}MEAN_DATA\)",
    ),
    _sort(
        "detectron2",
        "data_time: ",
        r"\biter: STEP {1,4}[^\n]{0,600}?\btime: TIME {1,4}[^\n]{0,60}?\bdata_time: DATA\b",
    ),
    _sort(
        "MMEngine",
        "data_time: ",
        r"\[ {0,9}STEP/\d{1,12}\][^\n]{0,300}?\btime: TIME,? {1,4}data_time: DATA\b",
    ),
    _sort(
        "YOLOX", "data_time: ", r"\biter: STEP/\d{1,12}, [^\n]{0,100}?\biter_time: TIMEs, data_time: DATAs"
    ),
    _sort("BasicSR", "time (data): ", r"\biter: {1,12}STEP, [^\n]{0,200}?\btime \(data\): TIME \(DATA\)"),
    _sort(
        "Paddle",
        "batch_cost: ",
        r"\b(?:[Ii]ter: |step:)STEP\b[^\n]{0,300}?\bbatch_cost: TIME(?: s(?:ec)?)?, (?:reader|data)_cost: DATA\b",
    ),
    _sort(
        "Megatron",
        "elapsed time per iteration",
        r"\biteration {1,12}STEP/ {0,12}\d{1,12} \|[^\n]{0,200}?elapsed time per iteration \(ms\): {1,6}TIME",
        _MS,
    ),
    _sort("DeepSpeed", "iter time (s)", r"\bsteps: STEP loss: [^\n]{1,60}? iter time \(s\): TIME"),
    _sort("HRNet", "Iter:[", r"\bEpoch: \[\d{1,6}/\d{1,6}\] Iter:\[STEP/\d{1,9}\], Time: MEAN_TIME, lr: "),
    _sort("MaxText", "completed step: ", r"\bcompleted step: STEP, seconds: TIME,"),
    _sort("NeMo", "train_step_timing in s=", r"\bglobal_step=STEP\b[^\n]{0,300}?train_step_timing in s=TIME"),
    _sort("nanoGPT", ", time ", r"\biter STEP: loss [^\n]{1,30}?, time TIMEms", _MS),
    _sort("nanoGPT", "| dt: ", r"\bstep {1,8}STEP \| loss: [^\n]{1,200}?\| dt: TIMEms", _MS),
)
_PACE = rf"(?:(?P<time>{_NUMBER})s/it|(?P<rate>{_NUMBER})it/s)"
_BARS = (
    regex(
        rf"\b(?P<step>\d{{1,12}})/(?P<all>\d{{1,12}}) \[[\d:]{{4,10}}<[^\],\n]{{1,20}}, {{1,3}}{_PACE}"
    ),  # tqdm's
    regex(  # tqdm-loggable's, where no terminal shows bars
        rf"\bProgress on:[^\n]{{0,80}}?(?P<step>{_NUMBER}[kM]?)(?:it)?/(?P<all>{_NUMBER}[kM]?)(?:it)? rate:{_PACE} "
    ),
)
_BAR = regex(r"%(?: Completed )?\|")  # vLLM's says so while it loads weights
_THOUSANDS = {"k": 1e3, "M": 1e6}
_MAX_BEFORE_BAR = 160  # characters in which its name stands
_STAMPED = regex(  # a line of a logger that counts iterations and states no time of them but its own
    r"(?P<date>\b(?:20)?\d\d[-/]\d\d[-/]\d\d)[ T](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)[^\n]{0,120}?"
    rf"\b(?:[Ss]tep|[Ii]ter|[Ii]teration|[Bb]atch)[^\w\n]{{1,12}}{_STEP}(?:/(?P<all>\d{{1,12}}))?\b"
)
_ELAPSED = regex(  # a line that counts iterations and states what has passed since the program began
    rf"\[ {{0,9}}{_STEP}/ {{0,9}}(?P<all>\d{{1,12}})\],? {{1,4}}[Tt]ime: {{0,4}}(?P<passed>{_NUMBER})"
)
_HAS_FRACTION = regex(r"[.,]")
_HAS_DIGIT = regex(r"\d")
_SHORT_DATE = len("23-05-05")
_COLUMNS = titled("iteration", "took (ms)", "of it waiting for data (ms)")
_PARTS = titled("Part", "Time on average (ms)", "Share (%)")


@parser
class TrainingLog(PrintedProfile):
    """Recognised by a few lines as one of the families of programs prints them."""

    format = "training-log"
    title = "training programs"
    files = "logs with the time of each iteration: timm, torchvision, detectron2, Megatron, tqdm and others"
    suffixes = (".log", ".txt", ".out")
    priority = 66
    version = 10
    producer = "a training program"

    def recognises(self, source: Source) -> bool:
        texts = [each.decode("utf-8", "replace") for each in source.printed]
        return any(_sort_of(each) is not None or _stamps_of(each) or _bars_of(each) for each in texts)

    def tables(self, text: str) -> Iterator[ResultTable]:
        sort = _sort_of(text)
        if sort is not None:
            yield from _of_iterations(sort, text)
        elif stamps := _stamps_of(text):
            for told, found in stamps.items():
                yield _of_stamps(told, found)
        else:
            yield from _of_bars(_bars_of(text))
        yield from nccl_tables(text)


def _sort_of(text: str) -> _Sort | None:
    """The family with the most lines."""
    may = [each for each in _SORTS if text.count(each.key) >= MIN_LINES]
    counted = [(sum(1 for _ in each.line.finditer(text)), -place) for place, each in enumerate(may)]
    count, place = max(counted, default=(0, 0))
    return may[-place] if count >= MIN_LINES else None


def _bars_of(text: str) -> list[tuple[float, list[re.Match[str]]]]:
    """Progress bars that were printed often: what each took in all (s) and its updates, the longest one first."""
    updates: defaultdict[tuple[str, str], list[re.Match[str]]] = defaultdict(list)
    if "s/it" not in text and "it/s" not in text:
        return []
    for sort in _BARS:
        for each in sort.finditer(text):
            updates[_name_of_bar(each), each["all"]].append(each)
    often = [(_time_of(each), each) for each in updates.values() if len(each) >= MIN_UPDATES]
    return sorted(often, key=lambda bar: bar[0], reverse=True)


def _time_of(updates: list[re.Match[str]]) -> float:
    """What its iterations took, s; the bars of several ranks, printed into one another, count once."""
    took, before = 0.0, 0.0
    for each in updates:
        step = _counted(each["step"])
        again = step < before / 2
        took += max(step - (0.0 if again else before), 0.0) * _s_of(each)
        before = step if again else max(step, before)
    return took


def _s_of(update: re.Match[str]) -> float:
    """What an iteration takes by a bar, s; 0 of one that stands still."""
    return float(update["time"] or 0) or 1.0 / (float(update["rate"] or 0) or np.inf)


def _name_of_bar(update: re.Match[str]) -> str:
    """ "train" of "train 3 loss=0.41:  10%|# | 310/3104 [": numbers are other ones in each epoch, or in each update."""
    before = update.string[max(update.start() - _MAX_BEFORE_BAR, 0) : update.start()]
    *_, name, _ = ["", *_BAR.split(re.split(r"[\r\n\]]", before)[-1])]
    name = name.rpartition(":")[0]
    return " ".join(each for each in name.split() if not _HAS_DIGIT.search(each))


def _counted(text: str) -> float:
    """310.0 of "310", 20,100.0 of "20,100", and 12,800.0 of "12.8k"."""
    return float(text.rstrip("kM").replace(",", "")) * _THOUSANDS.get(text[-1], 1.0)


def _stamps_of(text: str) -> dict[str, list[tuple[float, float]]]:
    """Iterations by what is said of their sort, as training and checking are two; none where too few lines tell.

    Of each: its number, and what it took on average since the line before it (ns).
    """
    since_start = list(_since_start(text))
    moments = since_start or list(_times_of_day(text))
    found: defaultdict[str | None, list[tuple[float, float]]] = defaultdict(list)
    for (before, step_before, ns_before, _), (whole, step, ns, is_exact) in pairwise(moments):
        apart = ns - ns_before
        if before == whole and step > step_before and apart > 0 and (is_exact or apart >= MIN_APART_S * _S):
            found[whole].append((float(step), apart / (step - step_before)))
    enough = {whole: steps for whole, steps in found.items() if len(steps) >= MIN_UPDATES}
    told = f"Log with times {'since the start' if since_start else 'of day'}"
    return {
        told + (f" of {whole} iterations" if len(enough) > 1 and whole else ""): steps
        for whole, steps in enough.items()
    }


def _times_of_day(text: str) -> Iterator[tuple[str | None, int, int, bool]]:
    """Of each line: of how many iterations, which one, when (ns), and whether that is more exact than a second."""
    for each in _STAMPED.finditer(text):
        date = each["date"].replace("/", "-")
        moment = local_ns(f"20{date}" if len(date) == _SHORT_DATE else date, each["clock"])
        if moment is not None:
            yield each["all"], int(_counted(each["step"])), moment, bool(_HAS_FRACTION.search(each["clock"]))


def _since_start(text: str) -> Iterator[tuple[str | None, int, int, bool]]:
    """The same; none where the times do not grow from line to line, as what an iteration took would not."""
    lines = list(_ELAPSED.finditer(text))
    passed = [float(each["passed"]) * _S for each in lines]
    if len(lines) >= MIN_UPDATES and all(before < after for before, after in pairwise(passed)):
        for each, ns in zip(lines, passed, strict=True):
            yield (
                each["all"],
                int(_counted(each["step"])),
                int(ns),
                bool(_HAS_FRACTION.search(each["passed"])),
            )


def _of_stamps(told: str, found: list[tuple[float, float]]) -> ResultTable:
    took = np.array([ns for _, ns in found])
    rows = tuple((step, ns / _MS) for step, ns in found)
    return ResultTable(_told(told, took, None), _COLUMNS[:2], rows)


def _of_bars(bars: list[tuple[float, list[re.Match[str]]]]) -> Iterator[ResultTable]:
    """What the longest bar says an iteration takes, which it has smoothed: neither the first nor slow ones are told."""
    for took_s, updates in bars[:1]:
        took = [_s_of(each) for each in updates]
        usual = float(median_of(took)) * _S
        if usual:
            rows = tuple(
                (_counted(each["step"]), s * _S / _MS) for each, s in zip(updates, took, strict=True)
            )
            others = [
                f"{_called(each)} takes {duration(s * _S)}"
                for s, each in bars[1:]
                if s >= MIN_OF_LONGEST * took_s
            ]
            beside = f", {duration(took_s * _S)} in all, while {', '.join(others)}" if others else ""
            title = (
                f"Progress bar {_called(updates)}".replace(" that of", " of")
                + f" iterations: one takes {duration(usual)} (median, smoothed){_of_last_run(rows, usual)}{beside}"
            )
            yield ResultTable(title, _COLUMNS[:2], rows)


def _called(updates: list[re.Match[str]]) -> str:
    """ "'train' of 3104", or "that of 3104" for a bar without a name."""
    name = _name_of_bar(updates[0])
    return f"{repr(name) if name else 'that'} of {_counted(updates[0]['all']):.0f}"


def _of_last_run(rows: Sequence[tuple[float, float]], usual: float) -> str:
    """What an iteration takes since the bar began anew for the last time, where that is something else."""
    step, took = np.array(rows).T
    again = np.flatnonzero(np.diff(step) < 0)
    last = took[again[-1] + 1 :] * _MS if len(again) else took[:0]
    if len(last) < MIN_UPDATES:
        return ""
    now = float(median_of(last))
    return f", {duration(now)} since it last began anew" if not 1 / MIN_SLOW < now / usual < MIN_SLOW else ""


def _of_iterations(sort: _Sort, text: str) -> Iterator[ResultTable]:
    found = [each.groupdict() for each in sort.line.finditer(text)]
    steps = np.array([_counted(each["step"]) for each in found])
    took = (
        np.array([float(each["time"]) for each in found])
        if "time" in found[0]
        else _of_means(steps, np.array([float(each["mean_time"]) for each in found]))
    ) * sort.unit
    if not took.any():
        return
    waits = "data" in found[0]
    waited = np.array([float(each["data"]) for each in found]) * sort.unit if waits else np.zeros(len(found))
    rows = tuple(
        (step, ns / _MS, wait / _MS if waits else None)
        for step, ns, wait in zip(steps.tolist(), took.tolist(), waited.tolist(), strict=True)
    )
    waiting = float(waited[1:].sum() / max(took[1:].sum(), 1.0))  # the first one starts everything
    if waits and "mean_data" in found[0]:
        waiting = _of_all(found)
    if waits and MIN_WAITING <= waiting <= 1.0:
        yield _parts(took[1:], waiting)
    told = _told(f"Log of {sort.name}", took, waiting if waits else None, _first_ones(steps))
    yield ResultTable(told, _COLUMNS, rows)


def _of_means(steps: F64, means: F64) -> F64:
    """What an iteration took since the line before it, of lines that state the mean since their epoch began."""
    sums = means * (steps + 1)
    goes_on = np.diff(steps) > 0
    apart = np.diff(sums) / np.where(goes_on, np.diff(steps), 1)
    return np.concatenate([means[:1], np.where(goes_on, np.maximum(apart, 0.0), means[1:])])


def _first_ones(steps: F64) -> BOOL:
    """Which lines are of the first iteration of an epoch, where there are a few; else the first line."""
    first = np.zeros(len(steps), bool)
    first[1:] = (np.diff(steps) < 0) & (steps[1:] <= 1)
    if first.sum() < MIN_EPOCHS - 1:
        first[:] = False
    first[0] = True
    return first


def _told(log: str, took: F64, waiting: float | None, first_ones: BOOL | None = None) -> str:
    """ "Log of timm: an iteration takes 412 ms (median of 250), 3.1 % of it waiting for data"."""
    usual = float(median_of(took))
    first = _first_ones(np.zeros(len(took))) if first_ones is None else first_ones
    slow = float(percentile_of(took[~first], 95.0)) if not first.all() else 0.0
    said = f"{log}: an iteration takes {duration(usual)} (median of {len(took):,})"
    if waiting is not None and waiting <= 1.0:
        said += f", {percent(waiting)} of it waiting for data"
    if usual and slow >= MIN_SLOW * usual:
        said += f", one of twenty {duration(slow)} or more"
    if usual and (started := float(median_of(took[first]))) >= MIN_SLOW * usual:
        said += f", the first{' of an epoch' if first.sum() > 1 else ''} {duration(started)}"
    return said


def _of_all(found: Sequence[dict[str, str]]) -> float:
    """How much of all iterations waited, those that were not printed too, by what they took on average so far."""
    steps = [_counted(each["step"]) for each in found]
    ends = [at for at, step in enumerate(steps) if at + 1 == len(steps) or steps[at + 1] <= step]
    waited, took = (
        sum(float(found[at][mean]) * (steps[at] + 1) for at in ends) for mean in ("mean_data", "mean_time")
    )
    if steps[0] == 0:  # the first one starts everything
        waited, took = waited - float(found[0]["data"]), took - float(found[0]["time"])
    return waited / took if took > 0 else 0.0


def _parts(took: F64, share: float) -> ResultTable:
    """The means of the iterations that were printed, which are some of all; so their shares count, not their sums."""
    whole = float(took.mean()) / _MS
    waiting = share * whole
    rows = (
        ("waiting for data", waiting, waiting / whole * 100.0),
        ("the rest of an iteration", whole - waiting, (whole - waiting) / whole * 100.0),
    )
    return ResultTable("Parts of an iteration", _PARTS, rows, totals=(Totals(TimeOf.PROGRAM, 0, -1, 2),))
