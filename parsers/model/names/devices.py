"""What a GPU is called in sentences, tables and reports: by its number, and by its rank where there are several."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from parsers.model.trace import Trace


def device_name(trace: Trace, device: int) -> str:
    """ "GPU 0", or "rank 2, GPU 0" in a run of ranks; ``device`` is an index into ``Trace.devices``."""
    found = trace.devices[device]
    return f"rank {found.rank}, GPU {found.id}" if found.rank is not None else f"GPU {found.id}"


def short_device_name(trace: Trace, device: int) -> str:
    """The same for narrow places: "rank 2" where that rank has one GPU only."""
    rank = trace.devices[device].rank
    alone = rank is not None and sum(each.rank == rank for each in trace.devices) == 1
    return f"rank {rank}" if alone else device_name(trace, device)
