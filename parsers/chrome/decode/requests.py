"""Requests that a server answers at once: asynchronous ranges that overlap, each with its stages inside it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from parsers.chrome.decode.collect import Instant
from parsers.model.late import regex
from parsers.model.nesting import lowest_free_rows

_REQUEST = regex(
    r"(?<![a-z])(?:request|query|inference|infer|generate|generation|completion|prompt)(?![a-z])",
    re.IGNORECASE,
)


def rows_of_requests(ranges: Sequence[tuple[Instant, int]]) -> dict[int, int]:
    """The row of each of the ranges that is a request or a stage of one, by its place; none where none overlap."""
    members: dict[Any, list[int]] = defaultdict(list)
    for place, (each, _) in enumerate(ranges):
        members[each.pid, each.category, repr(each.id)].append(place)
    requests = []
    for places in members.values():
        whole, end = max((ranges[place] for place in places), key=lambda found: found[1] - found[0].start)
        inside = all(whole.start <= ranges[place][0].start and ranges[place][1] <= end for place in places)
        if (
            len(places) > 1
            and inside
            and (_REQUEST.search(whole.name) or _REQUEST.search(whole.category or ""))
        ):
            requests.append((whole.start, end, places))
    requests.sort()
    ends = accumulate((end for _, end, _ in requests), max)
    if not any(
        begin < end for (end, begin) in zip(ends, (start for start, _, _ in requests[1:]), strict=False)
    ):
        return {}
    spans = np.array([(start, end) for start, end, _ in requests], np.int64)
    rows = lowest_free_rows(spans[:, 0], spans[:, 1]).tolist()
    return {place: row for (*_, places), row in zip(requests, rows, strict=True) for place in places}
