"""pyinstrument's profiles: the tree of calls that it prints, its JSON, and its pages."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import numpy as np

from parsers.files.base import Parser, Source, parser
from parsers.files.decoders import UNREADABLE, from_json
from parsers.files.texts import utf8
from parsers.files.unpacking_limit import whole_content
from parsers.model import Effect, EventKind, Lane, LaneKind, Malformed, Progress, Trace
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.stacks.timeline import MAX_DEPTH, frame_name

_LOGO = b"/_//_/// /_\\ / //_// / //_'/ //"
_PAGE = b"pyinstrumentHTMLRenderer"
_SESSION = regex(rb"(?:const sessionData|window\.profileSession) = ")  # the latter until version 4.2
_OLDER_PAGE = b"window.profileSession = {"
_JSON = regex(rb'\s*\{\s*"start_time":[^{]{1,400}"sample_count":')
_ROW = regex(
    r"(?P<tree>[ │├└─|`-]*)(?P<seconds>\d{1,9}\.\d{1,9}) (?P<name>\S.*?)(?:  (?P<file>\S.*?)(?::(?P<line>\d{1,9}))?)?$"
)
_HIDDEN = regex(r"[ │├└─|`-]*\[\d+ frames? hidden\](?P<packages>.*)")
_OWN = "[self]"  # what a function takes itself, as if it called that
_MAX_BYTES = 64 << 20
_AGAIN = "Write it again: pyinstrument -r json -o profile.json train.py."
_Row = tuple[int, float, str]  # how deep, seconds, name


class _Frame(msgspec.Struct):
    time: float
    function: str = ""
    file_path: str | None = None
    line_no: int | None = None
    identifier: str = ""  # function, file and line, with zeros between them
    children: list[_Frame] = []

    @property
    def name(self) -> str:
        if self.function:
            return _named(self.function, self.file_path or "", self.line_no or 0)
        function, file, line = [*self.identifier.split("\0"), "", ""][:3]
        return _named(function, file, int(line) if line.isdecimal() else 0)


class _Session(msgspec.Struct):
    root_frame: _Frame | None = None
    frame_tree: _Frame | None = None


@parser
class Pyinstrument(Parser):
    """Recognised by its name in letters of strokes, by the first keys of its JSON, or by the script of its pages."""

    format = "pyinstrument"
    title = "CPU profilers"
    files = "pyinstrument's text, JSON and pages"
    suffixes = (".txt", ".json", ".html")
    priority = 46

    def recognises(self, source: Source) -> bool:
        if any(_LOGO in each and b"Duration:" in each for each in source.printed):
            return True
        head = utf8(source.head)
        if _PAGE in head or _OLDER_PAGE in head:
            return True
        return _JSON.match(head) is not None and b'"root_frame"' in head

    def read(self, source: Source, progress: Progress) -> Trace:
        hint = "Record fewer calls."
        data = utf8(whole_content(source, progress.part(0.0, 0.5), "reading calls", hint, _MAX_BYTES))
        try:
            rows = list(_printed(data) if _LOGO in data and _PAGE not in data else _stated(data))
        except UNREADABLE as error:
            raise Malformed(source.path, f"These calls cannot be read ({error}).", _AGAIN) from error
        if not rows:
            raise Malformed(source.path, "This profile holds no calls with their seconds.", _AGAIN)
        builder = TraceBuilder()
        builder.came_from(source.name, self.format, "pyinstrument")
        builder.quality.note(
            "order",
            Effect.NOTED,
            "a profile adds up the calls of a function: they are drawn one after another",
        )
        _add(builder, rows)
        return builder.build(progress.part(0.5, 1.0))


def _stated(data: bytes) -> Iterator[_Row]:
    """The calls of JSON, or of the JSON inside a page, callers first."""
    if begins := [*_SESSION.finditer(data)]:
        begin = begins[-1].end()
        end = data.rfind(_PAGE) if _PAGE in data else data.find(b"</script>", begin)
        data = data[begin:end].rstrip().rstrip(b";")
    session = from_json(data, _Session)
    left = [(0, each) for each in (session.root_frame, session.frame_tree) if each is not None]
    while left:
        depth, frame = left.pop()
        if (frame.function or frame.identifier.partition("\0")[0]) != _OWN and depth < MAX_DEPTH:
            yield depth, frame.time, frame.name
            left += [(depth + 1, each) for each in reversed(frame.children)]


def _printed(data: bytes) -> Iterator[_Row]:
    """The calls of the first printed tree, by how far they are indented.

    Their paths are shortened: what is said to be hidden tells the packages.
    """
    _, _, text = data.decode("utf-8", "replace").partition(_LOGO.decode())
    rows: list[tuple[int, re.Match[str]]] = []
    packages: set[str] = set()
    edges: list[int] = []  # where the numbers of the callers begin
    for line in text.splitlines():
        if hidden := _HIDDEN.match(line):
            packages |= {each.strip(". ") for each in hidden["packages"].split(",")}
            packages |= {_package(rows[-1][1]["file"] or "")} if rows else set()
            continue
        found = _ROW.match(line.rstrip())
        if found is None:
            if rows and line.strip():
                break
            continue
        at = len(found["tree"])
        while edges and edges[-1] >= at:
            edges.pop()
        rows.append((len(edges), found))
        edges.append(at)
    packages.discard("")
    for depth, row in rows:
        file = row["file"] or ""
        if row["name"] != _OWN and depth < MAX_DEPTH:
            inside = f"lib/site-packages/{file}" if _package(file) in packages else file
            yield depth, float(row["seconds"]), _named(row["name"], inside, int(row["line"] or 0))


def _package(file: str) -> str:
    """The outermost folder of a shortened path, or the module itself."""
    return "" if file.startswith("<") else re.split(r"[/\\]", file)[0].removesuffix(".py")


def _named(function: str, file: str, line: int) -> str:
    return frame_name(function, "" if file.startswith("<") else file, line)


def _add(builder: TraceBuilder, rows: list[_Row]) -> None:
    """Add the calls to one lane, each in its caller behind those that the caller made before."""
    starts, ends, names = [], [], []
    free = [0]  # where the next call of each depth begins
    limits = [0]  # where the caller of each depth ends
    for depth, seconds, name in rows:
        del free[depth + 1 :], limits[depth + 1 :]
        start = free[depth]
        end = start + max(round(seconds * 1e9), 0)
        end = min(end, limits[depth]) if depth else end
        free[depth] = end
        free.append(start)
        limits.append(end)
        starts.append(start)
        ends.append(end)
        names.append(builder.string(name))
    builder.quality.read(len(rows))
    lane = builder.lane(Lane(LaneKind.SAMPLED_STACKS, "main thread"))
    columns = np.array(starts, np.int64), np.array(ends, np.int64), np.array(names, np.int32)
    builder.add(*columns, lane, EventKind.SAMPLED_FRAME)
