"""Reads a command as people type it (``torchrun train.py --lr 1``) into a target, word by word, without a shell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import PurePath

from parsers.model.late import regex
from viewer.capture.request import Target, TargetKind

_PYTHON = regex(r"^(python|pypy)(\d+(\.\d+)*)?w?(\.exe)?$", re.IGNORECASE)
_PYTHON_OPTIONS_WITH_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_LAUNCHERS = frozenset({"torchrun", "torchrun.exe", "deepspeed"})
_LAUNCHER_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_ACCELERATE = "accelerate"
_SPREADING = frozenset({"srun", "mpirun", "mpiexec", "mpiexec.hydra", "prun"})
_FLAGS = frozenset(
    {
        "--standalone", "--no-python", "--no_python", "--run-path", "--run_path", "--virtual-local-rank",
        "--virtual_local_rank", "--use-env", "--use_env", "--multi-gpu", "--multi_gpu", "--cpu", "--mps",
        "--use-deepspeed", "--use_deepspeed", "--use-fsdp", "--use_fsdp", "--debug", "--quiet", "--no_ssh",
        "--no_ssh_check", "--no_local_rank", "--force_multi", "--save_pid", "--bind_cores_to_rank",
        "--enable_each_rank_log", "-q",
    }
)  # fmt: skip
_NO_PYTHON = frozenset({"--no-python", "--no_python", "--run-path", "--run_path"})


class UnreadableCommand(ValueError):
    """The words name no program; the message says what is missing."""


def read_target(words: Sequence[str], folder: str = "", interpreter: str = "") -> Target:
    """The target that a command's words name.

    A script without an interpreter, or after a plain ``python``, gets ``interpreter``. Words before the interpreter
    (``mpirun -n 2``, ``numactl``) and launchers of torch become ``Target.launcher``.
    """
    words = list(words)
    if not words:
        raise UnreadableCommand("name the program to record, as in: train.py --epochs 1")
    if words[0] == "-m":
        return _after_python(words, (), interpreter, (), folder)
    first = PurePath(words[0]).name
    if first in _LAUNCHERS:
        return _after_launcher(words, 1, folder)
    if first == _ACCELERATE and words[1:2] == ["launch"]:
        return _after_launcher(words, 2, folder)
    if first.endswith((".py", ".pyw", ".pyz")):
        return Target(TargetKind.SCRIPT, words[0], tuple(words[1:]), interpreter, folder=folder)
    for position, word in enumerate(words):
        if _PYTHON.match(PurePath(word).name):
            options, rest = _python_options(words[position + 1 :])
            named = interpreter if interpreter and word == PurePath(word).name else word
            return _after_python(rest, options, named, tuple(words[:position]), folder)
        if PurePath(word).name in _LAUNCHERS and position:
            return _after_launcher(words, position + 1, folder)
    return Target(TargetKind.COMMAND, words[0], tuple(words[1:]), "", folder=folder)


def read_running(text: str) -> str:
    """The program that already runs, as ``Target.program`` names it: ``1234``, ``job 77`` or ``any``.

    Raises ``UnreadableCommand``.
    """
    process = text.strip().replace("job:", "job ")
    if process != "any" and not process.removeprefix("job ").isdecimal():
        raise UnreadableCommand(
            f"{text.strip() or 'Nothing'} is not a process. Use its process ID, as shown by ps or nvidia-smi."
        )
    return process


def _python_options(words: list[str]) -> tuple[tuple[str, ...], list[str]]:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "-c", "-"):
        at += 2 if words[at] in _PYTHON_OPTIONS_WITH_VALUE else 1
    return tuple(words[:at]), words[at:]


def _after_python(
    rest: list[str], options: tuple[str, ...], interpreter: str, before: tuple[str, ...], folder: str
) -> Target:
    if not rest:
        raise UnreadableCommand("the command names an interpreter and no script")
    if rest[0] in ("-c", "-"):
        raise UnreadableCommand("code on the command line (-c) cannot be recorded: put it into a file")
    if rest[0] == "-m":
        if len(rest) < 2:
            raise UnreadableCommand("-m needs the name of a module")
        if rest[1] in _LAUNCHER_MODULES:
            words = [*before, interpreter, *options, *rest]
            return _after_launcher(words, len(before) + 3 + len(options), folder)
        return Target(TargetKind.MODULE, rest[1], tuple(rest[2:]), interpreter, options, before, folder)
    return Target(TargetKind.SCRIPT, rest[0], tuple(rest[1:]), interpreter, options, before, folder)


def _after_launcher(words: list[str], start: int, folder: str) -> Target:
    at, module = start, False
    while at < len(words) and words[at].startswith("-"):
        word = words[at]
        if word in ("-m", "--module"):
            module = True
            del words[at]
            continue
        if word.split("=", 1)[0] in _NO_PYTHON:
            raise UnreadableCommand(f"{word} starts no Python script: name the script itself")
        at += 1 if "=" in word or word in _FLAGS else 2
    if at >= len(words):
        raise UnreadableCommand(f"no script follows {words[0]}")
    kind = TargetKind.MODULE if module else TargetKind.SCRIPT
    return Target(kind, words[at], tuple(words[at + 1 :]), "", (), tuple(words[:at]), folder)


def starts_python_itself(target: Target) -> bool:
    """Whether the launcher runs the interpreter (torchrun) instead of being given one (mpirun python ...)."""
    return bool(target.launcher) and not target.interpreter


def is_launcher_of_python(launcher: Sequence[str]) -> bool:
    """Whether words before a script name a launcher that picks the interpreter itself."""
    names = [PurePath(word).name for word in launcher]
    return (
        any(name in _LAUNCHERS for name in names)
        or names[:1] == [_ACCELERATE]
        or any(first == "-m" and module in _LAUNCHER_MODULES for first, module in pairwise(launcher))
    )


def how_often(target: Target) -> str:
    """How often a job of several machines runs the target's words.

    Once a ``node`` for a launcher that starts the ranks of a machine, once in the ``batch`` script for one that starts
    those of all, else once a ``task``.
    """
    launcher = target.launcher or ((target.program,) if target.kind is TargetKind.COMMAND else ())
    if launcher and PurePath(launcher[0]).name in _SPREADING:
        return "batch"
    return "node" if starts_python_itself(target) else "task"
