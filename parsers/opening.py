"""Recognises each file by its content, reads it, and joins several into one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath

from parsers.files.base import (
    Parser,
    Source,
    is_excerpt,
    is_in_parts,
    is_reopenable,
    parser_of,
    reopenable_parser,
)
from parsers.files.containers import Contents, contents, holding
from parsers.model.errors import Excessive, Malformed, TraceError, UnknownFormat
from parsers.model.progress import Progress
from parsers.model.quality import Effect, Quality, QualityRecorder
from parsers.model.trace import Trace
from parsers.storage import cache
from parsers.storage.file_arguments import with_origin

MAX_RECORDINGS = 1_024


def open_run(paths: Sequence[Path], progress: Progress | None, keep: bool) -> Trace:
    """What ``parsers.open_trace`` promises."""
    progress = progress or Progress()
    found = [contents(Path(path), progress.part(0.0, 0.1)) for path in paths]
    recordings = recordings_of(found)
    total = len(recordings)
    if total > MAX_RECORDINGS:
        raise TraceError(
            Path(paths[0]),
            f"These are {total:,} recordings; at most {MAX_RECORDINGS:,} can be read in full as one run.",
            "Open the folder that holds them: runs of many ranks are analysed from summaries.",
        )
    traces: list[Trace] = []
    skipped = [each for content in found for each in content.skipped]
    for number, (content, parser, sources) in enumerate(recordings):
        part = progress.part(0.1 + 0.8 * number / total, 0.1 + 0.8 * (number + 1) / total)
        try:
            trace = _read(parser, sources, part, lasting=content.folder is None)
            if keep or total > 1:
                cache.store(trace)
            traces.append(holding(trace, content.folder))
        except TraceError as error:
            if not content.is_container:
                raise
            skipped += [(source.name, error.problem) for source in sources]
    if not traces:
        raise _nothing_usable(Path(paths[0]) if paths else Path(), skipped)
    return _with_skipped(traces[0] if len(traces) == 1 else _merged(traces), skipped)


def _merged(traces: Sequence[Trace]) -> Trace:
    from parsers.ranks.merge import merge

    return merge(traces)


def recordings_of(found: Sequence[Contents]) -> list[tuple[Contents, Parser | None, list[Source]]]:
    """Who reads each recording, and its sources: those of one that lies in several files are together."""
    recordings: list[tuple[Contents, Parser | None, list[Source]]] = []
    begun: dict[tuple[str, str], list[Source]] = {}
    for content in found:
        for source in content.sources:
            parser = parser_of(source)
            if parser is not None and is_in_parts(parser):
                key = (parser.format, parser.recording_of(source))
                if key in begun:
                    begun[key].append(source)
                    continue
                begun[key] = [source]
                recordings.append((content, parser, begun[key]))
            else:
                recordings.append((content, parser, [source]))
    return _without_excerpts(recordings)


def _without_excerpts(
    recordings: list[tuple[Contents, Parser | None, list[Source]]],
) -> list[tuple[Contents, Parser | None, list[Source]]]:
    """Leave out, and name as skipped, tables whose operations a recording in the same folder holds as well."""
    formats: dict[str, set[str]] = {}
    for _, parser, sources in recordings:
        formats.setdefault(_folder_of(sources[0]), set()).add(parser.format if parser is not None else "")
    kept = []
    for content, parser, sources in recordings:
        beside = formats[_folder_of(sources[0])]
        if parser is not None and is_excerpt(parser) and parser.excerpt_of & beside:
            content.skipped.append((sources[0].name, "another recording holds its operations as well"))
        else:
            kept.append((content, parser, sources))
    return kept


def _folder_of(source: Source) -> str:
    return str(PurePath(source.shown or source.path).parent)


def read_one(sources: Sequence[Source], progress: Progress, format: str = "") -> Trace:
    """Read one recording, which lies in these files, and leave the cache alone; raises ``TraceError``.

    Where it is known what ``format`` they were recognised as, nobody looks again.
    """
    return _read(reopenable_parser(format) or parser_of(sources[0]), sources, progress, lasting=False)


def _read(parser: Parser | None, sources: Sequence[Source], progress: Progress, lasting: bool) -> Trace:
    try:
        return _read_by_its_parser(parser, sources, progress, lasting)
    except Excessive as error:
        raise error.about(sources[0].path) from error


def _read_by_its_parser(
    parser: Parser | None, sources: Sequence[Source], progress: Progress, lasting: bool
) -> Trace:
    """Read one recording; ``lasting`` says that its path is the user's own file, which may be in the cache."""
    source = sources[0]
    if parser is None:
        from parsers.known_formats import what_is_read

        raise UnknownFormat(source.path, "This is not a recording that Stallscope knows.", what_is_read())
    if len(sources) > 1 and is_in_parts(parser):
        return _with_something(parser.read_parts(sources, progress), source)
    if lasting and is_reopenable(parser):
        argument_source = partial(parser.argument_source, source)
        if (known := cache.load(source.path, parser, argument_source, progress)) is not None:
            state = known.inputs[0].state
            return with_origin(_called(known, source, state), parser, source, state)
    state = cache.state_of(source.path)
    trace = _with_something(parser.read(source, progress), source)
    return with_origin(_called(trace, source, state if lasting else None), parser, source, state)


def _called(trace: Trace, source: Source, state: tuple[int, int] | None) -> Trace:
    """The trace, which says what its file is called, and where it lies and how it was if it stays there."""
    path, file = source.shown or str(source.path), "" if state is None else str(source.path)
    return replace(
        trace, inputs=tuple(replace(each, path=path, file=file, state=state) for each in trace.inputs)
    )


def _with_something(trace: Trace, source: Source) -> Trace:
    """The trace, unless there is nothing in it to show: then ``Malformed``, because silence would look like health."""
    if len(trace.events) or trace.counters or trace.kernels or trace.tables or trace.memory:
        return trace
    lost = trace.quality.quarantined
    if any(note.kind.startswith(("cut", "damaged")) for note in trace.quality.notes):
        raise Malformed(
            source.path,
            "The file is cut off or damaged, and there is no event in what is left of it.",
            "Copy it again, or record again and let the profiler finish writing.",
        )
    raise Malformed(
        source.path,
        f"There is no event in this recording{f', apart from {lost:,} that cannot be used' if lost else ''}.",
        "Record again and check what the profiler prints: it may have had nothing to record.",
    )


def _nothing_usable(path: Path, skipped: list[tuple[str, str]]) -> TraceError:
    name, problem = skipped[0] if skipped else ("", "there is no file")
    return Malformed(
        path,
        f"Nothing here is a recording ({name}: {problem.rstrip('.')}).",
        "Open the recordings themselves.",
    )


def _with_skipped(trace: Trace, skipped: list[tuple[str, str]]) -> Trace:
    """The trace, whose quality record names the files that were not read."""
    if not skipped:
        return trace
    recorder = QualityRecorder()
    for name, problem in skipped:
        recorder.note(
            "file-not-read", Effect.NOTED, "files beside the recordings were not read", f"{name}: {problem}"
        )
    return replace(trace, quality=Quality.merged([trace.quality, recorder.quality()]))
