"""The table of collectives, matched across ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from rules.analysis.analysis import Analysis
from rules.analysis.ranks.collectives import bus_factor, whole_message
from rules.analysis.ranks.waiting import ranks_of
from viewer.tables.columns import EVENT, ON_GPU, TIMES, columns, known, names_of, on_gpu
from viewer.tables.table import Column, RowTable, row_table


@row_table
class Collectives(RowTable):
    """Each participant is a row; ``instance`` joins those of one collective."""

    name: ClassVar[str] = "collectives"
    about: ClassVar[str] = "one collective kernel on one rank"
    columns: ClassVar[tuple[Column, ...]] = (
        EVENT,
        Column("name", "name of the kernel"),
        Column("collective", "allreduce, allgather ...; empty where nothing tells"),
        Column("process_group", "process group, where recorded"),
        Column("instance", "the same number on every rank that took part"),
        Column("message_bytes", "what one rank contributes"),
        Column("ranks", "ranks of its group"),
        *TIMES,
        Column("transfer_ns", "its shortest participant: about the transfer itself"),
        Column("waiting_ns", "before the transfer could start: waiting for others"),
        Column("algorithm_bytes_per_s", "bytes of the message a second of transfer"),
        Column("bus_bytes_per_s", "what each link carried a second of transfer"),
        *ON_GPU,
    )

    def rows(self, analysis: Analysis) -> Mapping[str, Any]:
        trace, ranks = analysis.trace, ranks_of(analysis)
        found = ranks.columns
        instance = np.full(len(found.event), -1, np.int64)
        transfer = found.end - found.start
        where, column = np.nonzero(ranks.present)
        row = ranks.row[where, column]
        instance[row], transfer[row] = where, ranks.transfer[where]
        met = np.bincount(instance[instance >= 0], minlength=len(ranks.row))
        size = np.where(found.group_size > 0, found.group_size, met[instance] if len(met) else 1)
        sizes = found.bytes.astype(np.float64)
        kinds = list(zip(found.collective, size.tolist(), strict=True))
        distinct = {key: (whole_message(key[0], 1.0, key[1]), bus_factor(*key)) for key in set(kinds)}
        whole = np.array([distinct[key][0] for key in kinds])
        factor = np.array([distinct[key][1] for key in kinds])
        speed = np.where(transfer > 0, sizes * whole / np.maximum(transfer, 1) * 1e9, 0.0)
        return columns(
            {
                "event": found.event,
                "name": names_of(trace, found.event),
                "collective": np.array(found.collective, object),
                "process_group": np.array(found.group, object),
                "instance": known(instance),
                "message_bytes": found.bytes,
                "ranks": size,
                "start_ns": found.start,
                "end_ns": found.end,
                "transfer_ns": transfer,
                "waiting_ns": np.maximum(found.end - found.start - transfer, 0),
                "algorithm_bytes_per_s": speed,
                "bus_bytes_per_s": speed * factor,
            },
            on_gpu(trace, found.event),
        )
