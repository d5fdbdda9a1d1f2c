"""The numbers of a kernel's instructions: samples, what warps waited for, how often each ran."""

from __future__ import annotations

import numpy as np
import pandas as pd

from parsers.model import KernelSource
from parsers.model.units import percent
from rules.kernels.checks.stalls import label_of

ISSUING = frozenset({"selected", "not_selected"})  # no waiting


def source_frame(source: KernelSource) -> pd.DataFrame:
    """One row an instruction: line (from 1), address, text, share of all samples, its main stall and that one's share
    of its samples (0 to 1), executed."""
    samples = np.array(source.samples, float)
    reasons = [reason for reason in source.stalls if reason not in ISSUING]
    counts = np.array([source.stalls[reason] for reason in reasons], float).reshape(
        len(reasons), len(samples)
    )
    main = counts.argmax(axis=0) if len(reasons) else np.zeros(len(samples), int)
    most = counts.max(axis=0) if len(reasons) else np.zeros(len(samples))
    return pd.DataFrame(
        {
            "line": np.arange(1, len(samples) + 1),
            "address": [f"{each:#06x}" if each >= 0 else "" for each in source.address],
            "text": source.text,
            "share": samples / max(samples.sum(), 1.0),
            "stall": [
                label_of(reasons[at]) if n else "" for at, n in zip(main.tolist(), most.tolist(), strict=True)
            ],
            "stalled": np.where(most > 0, most / np.maximum(samples, 1.0), np.nan),
            "executed": source.executed,
        }
    )


def hottest(frame: pd.DataFrame) -> str:
    """The line with most samples, in words."""
    if not len(frame) or not frame["share"].max():
        return "The page has no samples: record with ncu --section SourceCounters."
    top = frame.iloc[int(frame["share"].to_numpy().argmax())]
    waits = f", mostly {top['stall']}" if top["stall"] else ""
    return f"Line {top['line']} has {percent(float(top['share']))} of all samples{waits}: {top['text']}"
