"""Collapsed stacks as text, a line for each distinct one, and as the SVG that flame graphs are drawn in."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape

from parsers.files.base import HEAD_BYTES, Parser, Source, parser
from parsers.files.unpacking_limit import whole_content
from parsers.model import Malformed, Progress, Trace
from parsers.model.late import regex
from parsers.stacks.collapsed import STACK_LINE, trace_of_stacks
from parsers.stacks.timeline import MAX_DEPTH

_MAX_BYTES = 128 << 20
_BEGINS = regex(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]{0,200}>\s*)?(?:<!DOCTYPE svg[^>]{0,300}>\s*)?<svg[\s>]")
_SAYS = (b"Flame graph stack visualization", b"flamegraph", b"FlameGraph")  # in the comment behind the <svg>
# one frame, as wide as its samples
_BOX = regex(r"<title>(?P<title>[^<]{1,4000})</title>\s*<rect\s+(?P<places>[^>]{1,1000})")
_TITLE = regex(r"(?P<name>.+) \((?P<samples>\d[\d,]{0,20})(?: [^,()]{1,60})?, \d{1,3}(?:\.\d{1,9})?%.*\)")
_PLACE = regex(r'(?<![\w:-])(?P<key>fg:x|fg:w|x|y|width)="(?P<value>-?\d{1,12}(?:\.\d{1,12})?)%?"')
_ALL = "all"  # the frame below all others
_WRITE_RAW = "Write the stacks themselves: py-spy record -f raw, or perf script."
_Box = tuple[float, int, str, int]  # where it begins, its depth, its name, its samples


@parser
class FlameGraph(Parser):
    """Recognised by the comment that every flame graph begins with."""

    format = "flame-graph"
    title = "CPU profilers"
    files = "flame graphs as SVG (py-spy record, perf)"
    suffixes = (".svg",)
    priority = 64
    version = 6

    def recognises(self, source: Source) -> bool:
        return _BEGINS.match(source.head) is not None and any(each in source.head for each in _SAYS)

    def read(self, source: Source, progress: Progress) -> Trace:
        data = whole_content(source, progress.part(0.0, 0.3), "reading samples", _WRITE_RAW, _MAX_BYTES)
        boxes = _boxes(data.decode("utf-8", "replace"))
        if not boxes:
            raise Malformed(
                source.path, "This flame graph has no frames that state their samples.", _WRITE_RAW
            )
        data = "\n".join(_stacks(boxes)).encode()
        return trace_of_stacks(source, (self.format, "flame graph"), data, progress.part(0.3, 1.0))


def _boxes(text: str) -> list[_Box]:
    """All frames from left to right, callers before what they call; those of the lowest row have depth 0."""
    found: list[tuple[float, float, str, int]] = []
    for box in _BOX.finditer(text):
        title = _TITLE.fullmatch(unescape(box["title"]).strip())
        places = {each["key"]: float(each["value"]) for each in _PLACE.finditer(box["places"])}
        left = places.get("fg:x", places.get("x"))  # in samples where they are stated, else in pixels
        if title is None or left is None or "y" not in places:
            continue
        found.append((left, places["y"], title["name"], int(title["samples"].replace(",", ""))))
    if not found:
        return []
    rows = sorted({row for _, row, _, _ in found})

    def held(row: float) -> tuple[int, bool]:
        names, samples = zip(*((each[2], each[3]) for each in found if each[1] == row), strict=True)
        return sum(samples), _ALL in names

    if held(rows[-1]) >= held(rows[0]):  # graphs grow upwards, or hang down as icicles
        rows.reverse()
    depth = {row: number for number, row in enumerate(rows[:MAX_DEPTH])}
    return sorted((left, depth[row], name, samples) for left, row, name, samples in found if row in depth)


def _stacks(boxes: list[_Box]) -> Iterator[str]:
    """A line for each frame that has samples of its own, which is not covered by what it calls."""
    path: list[tuple[str, int]] = []  # names, and the samples that nothing called has
    for _, depth, name, samples in [*boxes, (0.0, 0, "", 0)]:
        while len(path) > depth:
            names = [each for each, _ in path if each != _ALL]
            _, own = path.pop()
            if names and own > 0:
                yield f"{';'.join(names)} {own}"
        if depth > len(path):
            continue  # its caller is missing
        if path:
            path[-1] = (path[-1][0], path[-1][1] - samples)
        path.append((name.replace(";", ",").replace("\n", " ").strip() or "?", samples))


_LOOKED_AT = 50  # lines
_MIN_NESTED = 0.5  # of these lines: others are words and numbers


@parser
class CollapsedStacks(Parser):
    """Recognised by its first lines, all of which are stacks with a count, most of several frames."""

    format = "collapsed-stacks"
    title = "CPU profilers"
    files = "collapsed stacks (py-spy record -f raw, python -m profiling.sampling --collapsed, PyTorch's export_stacks)"
    suffixes = (".txt", ".folded", ".collapsed", ".raw")
    priority = 70
    version = 9

    def recognises(self, source: Source) -> bool:
        lines = source.head.split(b"\n", _LOOKED_AT)[:_LOOKED_AT]
        if len(source.head) == HEAD_BYTES or len(lines) == _LOOKED_AT:
            lines = lines[:-1]
        lines = [line for line in lines if line.strip() and not line.strip().isdigit()]  # an empty stack
        nested = sum(b";" in line for line in lines)
        return bool(lines) and nested >= _MIN_NESTED * len(lines) and all(map(STACK_LINE.fullmatch, lines))

    def read(self, source: Source, progress: Progress) -> Trace:
        hint = "Record fewer samples."
        data = whole_content(source, progress.part(0.0, 0.3), "reading samples", hint, _MAX_BYTES)
        return trace_of_stacks(source, (self.format, "collapsed stacks"), data, progress.part(0.3, 1.0))
