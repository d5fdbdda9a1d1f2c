"""The numbers of a kernel's instructions and lines: samples, what warps waited for, how often each ran."""

from __future__ import annotations

import numpy as np
import pandas as pd

from parsers.model import F64, KernelSource, SourcePlace
from parsers.model.units import percent
from rules.kernels.checks.stalls import label_of

ISSUING = frozenset({"selected", "not_selected"})  # no waiting


def source_frame(source: KernelSource, reason: str = "") -> pd.DataFrame:
    """One row an instruction: line (from 1), address, place and code of the program, text (of the instruction, else
    of that line), its share of all samples or of those of one ``reason``, its main stall and that one's percentage of
    its samples, executed."""
    places = [source.places[at] if at >= 0 else None for at in source.place or [-1] * len(source.address)]
    samples, stalls = np.array(source.samples, float), _stalls(source)
    return pd.DataFrame(
        {
            "line": np.arange(1, len(samples) + 1),
            "address": [f"{each:#06x}" if each >= 0 else "" for each in source.address],
            "place": ["" if each is None else _written(each) for each in places],
            "text": [
                text or ("" if place is None else _code(source, place))
                for text, place in zip(source.text, places, strict=True)
            ],
            "executed": source.executed,
            **_sampled(samples, stalls, reason),
        }
    )


def lines_frame(source: KernelSource, reason: str = "") -> pd.DataFrame:
    """One row a line of the program that has instructions, its own and those of functions inlined there.

    ``place``, ``text`` and the numbers as in ``source_frame``; ``instructions`` counts them and ``first`` is the row of
    the one with most samples there. By file and line.
    """
    lines: dict[tuple[str, int], int] = {}
    rows: list[int] = []
    owners: list[int] = []
    for row, at in enumerate(source.place):
        met: set[tuple[str, int]] = set()
        while at >= 0:
            met.add((source.places[at].file, source.places[at].line))
            at = source.places[at].inlined_at
        rows += [row] * len(met)
        owners += [lines.setdefault(line, len(lines)) for line in met]
    of, owner = np.array(rows, np.int64), np.array(owners, np.int64)

    def summed(values: F64) -> F64:
        return np.bincount(owner, values[of], len(lines)).astype(float)

    samples = np.array(source.samples, float)
    stalls = {key: summed(values) for key, values in _stalls(source).items()}
    total = sum(source.stalls.get(reason, ())) if reason else samples.sum()
    hottest_last = np.argsort(samples[of], kind="stable")
    first = np.zeros(len(lines), np.int64)
    first[owner[hottest_last]] = of[hottest_last]
    places = [SourcePlace(*each) for each in lines]
    return (
        pd.DataFrame(
            {
                "file": [each.file for each in places],
                "number": [each.line for each in places],
                "place": [_written(each) for each in places],
                "text": [_code(source, each) for each in places],
                "instructions": np.bincount(owner, minlength=len(lines)),
                "executed": summed(np.array(source.executed, float)),
                "first": first,
                **_sampled(summed(samples), stalls, reason, total),
            }
        )
        .sort_values(["file", "number"], kind="stable")
        .reset_index(drop=True)
    )


def reasons_of(source: KernelSource) -> list[tuple[str, int]]:
    """What the kernel's warps waited for, as (reason, samples), most first."""
    counted = ((reason, int(values.sum())) for reason, values in _stalls(source).items())
    return sorted((each for each in counted if each[1]), key=lambda each: -each[1])


def hottest(frame: pd.DataFrame, reason: str = "") -> str:
    """The line with most samples, in words."""
    if not len(frame) or not frame["share"].max():
        return "The page has no samples: record with ncu --section SourceCounters."
    top = frame.iloc[int(frame["share"].to_numpy().argmax())]
    waits = f", mostly {top['stall']}" if top["stall"] and not reason else ""
    which = top["place"] if "instructions" in frame else f"Instruction {top['line']}"
    of = f"the samples of {label_of(reason)}" if reason else "all samples"
    code = f": {top['text'].strip()}" if top["text"] else ""
    return f"{which} has {percent(float(top['share']))} of {of}{waits}{code}"


def _stalls(source: KernelSource) -> dict[str, F64]:
    return {
        reason: np.array(counts, float) for reason, counts in source.stalls.items() if reason not in ISSUING
    }


def _sampled(
    samples: F64, stalls: dict[str, F64], reason: str, total: float | None = None
) -> dict[str, F64 | list[str]]:
    """Share, main stall and its share; ``total`` where rows have samples in common."""
    names = list(stalls)
    counts = np.array(list(stalls.values()), float).reshape(len(names), len(samples))
    main = counts.argmax(axis=0) if names else np.zeros(len(samples), int)
    most = counts.max(axis=0) if names else np.zeros(len(samples))
    ranked = stalls.get(reason, np.zeros(len(samples))) if reason else samples
    whole = ranked.sum() if total is None else total
    return {
        "share": ranked / max(whole, 1.0),
        "stall": [
            label_of(names[at]) if n else "" for at, n in zip(main.tolist(), most.tolist(), strict=True)
        ],
        "stalled": np.where(most > 0, 100 * most / np.maximum(samples, 1.0), np.nan),
    }


def _written(place: SourcePlace) -> str:
    return f"{place.file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{place.line}"


def _code(source: KernelSource, place: SourcePlace) -> str:
    lines = source.files.get(place.file, ())
    return lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""
