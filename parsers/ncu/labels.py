"""Which metric a label on the details page stands for; labels repeat, so the section belongs to the key."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeGuard

import resources
from parsers.model.late import regex

MAX_LABEL_LENGTH = 300
_METRIC_NAME = regex(r"\w+__[\w.]+\w")


@cache
def _table() -> Mapping[str, Any]:
    with resources.path("nsight_compute.toml").open("rb") as file:
        return tomllib.load(file)


def identifier_of(section: str) -> str:
    """The identifier of a section by its display name; what is none stays."""
    return str(_table()["sections"].get(section, section))


@cache
def _unambiguous() -> dict[str, str]:
    seen: dict[str, set[str]] = {}
    for labels in _table()["labels"].values():
        for label, metric in labels.items():
            seen.setdefault(label.lower(), set()).add(metric)
    return {label: metrics.pop() for label, metrics in seen.items() if len(metrics) == 1}


@cache
def _by_section() -> dict[str, dict[str, str]]:
    return {
        section: {label.lower(): metric for label, metric in labels.items()}
        for section, labels in _table()["labels"].items()
    }


@cache
def sections_of_metrics() -> dict[str, tuple[str, str]]:
    """For each metric that the details page shows: the identifier of its first section, and its label there."""
    found: dict[str, tuple[str, str]] = {}
    for section, labels in _table()["labels"].items():
        for label, metric in labels.items():
            found.setdefault(metric, (section, label))
    return found


def metric_of_label(section: str, label: str) -> str:
    """The metric's own name for a label in a section (display name or identifier).

    Labels that are metric names stay; unknown ones become "Section: label", so that nothing is lost.
    """
    if "__" in label or label.startswith(("breakdown:", "group:")):
        named = _METRIC_NAME.findall(label) if " " in label and len(label) < MAX_LABEL_LENGTH else []
        return named[-1] if named else label
    metric = _by_section().get(identifier_of(section), _unambiguous()).get(label.lower())
    if metric is not None:
        return metric
    return label if "_" in label and " " not in label else f"{section}: {label}"


def _is_count(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and 0 < value < math.inf


def derived_metrics(metrics: dict[str, int | float | str]) -> dict[str, float]:
    """What a page with labels leaves out but states in another form: warps per scheduler from warps per SM."""
    found: dict[str, float] = {}
    theoretical = metrics.get("sm__maximum_warps_avg_per_active_cycle")
    percent = metrics.get("sm__maximum_warps_per_active_cycle_pct")
    schedulers = 4.0
    if _is_count(theoretical):
        found["smsp__maximum_warps_avg_per_active_cycle"] = math.ceil(theoretical / schedulers)
        if _is_count(percent) and _is_count(warps := theoretical / schedulers / percent * 100):
            found["smsp__warps_active.avg.peak_sustained"] = round(warps)
    sms = metrics.get("launch__sm_count")
    if isinstance(sms, (int, float)):
        found["device__attribute_multiprocessor_count"] = sms
    return {name: value for name, value in found.items() if name not in metrics}
