"""Nsight Compute: its binary report (.ncu-rep), read directly, and what it prints, as CSV or as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from parsers.files.base import Accompanying, Source, parser
from parsers.files.source import open_bytes
from parsers.files.unpacking_limit import UnpackingLimit
from parsers.model import Effect, Malformed, Progress, QualityRecorder, Trace, TraceError, TraceInput
from parsers.model.builder import TraceBuilder
from parsers.model.late import regex
from parsers.ncu.blocks import MAGIC, UNPACKING_ERRORS
from parsers.ncu.sections import has_heading
from parsers.ncu.source_page import is_source_page, profiles_of_source
from parsers.ncu.tables import Printed, encoding_of, find_tables, header_of, text_lines

if TYPE_CHECKING:
    from parsers.ncu.pages import Page

MAX_SHOWN_MESSAGES = 3
_TEXT_TO_ZEROS = 100  # what holds more zeros than one in so many characters is no text
_TOOL_LINE = regex(r"^\ufeff?==(PROF|ERROR|WARNING)== ", re.MULTILINE)
_OTHER_PAGE = regex(r'^"?(Kernel Name"?,|(Session|Launch|Device) Attribute)|^[ \t]*Section: ', re.MULTILINE)
_SPEED_OF_LIGHT = regex(r"^[ \t]*Section: GPU Speed Of Light", re.MULTILINE)
_HOW_TO_EXPORT = "Export it with: ncu --import REPORT.ncu-rep --csv --page raw, or open the .ncu-rep itself."


@parser
class NsightComputeCsv(Accompanying):
    """Recognised by its header row or by the tool's own ==PROF== lines."""

    format = "ncu-csv"
    title = "Nsight Compute"
    files = "pages as CSV or as printed text"
    suffixes = (".csv", ".txt", ".log")
    priority = 60
    version = 3

    def recognises(self, source: Source) -> bool:
        try:
            head = source.head.decode(encoding_of(source.head), errors="replace")
        except (UnicodeError, LookupError):
            return False
        if head.count("\0") * _TEXT_TO_ZEROS > len(head):
            return False
        return bool(
            ("== " in head and _TOOL_LINE.search(head))
            or ("Kernel Name" in head and any(header_of(line.lstrip("\ufeff")) for line in head.splitlines()))
            or ("Nsight Compute" in head and _OTHER_PAGE.search(head))
            or re.match(r'\ufeff?"Kernel Name","', head)
            or is_source_page(head)
            or ("Section: " in head and _SPEED_OF_LIGHT.search(head))
            or has_heading(head)
        )

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.ncu.pages import Page, profiles_of

        builder = TraceBuilder()
        try:
            with open_bytes(source) as stream:
                lines = text_lines(stream, source.head)
                if is_source_page(source.head.decode(encoding_of(source.head), errors="replace")):
                    return self._source_page(source, lines, builder, progress)
                printed = find_tables(
                    _watched(lines, source, progress, builder.quality), partial(Page, quality=builder.quality)
                )
        except (OSError, EOFError, UnicodeError) as error:
            raise Malformed(source.path, "The file cannot be read to its end.", "Copy it again.") from error
        _note_messages(printed, builder.quality)
        launches = [launch for page in printed.tables for launch in page.launches()]
        if not launches:
            raise _nothing_to_show(source.path, printed)
        builder.kernels = profiles_of(launches)
        builder.quality.read(len(builder.kernels))
        builder.quality.keep(len(builder.kernels))
        builder.inputs.append(TraceInput(str(source.path), self.format, "Nsight Compute"))
        return builder.build(progress)

    def _source_page(
        self, source: Source, lines: Iterator[str], builder: TraceBuilder, progress: Progress
    ) -> Trace:
        builder.kernels = profiles_of_source(_watched(lines, source, progress, builder.quality))
        if not builder.kernels:
            raise TraceError(source.path, "The source page of Nsight Compute has no instructions.", _HINT)
        builder.quality.read(len(builder.kernels))
        builder.quality.keep(len(builder.kernels))
        builder.inputs.append(TraceInput(str(source.path), self.format, "Nsight Compute"))
        return builder.build(progress)


def _watched(
    lines: Iterator[str], source: Source, progress: Progress, quality: QualityRecorder
) -> Iterator[str]:
    limit = UnpackingLimit(source)
    for number, line in enumerate(_until_the_cut(lines, quality)):
        limit.add(len(line) + 1)
        if number % 512 == 0:
            progress.step(limit.share * 0.8, "reading the CSV")
        yield line


def _until_the_cut(lines: Iterator[str], quality: QualityRecorder) -> Iterator[str]:
    number = 0
    try:
        for line in lines:
            number += 1
            yield line
    except UNPACKING_ERRORS as error:
        reason = "The compressed file is cut off or damaged; everything before that point was read."
        quality.note("cut-file", Effect.NOTED, reason, f"after line {number}: {error}")


def _note_messages(printed: Printed[Page], quality: QualityRecorder) -> None:
    for kind, text in printed.messages:
        quality.note(f"profiler-{kind.lower()}", Effect.NOTED, f"Nsight Compute reported: {text}", text)
    quality.note(
        "other-output",
        Effect.NOTED,
        "Lines that the profiled program printed into the file.",
        printed.first_other_line,
        printed.other_lines,
    )


def _some(printed: Printed[Page], kind: str) -> list[str]:
    return list(dict.fromkeys(text for each, text in printed.messages if each == kind))[:MAX_SHOWN_MESSAGES]


def _nothing_to_show(path: Path, printed: Printed[Page]) -> TraceError:
    errors = _some(printed, "ERROR")
    if errors:
        return TraceError(path, f"Nsight Compute measured nothing; it reported: {' '.join(errors)}", _HINT)
    if printed.report and not printed.tables:
        name = re.split(r"[/\\]", printed.report)[-1]
        return TraceError(
            path, "This is what Nsight Compute printed while it measured.", f"Open {name}, its report."
        )
    warnings = _some(printed, "WARNING")
    if warnings and not printed.tables:
        return TraceError(path, f"Nsight Compute measured no kernels; it said: {' '.join(warnings)}", _HINT)
    if printed.tables:
        return TraceError(path, "The table of Nsight Compute has no rows.", _HINT)
    return TraceError(path, "This output of Nsight Compute is not a page with kernels.", _HOW_TO_EXPORT)


_HINT = "Fix what it names and record again."


@parser
class NsightComputeReport(Accompanying):
    """Recognised by its first four bytes."""

    format = "ncu-report"
    title = "Nsight Compute"
    files = "reports (.ncu-rep)"
    suffixes = (".ncu-rep",)
    media_types: ClassVar[Mapping[str, str]] = {".ncu-rep": "application/x-nsight-compute-report"}
    priority = 20
    version = 3

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(MAGIC)

    def read(self, source: Source, progress: Progress) -> Trace:
        from parsers.ncu.report import read_report

        return read_report(source, self.format, progress)
