"""Links GPU operations to the calls that launched them, by their correlation numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from parsers.chrome.build.quarantine import Table
from parsers.model import GPU_WORK, Attribute, EventKind
from parsers.model.builder import TraceBuilder
from parsers.model.names.calls import WORK_CALLS, Call, call_of
from parsers.model.names.per_name import judged

I64 = npt.NDArray[np.int64]
_NOTHING = np.empty(0, np.int64)


def link_launches(builder: TraceBuilder, table: Table) -> tuple[I64, I64]:
    """State the launch of every operation whose correlation a call has.

    Of several calls with one number, the one named after a launch wins, then the shortest (the innermost).
    Operations that share a graph launch get ``GRAPH_NODE`` unless the recording numbers the nodes itself.
    Returns the linked operations and their launches.
    """
    events, correlation = table.attributes.get(Attribute.CORRELATION, (_NOTHING, _NOTHING))
    name, kind, start, duration = table.name, table.kind, table.start, table.duration
    used = correlation != 0
    events, correlation = events[used], correlation[used]
    calls = kind[events] == EventKind.API
    work = np.isin(kind[events], GPU_WORK)
    if not calls.any() or not work.any():
        return _NOTHING, _NOTHING
    launch, number = events[calls], correlation[calls]
    call = judged(name[launch], builder.strings, call_of)
    order = np.lexsort((start[launch], duration[launch], ~np.isin(call, WORK_CALLS), number))
    launch, number, call = launch[order], number[order], call[order]
    first = np.concatenate(([True], number[1:] != number[:-1]))
    launch, number, call = launch[first], number[first], call[first]
    operation, wanted = events[work], correlation[work]
    place = np.minimum(np.searchsorted(number, wanted), len(number) - 1)
    found = number[place] == wanted
    in_graph = operation[found][call[place[found]] == Call.GRAPH_LAUNCH]
    operation, launch = operation[found], launch[place[found]]
    builder.link(operation, launch)
    stated = builder.stated(Attribute.GRAPH_NODE)
    builder.attribute(Attribute.GRAPH_NODE, in_graph[~np.isin(in_graph, stated)], 1)
    return operation, launch
