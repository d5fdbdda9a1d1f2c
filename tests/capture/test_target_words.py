"""What people type becomes the same target, whatever stands before the script."""

from __future__ import annotations

import pytest

from viewer.capture.commands import plain_command
from viewer.capture.request import TargetKind
from viewer.capture.target_words import UnreadableCommand, read_target


@pytest.mark.parametrize(
    ("words", "launcher", "interpreter", "program", "arguments"),
    [
        (["python", "train.py", "--lr", "1"], (), "python", "train.py", ("--lr", "1")),
        (["train.py", "-m", "x"], (), "", "train.py", ("-m", "x")),
        (["python3.12", "-u", "-X", "dev", "train.py"], (), "python3.12", "train.py", ()),
        (["numactl", "-N", "0", "python", "a.py"], ("numactl", "-N", "0"), "python", "a.py", ()),
        (["torchrun", "--standalone", "--nproc_per_node", "2", "a.py", "-x"],
         ("torchrun", "--standalone", "--nproc_per_node", "2"), "", "a.py", ("-x",)),
        (["accelerate", "launch", "--multi_gpu", "--num_processes=2", "a.py"],
         ("accelerate", "launch", "--multi_gpu", "--num_processes=2"), "", "a.py", ()),
        (["python", "-m", "torch.distributed.run", "--nproc-per-node=2", "a.py", "b"],
         ("python", "-m", "torch.distributed.run", "--nproc-per-node=2"), "", "a.py", ("b",)),
        (["/opt/my env/bin/python", "my script.py", "ü \"quoted\""], (), "/opt/my env/bin/python", "my script.py",
         ("ü \"quoted\"",)),
    ],
)  # fmt: skip
def test_a_script_is_found_behind_interpreters_and_launchers(
    words: list[str], launcher: tuple[str, ...], interpreter: str, program: str, arguments: tuple[str, ...]
) -> None:
    target = read_target(words)
    assert target.kind is TargetKind.SCRIPT
    assert (target.launcher, target.interpreter, target.program) == (launcher, interpreter, program)
    assert target.arguments == arguments
    if interpreter:
        assert plain_command(target) == words


@pytest.mark.parametrize(
    ("words", "interpreter"),
    [
        (["a.py"], "/env/bin/python"),
        (["python", "-u", "a.py"], "/env/bin/python"),
        (["numactl", "-N", "0", "python3", "a.py"], "/env/bin/python"),
        (["/usr/bin/python3", "a.py"], "/usr/bin/python3"),
    ],
)
def test_an_interpreter_that_is_given_stands_for_a_plain_python(words: list[str], interpreter: str) -> None:
    assert read_target(words, interpreter="/env/bin/python").interpreter == interpreter


def test_a_module_behind_torchrun_stays_a_module() -> None:
    target = read_target(["torchrun", "--nproc_per_node=2", "-m", "package.train", "--lr=1"])
    assert (target.kind, target.program, target.arguments) == (
        TargetKind.MODULE,
        "package.train",
        ("--lr=1",),
    )
    assert plain_command(target) == ["torchrun", "--nproc_per_node=2", "-m", "package.train", "--lr=1"]
    assert target.name == "train"


def test_another_program_is_taken_as_it_is() -> None:
    target = read_target(["./bench", "--size", "1"])
    assert (target.kind, plain_command(target)) == (TargetKind.COMMAND, ["./bench", "--size", "1"])


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["python"],
        ["python", "-c", "print()"],
        ["python", "-m"],
        ["torchrun"],
        ["torchrun", "--no-python", "x"],
    ],
)
def test_commands_without_a_script_say_so(words: list[str]) -> None:
    with pytest.raises(UnreadableCommand):
        read_target(words)
