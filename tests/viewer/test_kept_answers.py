"""A question about recordings is answered from what was found out before, while nothing of it changed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import resources
from parsers.model import Trace
from rules import Diagnosis, diagnosis
from viewer.cli import main
from viewer.commands import diagnose
from viewer.terminal import kept_answers

SAMPLE = resources.path("samples") / "elementwise_chain.pt.trace.json.gz"  # the quickest that has a fix
OTHER = resources.path("samples") / "pageable_copy.pt.trace.json.gz"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read."""
    found: list[str] = []
    read = diagnose.recording

    def counted(names: list[str], *rest: object) -> Trace:
        found.extend(names)
        return read(names, *rest)  # type: ignore[arg-type]

    for command in ("diagnose", "whatif"):
        monkeypatch.setattr(f"viewer.commands.{command}.recording", counted)
    return found


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return Path(shutil.copy(SAMPLE, tmp_path / "rank0.json.gz"))


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def ask(*words: object) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return ask


Asked = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose",),
        pytest.param(("diagnose", "--json"), marks=pytest.mark.thorough),
        pytest.param(("diagnose", "--tables"), marks=pytest.mark.thorough),
        ("diagnose", "--fail-on", "high"),
        pytest.param(("whatif",), marks=pytest.mark.thorough),
        ("whatif", "--json"),
    ],
)
def test_the_second_answer_is_the_first_and_reads_nothing(
    words: tuple[str, ...], reads: list[str], recording: Path, asked: Asked
) -> None:
    first = asked(*words, recording)
    assert reads == [str(recording)]
    assert asked(*words, recording) == first
    assert reads == [str(recording)]


@pytest.mark.parametrize(
    "words",
    [
        ("--json",),
        pytest.param(("--tables",), marks=pytest.mark.thorough),
        pytest.param(("--cost-per-hour", "2"), marks=pytest.mark.thorough),
        ("--threshold", "least-share=5%"),
        pytest.param(("--fail-on", "low"), marks=pytest.mark.thorough),
    ],
)
def test_other_options_are_another_question(
    words: tuple[str, ...], reads: list[str], recording: Path, asked: Asked
) -> None:
    asked("diagnose", recording)
    asked("diagnose", *words, recording)
    assert len(reads) == 2
    assert len(list(kept_answers.ENTRIES.folder.iterdir())) == 2


def test_another_fix_or_command_is_another_question(reads: list[str], recording: Path, asked: Asked) -> None:
    asked("diagnose", recording)
    asked("whatif", recording)
    asked("diagnose", "--json", recording)
    asked("whatif", "--json", recording)
    assert len(reads) == 4


def test_a_file_that_was_replaced_is_read_again(reads: list[str], recording: Path, asked: Asked) -> None:
    first = asked("diagnose", recording)
    shutil.copy(OTHER, recording)
    assert asked("diagnose", recording) != first
    assert len(reads) == 2


