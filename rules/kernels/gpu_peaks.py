"""Peak rates of known GPUs, from the table that the program ships."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache

import resources
from parsers.model.late import dataclass, regex

HALF_THE_BYTES = 2.0  # what memory limits becomes this much faster with numbers of half the size

PRECISIONS = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8")
SHOWN = {
    "fp64": "FP64",
    "fp64_tensor": "FP64 tensor",
    "fp32": "FP32",
    "tf32": "TF32 tensor",
    "fp16": "FP16 tensor",
    "bf16": "BF16 tensor",
    "fp8": "FP8 tensor",
    "int8": "INT8 tensor",
}

# Bytes/s in one direction: 8, 16 and 32 GT/s on 16 lanes, 128 of 130 bits data (PCI-SIG); half of NVIDIA's 900 GB/s.
LINKS = {"PCIe 3 x16": 15.75e9, "PCIe 4 x16": 31.5e9, "PCIe 5 x16": 63.0e9, "NVLink-C2C": 450e9}


@dataclass(frozen=True, slots=True)
class GpuPeaks:
    """One GPU: DRAM bandwidth in bytes/s, operations/s for each precision it supports, and where that is stated.

    ``link`` connects it to the host; empty where that depends on the machine.
    """

    name: str
    bandwidth: float
    operations: Mapping[str, float]
    source: str
    link: str = ""

    @property
    def link_bandwidth(self) -> float:
        """Bytes/s to or from the host at most; 0 where the link is not known."""
        return LINKS.get(self.link, 0.0)


@lru_cache(maxsize=1)
def known_gpus() -> tuple[tuple[re.Pattern[str], GpuPeaks], ...]:
    """The table, in the order in which names are tried."""
    rows = json.loads(resources.path("gpus.json").read_text("utf-8"))["gpus"]
    return tuple(
        (
            regex(row["pattern"], re.IGNORECASE),  # most are never tried
            GpuPeaks(
                name=row["name"],
                bandwidth=row["bandwidth"] * 1e9,
                operations={name: row[name] * 1e12 for name in PRECISIONS if name in row},
                source=row["source"],
                link=row.get("link", ""),
            ),
        )
        for row in rows
    )


def peaks_of(device_name: str | None) -> GpuPeaks | None:
    """The peaks of a GPU by the name that recordings state; None when it is not in the table."""
    if not device_name:
        return None
    return next((peaks for pattern, peaks in known_gpus() if pattern.search(device_name)), None)
