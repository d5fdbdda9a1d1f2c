"""What the parsers say of themselves is what dialogs, desktops and refusals say, and each parser has a fixture."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

import resources
from parsers import open_trace
from parsers.files.base import OwnSuffixes, parser_of, parsers
from parsers.files.source import identify
from parsers.known_formats import recorders, usual_suffixes, what_is_read
from parsers.model import TraceError, UnknownFormat
from viewer.desktop import file_types
from viewer.start.opening import formats

NO_RECORDINGS = {".toml", ".md", ".py"}
GOLDEN = ("summaries.json", "times.json", "truth.json")


@pytest.fixture(scope="session")
def fixtures_of(fixtures: Path) -> dict[str, list[Path]]:
    """The fixtures that each parser recognises, by its format."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(fixtures.glob("*/*")):
        if path.is_file() and path.suffix not in NO_RECORDINGS and not path.name.endswith(GOLDEN):
            parser = parser_of(identify(path))
            assert parser is not None, f"no parser recognises {path}"
            found[parser.format].append(path)
    return found


@pytest.mark.parametrize("format", [each.format for each in parsers()])
def test_every_parser_has_a_fixture(fixtures_of: dict[str, list[Path]], format: str) -> None:
    assert fixtures_of[format], f"tests/fixtures holds no file that the parser {format!r} recognises"


@pytest.mark.parametrize("format", [each.format for each in parsers() if each.title])
def test_the_smallest_fixture_of_a_parser_opens(
    fixtures: Path, fixtures_of: dict[str, list[Path]], format: str
) -> None:
    opening = [path for path in fixtures_of[format] if path.parent.name != "refused"]
    if not opening:
        assert format == "nsys-report"  # which needs the program that wrote it
        return
    trace = open_trace([min(opening, key=lambda path: path.stat().st_size)])
    assert trace.inputs[0].format == format
    assert len(trace.events) or trace.kernels or trace.counters or trace.tables


def test_what_is_refused_is_refused_with_a_hint(fixtures: Path) -> None:
    for path in sorted((fixtures / "refused").iterdir()):
        with pytest.raises(TraceError) as refused:
            open_trace([path])
        assert refused.value.hint, path


def test_what_only_refuses_files_is_offered_nowhere() -> None:
    for each in parsers():
        assert bool(each.title) == bool(each.files) == bool(each.suffixes), each.format


def test_every_ending_that_a_parser_states_is_in_the_file_dialog() -> None:
    dialog = file_types.file_filter()
    patterns = set(dialog[dialog.index("(") + 1 : dialog.index(")")].split())
    for each in parsers():
        assert {f"*{suffix}" for suffix in each.suffixes} <= patterns, each.format


def test_every_fixture_would_be_shown_by_the_file_dialog(fixtures_of: dict[str, list[Path]]) -> None:
    reads = {each.format for each in parsers() if each.title}
    hidden = [
        path.name
        for format, paths in fixtures_of.items()
        for path in paths
        if format in reads and not path.name.endswith(usual_suffixes())
    ]
    assert hidden == []


def test_a_file_that_nothing_recognises_is_told_every_recorder(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are no events")
    with pytest.raises(UnknownFormat) as refused:
        open_trace([path])
    assert refused.value.hint == what_is_read()
    assert all(each.title in refused.value.hint for each in recorders())


def test_an_ending_of_its_own_is_one_that_its_parser_reads() -> None:
    for each in parsers():
        if isinstance(each, OwnSuffixes):
            for suffix in each.media_types:
                assert suffix.removesuffix(".gz").endswith(each.suffixes), each.format


def test_the_start_page_says_what_the_parsers_say() -> None:
    assert list(formats()) == [(each.title, each.text) for each in recorders()]


@pytest.mark.parametrize("path", sorted(file_types.followed()), ids=lambda path: path.name)
def test_desktop_files_packages_and_documentation_follow_the_parsers(path: Path) -> None:
    fresh = file_types.followed()[path]
    assert path.read_text("utf-8") == fresh, "run python -m viewer.desktop.file_types"


def test_desktop_files_are_where_the_program_looks_for_them() -> None:
    assert resources.path("desktop/stallscope.xml") in file_types.followed()
