"""Lines of the user's own code for reviews and editors: messages, SARIF, where a file lies here, how editors start."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from viewer.cli import main
from viewer.desktop import editors
from viewer.desktop.editors import EDITORS, NoEditor, chosen_editor, editor_of, open_line, split
from viewer.desktop.source_files import excerpt, folders_of, found_here, mapped

FEED = Path(__file__).parents[1] / "fixtures" / "stacks" / "feed.chrome.json"


def test_messages_are_written_as_compilers_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(FEED), "--lines", "--map", "/tmp/cpu=src"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    path = Path("src", "feed.py")
    assert line == f"{path}:23: note: 50 % of the CPU's time is in compress (feed.py:23) [sampled-cpu]"


def test_without_stacks_it_is_said_that_no_line_is_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    log = tmp_path / "dmon.log"
    log.write_text("# gpu   sm\n# Idx    %\n    0    5\n    0    6\n    0    7\n")
    assert main(["diagnose", str(log), "--lines"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "No finding has a line" in shown.err


def test_sarif_has_a_result_for_each_finding_and_a_place_where_one_is_known(tmp_path: Path) -> None:
    file = tmp_path / "found.sarif"
    assert main(["diagnose", str(FEED), "--sarif", str(file), "--map", "/tmp/cpu=my src"]) == 0
    log = json.loads(file.read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "note")
    (place,) = run["results"][0]["locations"]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20src/feed.py"},
        "region": {"startLine": 23},
    }


def test_a_folder_without_a_place_here_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["diagnose", str(FEED), "--lines", "--map", "/tmp"])
    assert "RECORDED=HERE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("file", "here"),
    [
        ("/home/a/run/train.py", Path("/mnt/src/run/train.py")),
        ("/home/a/run/deep/train.py", Path("/other/train.py")),
        ("/home/abc/train.py", Path("/home/abc/train.py")),
        ("C:\\me\\src\\train.py", Path("/win/src/train.py")),
    ],
)
def test_the_longest_recorded_folder_decides_where_a_file_lies(file: str, here: Path) -> None:
    folders = folders_of("/home/a = /mnt/src\n/home/a/run/deep=/other\nC:\\me=/win\nnonsense\n=x\ny=\n")
    assert len(folders) == 3
    assert Path(mapped(file, folders)) == here


def test_a_relative_path_is_looked_for_beside_the_recording(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    source = tmp_path / "model" / "net.py"
    source.write_text("".join(f"line {number}\n" for number in range(1, 21)))
    assert found_here("model/net.py", {}, [tmp_path / "nowhere", tmp_path]) == source
    shown = excerpt(source, 10).splitlines()
    assert shown[4] == "> 10  line 10"
    assert (shown[0], shown[-1]) == ("   6  line 6", "  14  line 14")
    assert excerpt(source, 1).splitlines()[0] == "> 1  line 1"
    beside = excerpt(source, 10, {9: "1.5 %", 10: "98 %", 17: "2 %"}).splitlines()
    assert beside[3:5] == ["   9  1.5 %  line 9", "> 10   98 %  line 10"]
    assert excerpt(source, 10, {17: "2 %"}) == "\n".join(shown)
    assert excerpt(tmp_path, 3) == ""
    source.write_bytes(b"\xff\xfe\x00" * 9)
    assert excerpt(source, 1) == ""


@pytest.mark.parametrize("editor", EDITORS, ids=lambda each: each.name)
def test_every_editor_gets_the_file_and_its_line_as_words_of_their_own(editor: editors.Editor) -> None:
    words = editor.arguments(Path("/a b/$(rm) it's x.py"), 7)
    assert words[0] == editor.command[0]
    as_written = "/a b/$(rm) it''s x.py" if editor.command[0] == "nvim" else "/a b/$(rm) it's x.py"
    assert any(as_written in word for word in words[1:])
    assert any("7" in word for word in words[1:])
    assert not any("{file}" in word or "{line}" in word for word in words)


def test_a_preference_comes_before_the_environment_and_that_before_what_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(editors.shutil, "which", lambda name: f"/bin/{name}")
    wanted = editor_of('"my edit" -n {file} +{line}')
    assert wanted is not None
    assert chosen_editor('"my edit" -n {file} +{line}', {"EDITOR": "gvim"}) == wanted
    assert wanted.command == ("my edit", "-n", "{file}", "+{line}")
    found = chosen_editor("", {"EDITOR": "/usr/bin/subl -w"})
    assert found is not None
    assert found.name == "Sublime Text"
    found = chosen_editor("", {"EDITOR": "vim", "VISUAL": "gvim -f"})
    assert found is not None
    assert found.command == ("gvim", "-f", "{file}")
    found = chosen_editor("", {"EDITOR": "vim"})
    assert found is not None
    assert found.name == "VS Code", "vim would need a terminal"
    assert chosen_editor("code") is None
    assert split("code 'unclosed") == []


def test_the_editor_is_started_with_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, log = tmp_path / "a b.py", tmp_path / "log"
    source.write_text("x\n")
    program = f"import sys; open({str(log)!r}, 'w').write(repr(sys.argv[1:]))"
    open_line(source, 12, f'"{sys.executable}" -c "{program}" {{file}} {{line}}')
    for _ in range(600):
        if log.exists() and log.read_text():
            break
        time.sleep(0.02)
    assert log.read_text() == repr([str(source), "12"])
    with pytest.raises(NoEditor, match="does not exist here"):
        open_line(tmp_path / "gone.py", 1, "code {file}")
    with pytest.raises(NoEditor, match="not on PATH"):
        open_line(source, 1, "no-such-editor-anywhere {file}")
    monkeypatch.setattr(editors.shutil, "which", lambda _: None)
    with pytest.raises(NoEditor, match="Name one in Preferences"):
        open_line(source, 1, "")
