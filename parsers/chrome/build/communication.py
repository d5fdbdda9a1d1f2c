"""Completes collectives: their kind from the kernel's name, their size from the call that issued them."""

from __future__ import annotations

import numpy as np

from parsers.chrome.build.quarantine import Table
from parsers.chrome.decode.collect import Columns
from parsers.chrome.decode.messages import tensor_bytes
from parsers.model import I32, I64, U8, Attribute, EventKind
from parsers.model.arrays import among, distinct_values, numbered_values, place_in, rows_by
from parsers.model.builder import TraceBuilder
from parsers.model.events import of_kinds
from parsers.model.names.collectives import collective_of, is_collective_kernel
from parsers.model.names.per_name import judged

_INHERITED = (
    Attribute.COLLECTIVE, Attribute.MESSAGE_BYTES, Attribute.MESSAGE_DTYPE, Attribute.GROUP,
    Attribute.GROUP_SIZE, Attribute.COLLECTIVE_SEQUENCE,
)  # fmt: skip


def complete_collectives(
    columns: Columns, builder: TraceBuilder, operation: I64, launch: I64, table: Table
) -> None:
    """Give collective kernels without arguments those of the range around their launch, then their name's kind.

    ``operation`` and ``launch`` are the linked pairs.
    """
    name, kind, start = table.name, table.kind, table.start
    kernels = np.flatnonzero(of_kinds(kind, EventKind.KERNEL))
    kernels = kernels[judged(name[kernels], builder.strings, is_collective_kernel) > 0]
    if not len(kernels):
        return
    wanting = _not_stating(kernels, Attribute.MESSAGE_BYTES, builder, table)
    if len(operation) and len(wanting):
        place = place_in(operation, wanting)
        linked = place >= 0
        wanting, launches = wanting[linked], launch[place[linked]]
        threads = _threads(columns)[table.track]
        _from_nccl_ranges(builder, name, kind)
        issuers = distinct_values(builder.stated(Attribute.MESSAGE_BYTES))
        issuers = issuers[of_kinds(kind[issuers], EventKind.CPU_OP, EventKind.REGION)]
        around = _innermost(launches, issuers, threads, start, start + table.duration)
        for which in _INHERITED:
            events, values = builder.statements(which)
            at = place_in(events, around)
            builder.attribute(which, wanting[at >= 0], values[at[at >= 0]])
    unnamed = _not_stating(kernels, Attribute.COLLECTIVE, builder, table)
    distinct, place_of = numbered_values(name[unnamed])
    texts = [collective_of(builder.strings[each]) for each in distinct.tolist()]
    values = np.array([builder.string(text) if text else -1 for text in texts], np.int64)[place_of]
    builder.attribute(Attribute.COLLECTIVE, unnamed[values >= 0], values[values >= 0])


def _not_stating(events: I64, which: Attribute, builder: TraceBuilder, table: Table) -> I64:
    stating = np.zeros(len(table.start), bool)
    stating[builder.stated(which)] = True
    return events[~stating[events]]


def _threads(columns: Columns) -> I64:
    numbers: dict[object, int] = {}
    return np.array(
        [numbers.setdefault((first, second), len(numbers)) for _, _, first, second in columns.tracks],
        np.int64,
    )


def _from_nccl_ranges(builder: TraceBuilder, name: I32, kind: U8) -> None:
    """Ranges such as "nccl:all_reduce" state their tensors' shapes where no operator states a message size."""
    ours = np.fromiter((text.startswith("nccl:") for text in builder.strings), bool, len(builder.strings))
    ranges = np.flatnonzero(of_kinds(kind, EventKind.REGION) & ours[name])
    if not len(ranges):
        return
    dims, types = (
        dict(zip(*(side[among(events, ranges)].tolist() for side in (events, values)), strict=True))
        for events, values in map(builder.statements, (Attribute.INPUT_DIMS, Attribute.INPUT_TYPES))
    )
    for number in ranges.tolist():
        if number in dims and number in types:
            size = tensor_bytes(builder.strings[dims[number]], builder.strings[types[number]])
            if size is not None:
                builder.attribute(Attribute.MESSAGE_BYTES, np.array([number], np.int64), size)


def _innermost(inner: I64, outer: I64, threads: I64, start: I64, end: I64) -> I64:
    """For each event of ``inner`` the latest-starting event of ``outer`` around it on its thread; -1: none."""
    found = np.full(len(inner), -1, np.int64)
    of_thread = dict(rows_by(threads[outer]))
    for thread, mine in rows_by(threads[inner]):
        if thread not in of_thread:
            continue
        around = outer[of_thread[thread]]
        around = around[np.argsort(start[around], kind="stable")]
        at = np.searchsorted(start[around], start[inner[mine]], side="right") - 1
        for back in range(4):  # ranges of one collective nest two or three deep
            candidate = around[np.maximum(at - back, 0)]
            fits = (at - back >= 0) & (end[candidate] >= start[inner[mine]]) & (found[mine] < 0)
            found[mine[fits]] = candidate[fits]
    return found
