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
    """The same for narrow places: "rank 2" where that rank works on no other GPU."""
    rank = trace.devices[device].rank
    others = (index for index, each in enumerate(trace.devices) if each.rank == rank and index != device)
    if rank is None or any(len(trace.operations_of_device(index)) for index in others):
        return device_name(trace, device)
    return f"rank {rank}"
