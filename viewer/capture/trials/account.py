"""What one launch of a trial wrote: one file of JSON lines a rank, read as values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from parsers.model.late import dataclass
from rules.trials.blocks import Block, whole_rounds
from viewer.capture.torch_runner.stallscope_recorder.trials.sites import MAX_SITES, Edit, Site

MAX_LINES = 100_000
MAX_TEXT = 400


@dataclass(frozen=True, slots=True)
class Account:
    """What a launch knows; ``against`` and ``refused`` give reasons, ``compiling_s`` seconds, by the name of a change.

    ``ended`` is "complete", "time", "stopped", "failed", or empty where nothing was timed. ``seen`` counts the steps
    that the launch could use, ``unfinished`` is the candidate that was being timed when it ended.
    """

    blocks: tuple[Block, ...] = ()
    against: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    program: Mapping[str, Any] = field(default_factory=dict)
    ended: str = ""
    together: tuple[str, ...] = ()
    steps: int = 0
    step_ns: float = 0.0
    seen: int = 0
    unfinished: str = ""
    losses: tuple[float | None, ...] = ()
    sites: tuple[Site, ...] = ()
    edits: Mapping[str, tuple[Edit, ...]] = field(default_factory=dict)
    compiling_s: Mapping[str, float] = field(default_factory=dict)


def account_of(files: Sequence[Path]) -> Account:
    """The account of a launch from the files of its ranks; lines that are cut off or damaged are left out."""
    ranks = [_of_rank(path.read_text("utf-8", "replace").splitlines()[:MAX_LINES]) for path in sorted(files)]
    if not ranks:
        return Account()
    first = ranks[0]
    shared = min(len(each.blocks) for each in ranks)
    blocks = tuple(
        replace(
            first.blocks[number],
            ns=max(each.blocks[number].ns for each in ranks),
            elements=sum(each.blocks[number].elements for each in ranks),
            peak_bytes=_largest(each.blocks[number].peak_bytes for each in ranks),
        )
        for number in range(shared)
    )
    return replace(
        first,
        blocks=blocks,
        ended="failed" if any(each.ended == "failed" for each in ranks) else first.ended,
        against={name: reason for each in reversed(ranks) for name, reason in each.against.items()},
        refused={name: reason for each in reversed(ranks) for name, reason in each.refused.items()},
    )


def joined(first: Account, second: Account) -> Account:
    """The account of a trial that was launched again: the whole rounds of both."""
    return replace(
        second,
        blocks=(*whole_rounds(first.blocks), *whole_rounds(second.blocks)),
        against={**first.against, **second.against},
        refused={**first.refused, **second.refused},
        program=second.program or first.program,
        steps=second.steps or first.steps,
        step_ns=second.step_ns or first.step_ns,
        sites=second.sites or first.sites,
        edits={**first.edits, **second.edits},
        compiling_s={**first.compiling_s, **second.compiling_s},
    )


def block_of(line: Mapping[str, Any]) -> Block | None:
    """The block that a line tells of; None for any other line."""
    if line.get("kind") != "block":
        return None
    steps, ns = _number(line.get("steps")), _number(line.get("slowest_ns"))
    if steps < 1 or ns <= 0:
        return None
    peak = line.get("peak_bytes")
    return Block(
        _text(line.get("candidate")),
        line.get("variant") == "B",
        int(steps),
        ns,
        max(_number(line.get("elements")), 0.0),
        int(peak) if isinstance(peak, int) else None,
        max(_number(line.get("settle_ns")), 0.0),
        _texts(line.get("changes")),
    )


def _of_rank(lines: Iterable[str]) -> Account:
    found = Account()
    blocks: list[Block] = []
    against: dict[str, str] = {}
    refused: dict[str, str] = {}
    edits: dict[str, tuple[Edit, ...]] = {}
    compiling: dict[str, float] = {}
    for text in lines:
        line = _object(text)
        kind = line.get("kind")
        if kind == "candidate":
            compiling[_text(line.get("name"))] = max(_number(line.get("compiling_s")), 0.0)
        if kind == "candidate" and isinstance(line.get("edits"), list):
            edits[_text(line.get("name"))] = tuple(map(_edit, _objects(line["edits"])))
        if (block := block_of(line)) is not None:
            blocks.append(block)
        elif kind == "candidate" and line.get("against"):
            against[_text(line.get("name"))] = _text(line["against"])
        elif kind == "refused":
            refused.setdefault(_text(line.get("candidate")), _text(line.get("reason")))
        elif kind == "program":
            found = replace(
                found,
                program={key: _plain(each) for key, each in line.items() if key not in ("kind", "sites")},
                sites=tuple(map(_site, _objects(line.get("sites"))[:MAX_SITES])),
            )
        elif kind == "steps":
            found = replace(
                found, steps=int(_number(line.get("steps"))), step_ns=_number(line.get("step_ns"))
            )
        elif kind == "end":
            found = replace(
                found,
                ended=_text(line.get("reason")),
                together=_texts(line.get("together")),
                seen=int(_number(line.get("steps"))),
                unfinished=_text(line.get("unfinished")),
            )
        elif kind == "losses" and isinstance(line.get("values"), list):
            found = replace(found, losses=tuple(_loss(each) for each in line["values"]))
    return replace(
        found, blocks=tuple(blocks), against=against, refused=refused, edits=edits, compiling_s=compiling
    )


def _site(data: Mapping[str, Any]) -> Site:
    return Site(
        _text(data.get("what")),
        _text(data.get("file")),
        int(_number(data.get("line"))),
        int(_number(data.get("column"))),
        _text(data.get("function")),
        _text(data.get("called")),
    )


def _edit(data: Mapping[str, Any]) -> Edit:
    arguments = data.get("arguments")
    pairs = (
        [each for each in arguments if isinstance(each, list) and len(each) == 2]
        if isinstance(arguments, list)
        else []
    )
    return Edit(
        _text(data.get("at")),
        tuple((_text(name), _text(value)) for name, value in pairs),
        _texts(data.get("without")),
        _text(data.get("around")),
        _text(data.get("after")),
        _text(data.get("once")),
    )


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _object(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _number(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e18 else 0.0


def _loss(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 1e300 else None


def _text(value: Any) -> str:
    return str(value if value is not None else "")[:MAX_TEXT]


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float) else _text(value)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_text, value)) if isinstance(value, list) else ()


def _largest(peaks: Iterable[int | None]) -> int | None:
    return max((each for each in peaks if each is not None), default=None)
