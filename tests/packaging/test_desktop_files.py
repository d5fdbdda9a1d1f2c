"""The menu entry, the file types and the icons, and what puts them into a user's folders."""

from __future__ import annotations

import re
import sys
from configparser import ConfigParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtGui import QImage

import resources
from parsers.model import TraceError
from viewer.cli import main
from viewer.desktop import desktop_files
from viewer.terminal.exit_codes import BAD_INPUT, DONE

MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"
PLAIN = ("application/json", "application/vnd.sqlite3", "text/csv")
STEPS_TO_TEXT = 4  # application/json, javascript, ecmascript, text/plain


def entry_of(path: Path) -> ConfigParser:
    entry = ConfigParser(interpolation=None, delimiters=("=",))
    entry.optionxform = str  # type: ignore[assignment, method-assign]
    entry.read_string(path.read_text("utf-8"))
    return entry


def declared() -> dict[str, ElementTree.Element]:
    tree = ElementTree.parse(resources.path("desktop/stallscope.xml"))
    return {element.attrib["type"]: element for element in tree.getroot().iter(f"{MIME}mime-type")}


def opened() -> list[str]:
    entry = entry_of(resources.path("desktop/stallscope.desktop"))
    return [each for each in entry["Desktop Entry"]["MimeType"].split(";") if each]


def test_every_type_that_the_entry_opens_is_declared() -> None:
    assert set(opened()) <= set(declared())


@pytest.mark.parametrize(
    "pattern", ["*.pt.trace.json", "*.pt.trace.json.gz", "*.nsys-rep", "*.ncu-rep", "*.stallscope"]
)
def test_recordings_open_with_the_program(pattern: str) -> None:
    types = [
        name
        for name, element in declared().items()
        for glob in element.iter(f"{MIME}glob")
        if glob.attrib["pattern"] == pattern
    ]
    assert len(types) == 1
    assert types[0] in opened()


@pytest.mark.parametrize("plain", PLAIN)
def test_plain_files_are_offered_after_every_other_program(plain: str) -> None:
    types, steps = declared(), 0
    assert plain not in opened()
    at = plain
    while at not in opened():
        (parent,) = types[at].iter(f"{MIME}sub-class-of")
        at = parent.attrib["type"]
        steps += 1
    assert steps > STEPS_TO_TEXT


@pytest.mark.parametrize("size", desktop_files.ICON_SIZES)
def test_icons_have_their_size_and_are_clear_at_the_corners(size: int, qapp: object) -> None:
    icon = QImage(str(resources.path(f"icons/stallscope-{size}.png")))
    assert (icon.width(), icon.height()) == (size, size)
    assert icon.pixelColor(0, 0).alpha() < 128
    assert icon.pixelColor(size // 2, size // 2).alpha() == 255


@pytest.fixture
def data(fresh_home: Path) -> Path:
    """The user's data folder."""
    return fresh_home / ".local" / "share"


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="freedesktop.org folders are those of Linux")
class TestInstalling:
    """``stallscope --install-desktop-files``."""

    def test_the_entry_starts_the_program_by_its_whole_path(self, data: Path) -> None:
        launcher = Path('/home/x/my $tools/100%/stall"scope')
        desktop_files.install(launcher)
        entry = entry_of(data / "applications" / "stallscope.desktop")
        command = entry["Desktop Entry"]["Exec"]
        assert command.endswith(" %F")
        # Two levels: escapes of the value, then the quotes and escapes of its argument.
        argument = command.removesuffix(" %F").replace("\\\\", "\\").replace("%%", "%")
        assert argument[0] == argument[-1] == '"'
        assert re.sub(r"\\(.)", r"\1", argument[1:-1]) == str(launcher)

    def test_types_and_icons_are_where_a_desktop_looks(self, data: Path) -> None:
        desktop_files.install(Path("/x/stallscope"))
        ElementTree.parse(data / "mime" / "packages" / "stallscope.xml")
        for size in desktop_files.ICON_SIZES:
            assert (data / f"icons/hicolor/{size}x{size}/apps/stallscope.png").stat().st_size
        assert (data / "icons/hicolor/scalable/apps/stallscope.svg").exists()

    def test_defaults_of_the_user_stay_as_they_are(self, data: Path, fresh_home: Path) -> None:
        chosen = fresh_home / ".config" / "mimeapps.list"
        chosen.write_text("[Default Applications]\napplication/json=editor.desktop\n")
        before = chosen.read_bytes()
        desktop_files.install(Path("/x/stallscope"))
        assert chosen.read_bytes() == before
        assert list(data.rglob("mimeapps.list")) == []

    def test_removing_leaves_no_file_of_the_program(self, data: Path) -> None:
        (data / "applications").mkdir()
        other = data / "applications" / "other.desktop"
        other.write_text("[Desktop Entry]\n")
        desktop_files.install(Path("/x/stallscope"))
        desktop_files.remove()
        assert [path for path in data.rglob("*stallscope*") if path.is_file()] == []
        assert other.exists()

    def test_removing_twice_says_that_there_is_nothing(self) -> None:
        assert "Nothing" in desktop_files.remove()[0]

    def test_a_folder_that_cannot_be_written_is_one_sentence(
        self, data: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (data / "applications").write_text("a file, not a folder")
        assert main(["--install-desktop-files"]) == BAD_INPUT
        assert "could not be changed" in capsys.readouterr().err

    def test_the_command_says_what_it_did(self, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["--install-desktop-files"]) == DONE
        assert str(data) in capsys.readouterr().out
        assert main(["--remove-desktop-files"]) == DONE

    def test_the_frozen_program_starts_itself(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "frozen", True, raising=False)
        monkeypatch.setattr(sys, "executable", "/opt/stallscope/stallscope")
        desktop_files.install()
        entry = entry_of(data / "applications" / "stallscope.desktop")
        assert entry["Desktop Entry"]["Exec"] == '"/opt/stallscope/stallscope" %F'


def test_other_systems_are_told_that_their_installer_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(TraceError, match="This is for Linux"):
        desktop_files.install()