def test_a_file_that_looks_as_before_but_was_written_to_is_read_again(
    reads: list[str], recording: Path, asked: Asked
) -> None:
    asked("diagnose", recording)
    before, content = recording.stat(), recording.read_bytes()
    recording.write_bytes(content)
    os.utime(recording, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (recording.stat().st_size, recording.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    asked("diagnose", recording)
    assert len(reads) == 2


def test_what_is_beside_a_database_counts_as_part_of_it(recording: Path, reads: list[str]) -> None:
    before = kept_answers.question_of([str(recording)], {})
    Path(f"{recording}-wal").write_bytes(b"pages")
    assert kept_answers.question_of([str(recording)], {}) != before


def test_other_code_is_asked_anew(
    reads: list[str], recording: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("diagnose", recording)
    monkeypatch.setattr(kept_answers, "program", lambda: "another")
    asked("diagnose", recording)
    assert len(reads) == 2


def test_a_changed_line_of_any_module_makes_another_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "rules" / "catalog" / "a_rule.py"
    here = tmp_path / "viewer" / "terminal" / "kept_answers.py"
    for file in (module, here, tmp_path / "rules" / "__init__.py", tmp_path / "viewer" / "__init__.py"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("LIMIT = 1\n")
    monkeypatch.setattr(kept_answers, "__file__", str(here))
    before = kept_answers.program.__wrapped__()
    assert kept_answers.program.__wrapped__() == before
    state = module.stat()
    module.write_text("LIMIT = 2\n")
    os.utime(module, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert kept_answers.program.__wrapped__() != before


def test_the_packages_of_the_project_are_the_program(repository: Path) -> None:
    stated = tomllib.loads((repository / "pyproject.toml").read_text())
    assert set(kept_answers._PACKAGES) == set(stated["tool"]["importlinter"]["root_packages"])


def test_what_lies_beside_the_program_is_not_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "viewer" / "terminal" / "kept_answers.py"
    library = tmp_path / "numpy" / "__init__.py"
    for file in (here, library):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("LIMIT = 1\n")
    monkeypatch.setattr(kept_answers, "__file__", str(here))
    before = kept_answers.program.__wrapped__()
    library.write_text("LIMIT = 2\n")
    (here.parent / "__pycache__").mkdir()
    (here.parent / "__pycache__" / "kept_answers.pyc").write_bytes(b"made")
    assert kept_answers.program.__wrapped__() == before
    (tmp_path / "resources").mkdir()
    (tmp_path / "resources" / "gpus.json").write_text("")
    assert kept_answers.program.__wrapped__() != before


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_a_damaged_answer_is_found_out_anew(
    damage: bytes | None, reads: list[str], recording: Path, asked: Asked
) -> None:
    first = asked("diagnose", recording)
    (entry,) = kept_answers.ENTRIES.folder.iterdir()
    content = bytearray(entry.read_bytes())
    content[len(content) // 2] ^= 1
    entry.write_bytes(bytes(content) if damage is None else damage)
    assert asked("diagnose", recording) == first
    assert len(reads) == 2


def test_nothing_is_kept_of_a_diagnosis_with_a_failed_check(
    reads: list[str], recording: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = diagnosis.diagnosis_of

    def failing(*of: object) -> Diagnosis:
        found = made(*of)  # type: ignore[arg-type]
        return Diagnosis(found.findings, found.skipped, {"gpu-bound": "out of memory"}, found.quiet)

    monkeypatch.setattr("rules.diagnosis_of", failing)
    asked("diagnose", recording)
    assert not kept_answers.ENTRIES.folder.exists()


def test_nothing_is_kept_of_a_file_that_changed_while_it_was_read(
    reads: list[str], recording: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = diagnose.recording

    def then_changed(*of: object) -> Trace:
        trace = read(*of)  # type: ignore[arg-type]
        shutil.copy(OTHER, recording)
        return trace

    monkeypatch.setattr("viewer.commands.diagnose.recording", then_changed)
    asked("diagnose", recording)
    assert not kept_answers.ENTRIES.folder.exists()


def test_folders_and_standard_input_are_no_question(tmp_path: Path, recording: Path) -> None:
    name = str(recording)
    assert kept_answers.question_of([name], {}) is not None
    assert kept_answers.question_of([name, str(tmp_path)], {}) is None
    assert kept_answers.question_of([name, "-"], {}) is None
    assert kept_answers.question_of([name, "a\0b"], {}) is None


def test_the_same_words_are_told_again_without_numpy(recording: Path, reads: list[str], asked: Asked) -> None:
    first = asked("diagnose", recording)
    script = (
        "import sys; from viewer.cli import main; main(); "
        "print([*{'numpy', 'msgspec', 'parsers.opening', 'rules'} & {*sys.modules}], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "diagnose", recording], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == (first[1], "[]\n")


def test_answers_are_their_owners_alone_and_bounded(
    reads: list[str], recording: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked("diagnose", recording)
    (entry,) = kept_answers.ENTRIES.folder.iterdir()
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    assert stat.S_IMODE(entry.parent.stat().st_mode) == 0o700
    monkeypatch.setattr(kept_answers, "MAX_BYTES", 10)
    asked("diagnose", "--json", recording)
    assert list(entry.parent.iterdir()) == [entry]


def test_reports_are_made_anew(reads: list[str], recording: Path, asked: Asked, tmp_path: Path) -> None:
    asked("diagnose", recording)
    asked("diagnose", "--html", tmp_path / "report.html", recording)
    assert len(reads) == 2
    assert (tmp_path / "report.html").stat().st_size > 0
