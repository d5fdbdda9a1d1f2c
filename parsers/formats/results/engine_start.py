"""What a log of vLLM says of its start, which may take minutes, and of what ended it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from parsers.model.late import regex
from parsers.model.results import ResultColumn, ResultTable, titled
from parsers.model.units import NS_PER_S, duration, percent

_SECONDS = r"(\d{1,7}(?:\.\d{1,9})?) ?s(?:ec(?:ond)?s)?\b"
_MODEL = regex(rf"Model loading took [^\n]{{1,40}}? and {_SECONDS}")
_READY = regex(rf"init engine \([^\n)]{{1,80}}\) took {_SECONDS}")
_OF_MODEL = {
    "downloading weights": regex(rf"Time spent downloading weights for [^\n:]{{1,200}}: {_SECONDS}"),
    "reading weights": regex(rf"Loading weights took {_SECONDS}"),
}
_OF_ENGINE = {
    "compiling (torch.compile)": regex(rf"torch\.compile (?:takes|took) {_SECONDS} in total"),
    "capturing CUDA graphs": regex(rf"Graph capturing finished in {_SECONDS}"),
}
_CACHE = regex(r"GPU KV cache size: ([\d,]{1,15}) tokens")
_AT_ONCE = regex(r"Maximum concurrency for ([\d,]{1,12}) tokens per request: (\d{1,9}(?:\.\d{1,4})?)x")
_FAILED = regex(
    r"ERROR [^\n]{1,80}?(?P<start>EngineCore failed to start)"
    r"|ERROR [^\n]{1,80}?(?:EngineCore encountered a fatal error|WorkerProc hit an exception)"
)
_ERROR = regex(
    r"(?:\] |^)((?:[A-Za-z_]\w{0,60}\.){0,5}\w{0,60}(?:Error|Exception): [^\n]{1,1000})", re.MULTILINE
)
_MAX_TOLD = 160  # characters of an error in a title
_COLUMNS = titled("part", "time (s)", "share (%)")


def tells_of_start(text: str) -> bool:
    """Whether a log says how long an engine took to start, or why it did not."""
    ready = _MODEL.search(text) is not None and _READY.search(text) is not None
    failed = _FAILED.search(text)
    return ready or (
        failed is not None and bool(failed["start"]) and _ERROR.search(text, failed.end()) is not None
    )


def failures(text: str) -> Iterator[ResultTable]:
    """The first error that ended the engine, by the exception that is printed for it."""
    failed = _FAILED.search(text)
    error = _ERROR.search(text, failed.end()) if failed is not None else None
    if failed is not None and error is not None:
        told = error[1].strip()
        what = "vLLM did not start" if failed["start"] else "vLLM failed"
        short = told if len(told) <= _MAX_TOLD else f"{told[:_MAX_TOLD].rpartition(' ')[0]}…"
        yield ResultTable(f"{what}: {short}", (ResultColumn("error"),), ((told,),))


def starts(text: str) -> Iterator[ResultTable]:
    """What the first start took by its parts; of several ranks, the slowest one counts."""
    ready = _READY.search(text)
    until = ready.end() if ready is not None else len(text)

    def longest(sort: str) -> float:
        found = {**_OF_MODEL, **_OF_ENGINE}.get(sort, _MODEL)
        return max((float(each[1]) for each in found.finditer(text, 0, until)), default=0.0)

    model, engine = longest(""), float(ready[1]) if ready is not None else 0.0
    if not model or not engine:
        return
    parts = {sort: longest(sort) for sort in (*_OF_MODEL, *_OF_ENGINE)}
    parts["the rest of loading the model"] = model - sum(parts[sort] for sort in _OF_MODEL)
    parts["profiling memory, warming up and the rest"] = engine - sum(parts[sort] for sort in _OF_ENGINE)
    whole = model + engine
    rows = sorted(
        ((sort, took, took / whole * 100.0) for sort, took in parts.items() if took > 0),
        key=lambda row: -row[1],
    )
    if not rows:
        return
    first, took, _ = rows[0]
    title = f"Start of vLLM: {duration(whole * NS_PER_S)}, {percent(took / whole)} of it {first}"
    cache, at_once = _CACHE.search(text), _AT_ONCE.search(text)
    holds = [f"{cache[1]} tokens"] if cache is not None else []
    holds += [f"{at_once[2]} requests of {at_once[1]}"] if at_once is not None else []
    if holds:
        title += f"; its KV cache holds {', or '.join(holds)}"
    yield ResultTable(title, _COLUMNS, tuple(rows))
