"""A machine that lacks something, handles, memory, room, a home, letters: it works, or a sentence says why not."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import resources
from tests.processes.answers import assert_answered, assert_answered_or_refused
from tests.processes.place import Done, Place
from tests.processes.recordings import DAILY, SMALL, Recordings
from tests.processes.subjects import SUBJECTS, Subject

SAMPLE = resources.path("samples") / "elementwise_chain.pt.trace.json.gz"
HANDLES = (256, 40, 24, 16, 10, 7, 5)
MEGABYTES = (4_000, 1_500, 800, 400, 250, 150, 80)
FILE_MEGABYTES = (60, 10, 1, 0)
ROOM_LEFT = 100_000  # on a disk where others wrote something: less than any result takes
ENDING = [each for each in SUBJECTS if not each.lasts and each.name != "mcp"]
UNKNOWN_USER = "--reuid=54321"
DAILY_NAMES = (3, 23)  # the others are tried by `make test-processes`
NAMES = (
    "with space.json.gz",
    "-rf.json.gz",
    "--json",
    "new\nline.json.gz",
    "tab\tand\rreturn.json.gz",
    "quote'\".json.gz",
    "$(touch x)`x`;x&.json.gz",
    "%s%n{0}.json.gz",
    "*.json.gz",
    "rank?[0-9].json.gz",
    "\x1b[31mred\x1b[0m.json.gz",
    "\u202egnp.json.gz",
    "ünïcödé-測試-🚀.json.gz",
    "a" * 255,
    "file:name.json.gz",
    "C:\\trace.json.gz",
    "baseline:main",
    "s3:bucket",
    "~",
    "#fragment?query=1.json.gz",
    "no ending",
    ".hidden.json.gz",
    "..json.gz",
    b"\xff\xfe not text.json.gz",
)


@pytest.fixture
def sample(place: Place) -> Path:
    path = place.given / SAMPLE.name
    shutil.copy(SAMPLE, path)
    place.names.add(path.name)
    return path


def limited(limit: str) -> tuple[str, ...]:
    """Starts the words that follow under a limit of the shell."""
    return ("bash", "-c", f'ulimit {limit} || exit 99; exec "$@"', "bash")


def tried(
    subject: Subject, place: Place, recordings: Recordings, limits: Sequence[str]
) -> Iterator[tuple[str, Done]]:
    """A command under one limit after the other, each time with nothing in the cache."""
    subject.prepare(place, recordings)
    words = subject.words(place, recordings)
    for limit in limits:
        shutil.rmtree(place.cache, ignore_errors=True)
        shutil.rmtree(place.written)
        place.written.mkdir()
        yield limit, place.run(*words, under=limited(limit))
        assert place.left() == [], limit


@pytest.mark.parametrize("handles", [(40, 10), pytest.param(HANDLES, marks=pytest.mark.thorough)], ids=len)
def test_few_handles_are_enough_or_said(handles: Sequence[int], place: Place, sample: Path) -> None:
    for number in handles:
        assert_answered_or_refused(place.run("diagnose", sample, under=limited(f"-n {number}")))


@pytest.mark.parametrize(
    "sizes", [(1_500, 250), pytest.param(MEGABYTES, marks=pytest.mark.thorough)], ids=len
)
def test_little_memory_is_enough_or_said(sizes: Sequence[int], place: Place, sample: Path) -> None:
    for megabytes in sizes:
        done = place.run("diagnose", sample, under=limited(f"-v {megabytes << 10}"))
        assert_answered_or_refused(done)
        assert done.code == 0 or megabytes < 1_000


@pytest.mark.parametrize("sizes", [(0,), pytest.param(FILE_MEGABYTES, marks=pytest.mark.thorough)], ids=len)
def test_a_disk_without_room_is_said(
    sizes: Sequence[int], place: Place, sample: Path, recordings: Recordings
) -> None:
    archive = place.give(recordings.archive(SMALL))
    for megabytes in sizes:
        limit = limited(f"-f {megabytes << 10}")
        for words in (("diagnose", sample), ("diagnose", archive)):
            assert_answered_or_refused(place.run(*words, under=limit))
        written = place.written / "rows.parquet"
        done = place.run("query", sample, "SELECT * FROM kernels", "--out", written, under=limit)
        assert_answered_or_refused(done)
        assert done.code == 0 or not written.exists()
        written.unlink(missing_ok=True)
        assert place.left() == []


@pytest.mark.thorough
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("subject", ENDING, ids=str)
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param([f"-n {number}" for number in HANDLES[1::2]], id="handles"),
        pytest.param([f"-v {megabytes << 10}" for megabytes in MEGABYTES[1::2]], id="memory"),
        pytest.param([f"-f {megabytes << 10}" for megabytes in FILE_MEGABYTES[1:]], id="disk"),
    ],
)
def test_limits_are_enough_or_said(
    limits: list[str], subject: Subject, place: Place, recordings: Recordings
) -> None:
    for _, done in tried(subject, place, recordings, limits):
        assert_answered_or_refused(done)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB; where none may be mounted, the device that is always full has to do."""
    folder = tmp_path / "full"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder], check=False).returncode:
        pytest.skip("only an administrator can mount a small file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.thorough
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs an administrator")
def test_every_disk_may_be_full(full_disk: Path, place: Place, recordings: Recordings) -> None:
    archive, plain = place.give(recordings.archive(SMALL)), place.give(recordings.json())
    full = str(full_disk)
    for changed in ({"TMPDIR": full}, {"HOME": full}, {"HOME": full, "TMPDIR": full}):
        for recording in (archive, plain):
            done = place.run("diagnose", recording, changed=changed)
            assert_answered_or_refused(done)
            assert done.code == 0 or (recording == archive and "TMPDIR" in changed)
            assert not [each for each in full_disk.iterdir() if each.name.startswith("stallscope-")]
    (full_disk / "other").write_bytes(bytes(shutil.disk_usage(full_disk).free - ROOM_LEFT))
    for ending in ("csv", "parquet"):
        done = place.run("convert", plain, "--to", ending, full_disk / f"converted.{ending}")
        assert done.code == 2
        assert_answered_or_refused(done)
        assert [each.name for each in full_disk.iterdir() if each.is_file()] == ["other"]


@pytest.mark.parametrize(
    "home",
    [
        "read-only",
        *(pytest.param(home, marks=pytest.mark.thorough) for home in ("none", "nowhere", "a file", "empty")),
    ],
)
def test_a_home_is_a_convenience(
    home: str, place: Place, sample: Path, recordings: Recordings, tmp_path: Path
) -> None:
    usual = place.run("diagnose", sample, "--json")
    read_only = tmp_path / "read-only"
    read_only.mkdir(mode=0o555)
    (tmp_path / "file").touch()
    at = {"read-only": read_only, "nowhere": tmp_path / "nowhere", "a file": tmp_path / "file"}.get(home)
    changed = {"HOME": None if home == "none" else "" if home == "empty" else str(at)}
    under = _without_privileges(place)
    if UNKNOWN_USER not in under and home in ("none", "empty"):  # whose home the system knows
        changed["XDG_CACHE_HOME"] = changed["XDG_DATA_HOME"] = str(read_only)
    done = place.run("diagnose", sample, "--json", under=under, changed=changed)
    assert_answered(done)
    assert done.out == usual.out
    if home == "read-only":
        large = place.give(recordings.json(DAILY))
        assert_answered(place.run("diagnose", large, under=under, changed=changed))
        saved = place.run("baseline", "save", "main", sample, under=under, changed=changed)
        assert saved.code == 2
        assert_answered_or_refused(saved)
    assert not list(read_only.iterdir())


def _without_privileges(place: Place) -> tuple[str, ...]:
    """Start the words that follow as somebody for whom permissions hold: for an administrator they do not.

    As a user whom the system does not know, where one can read the libraries; else without an administrator's rights.
    """
    if os.geteuid() != 0:
        return ()
    libraries = {Path(folder).resolve() for folder in (sys.prefix, sys.base_prefix)}
    if not all(_is_searchable(folder) for each in libraries for folder in (each, *each.parents)):
        return ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
    for folder in (place.root, *place.root.parents):
        if folder.stat().st_uid == os.geteuid() and not _is_searchable(folder):
            folder.chmod(folder.stat().st_mode | 0o011)
    place.temporary.chmod(0o777)
    place.working.chmod(0o777)
    return ("setpriv", UNKNOWN_USER, "--regid=54321", "--clear-groups")


def _is_searchable(folder: Path) -> bool:
    return bool(folder.stat().st_mode & stat.S_IXOTH)


LOCALES = (
    {"LANG": None, "LC_ALL": None},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"},
    {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"},
    {"LC_ALL": "nowhere.UTF-8", "PYTHONIOENCODING": "latin-1"},
)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(
            each, id=str(each["LC_ALL"]), marks=() if each["LC_ALL"] == "C" else pytest.mark.thorough
        )
        for each in LOCALES
    ],
)
def test_no_locale_changes_figures(changed: dict[str, str | None], place: Place, sample: Path) -> None:
    usual = place.run("diagnose", sample, "--json")
    assert place.run("diagnose", sample, "--json", changed=changed).out == usual.out
    page = place.written / "page.html"
    assert_answered(place.run("diagnose", sample, "--tables", "--html", page, changed=changed))
    assert "</html>" in page.read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, id=ascii(name)[:24], marks=() if number in DAILY_NAMES else pytest.mark.thorough)
        for number, name in enumerate(NAMES)
    ],
)
def test_a_file_may_have_any_name(name: str | bytes, place: Place) -> None:
    path = place.given / os.fsdecode(name)
    shutil.copy(SAMPLE, path)
    place.names.add(path.name)
    done = place.run("diagnose", path)
    assert_answered_or_refused(done) if isinstance(name, bytes) else assert_answered(done)
    assert b"\x1b" not in done.out
    assert "\u202e" not in done.out.decode("utf-8", "replace")


@pytest.mark.thorough
@pytest.mark.parametrize("name", [pytest.param(name, id=ascii(name)[:24]) for name in NAMES])
@pytest.mark.parametrize("line", ["query given cuda_gpu_kern_sum --format csv", "whatif given --json",
                                  "compare given given --markdown written", "diagnose given --html written",
                                  "baseline save main given"])  # fmt: skip
def test_a_file_of_any_name_is_read_by_every_command(line: str, name: str | bytes, place: Place) -> None:
    path = place.given / os.fsdecode(name)
    shutil.copy(SAMPLE, path)
    place.names.add(path.name)
    stands_for = {"given": path, "written": place.written / path.name[:200]}
    done = place.run(*(stands_for.get(word, word) for word in line.split()))
    assert_answered_or_refused(done) if isinstance(name, bytes) else assert_answered(done)
    assert b"\x1b" not in done.out


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["-rf.json.gz", "--json", "~", "*.json.gz", "baseline:main"])
def test_a_name_in_the_working_folder_may_be_typed_as_it_is(name: str, place: Place) -> None:
    shutil.copy(SAMPLE, place.working / name)
    done = place.run("diagnose", "--", name)
    (place.working / name).unlink()
    assert_answered(done)
