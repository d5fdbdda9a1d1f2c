"""What README, documents and the man page say of the command line is what its help says."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from viewer.cli import command_names, main

DOCUMENTED = ("*.md", "docs/*.md", "resources/ci/*", "packaging/linux/stallscope.1.in")
COMMAND = re.compile(rf"stallscope ({'|'.join(command_names())})\b([^`\n]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OF_ANY_COMMAND = {"--help", "--version"}


@pytest.fixture
def help_of(capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """The help of a command and of its subcommands."""

    @cache
    def text(command: str, *more: str) -> str:
        with pytest.raises(SystemExit):
            main([command, *more, "--help"])
        said = capsys.readouterr().out
        listed = re.search(r"^  ([a-z]+(?:\|[a-z]+)+)$", said, re.MULTILINE)
        return said + "".join(text(command, name) for name in (listed[1].split("|") if listed else ()))

    return text


def test_every_option_that_is_documented_exists(repository: Path, help_of: Callable[[str], str]) -> None:
    unknown = []
    for document in (path for pattern in DOCUMENTED for path in repository.glob(pattern)):
        words = document.read_text("utf-8").replace("\\-", "-")
        for command, rest in COMMAND.findall(words):
            known = set(OPTION.findall(help_of(command))) | OF_ANY_COMMAND
            own = re.sub(r'\$\([^)]*\)|"slurm:[^"]*"', "", rest.split(" -- ")[0])  # not of other programs
            unknown += [
                f"{document.name}: {command} {each}" for each in OPTION.findall(own) if each not in known
            ]
    assert unknown == []


def test_every_option_that_exists_is_documented(repository: Path, help_of: Callable[[str], str]) -> None:
    written = "".join(path.read_text("utf-8") for pattern in DOCUMENTED for path in repository.glob(pattern))
    known = set(OPTION.findall(written.replace("\\-", "-"))) | {"--clock-control"}  # of ncu itself
    assert {each for name in command_names() for each in OPTION.findall(help_of(name))} - known == set()


def test_every_command_is_in_the_man_page_and_in_the_readme(repository: Path) -> None:
    manual = (repository / "packaging/linux/stallscope.1.in").read_text("utf-8").replace("\\-", "-")
    readme = (repository / "README.md").read_text("utf-8")
    missing = [
        name for name in command_names() if any(f"stallscope {name}" not in each for each in (manual, readme))
    ]
    assert missing == []
