"""What the fields of dcgm-exporter and the columns of amd-smi and rocm-smi mean."""

from __future__ import annotations

from parsers.csv_tables import plain
from parsers.model.late import regex
from parsers.smi.columns import Quantity, quantities

_FIELD = regex(r"DCGM_FI_(?:DEV|PROF)_(\w+)$")


def dcgm_field(name: str) -> Quantity:
    """A field of dcgm-exporter; an unknown one keeps its name without a unit."""
    found = _FIELD.match(name)
    if found is None:
        return Quantity(name, "")
    return quantities("dcgm-exporter").get(found[1], Quantity(found[1].lower().replace("_", " "), ""))


def amd_column(title: str) -> Quantity | None:
    """A column of amd-smi or rocm-smi; None for one that is not known."""
    return quantities("amd").get(plain(title))
