"""One run told in another way - order, clock, file names, numbers of threads and GPUs - gets the same diagnosis."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from parsers import open_trace
from rules import Diagnosis, diagnose
from tests.examples import one_of
from tests.opened import diagnosed

YEAR_US = 365 * 24 * 3600 * 1_000_000
Content = dict[str, Any]


def judged(paths: Sequence[Path]) -> list[tuple[Any, ...]]:
    return summary(diagnose(open_trace(list(paths))))


def summary(diagnosis: Diagnosis) -> list[tuple[Any, ...]]:
    assert diagnosis.crashed == {}
    return [
        (each.rule, each.severity, each.title, each.culprit.text, each.rank) for each in diagnosis.findings
    ]


def shuffled(content: Content) -> None:
    random.Random(11).shuffle(content["traceEvents"])


def a_year_later(content: Content) -> None:
    for event in content["traceEvents"]:
        if "ts" in event:
            event["ts"] += YEAR_US


def on_other_threads(content: Content) -> None:
    """Processes and threads of the CPU get other numbers; a process's first thread keeps that number."""
    gpus = {event["pid"] for event in content["traceEvents"] if event.get("cat") == "kernel"}
    for event in content["traceEvents"]:
        if isinstance(event.get("pid"), int) and event["pid"] not in gpus:
            event["pid"] = 1_000_003 - event["pid"]
            if isinstance(event.get("tid"), int):
                event["tid"] = 1_000_003 - event["tid"]


def on_another_gpu(content: Content) -> None:
    """The GPU that worked gets the number of the last one that the recording lists."""
    worked = next(event["pid"] for event in content["traceEvents"] if event.get("cat") == "kernel")
    other = content["deviceProperties"][-1 if worked == 0 else 0]["id"]
    swap = {worked: other, other: worked}
    for event in content["traceEvents"]:
        arguments = event.get("args", {})
        on_gpu = "stream" in arguments or event.get("ph") == "M" or event.get("cat") == "ac2g"
        if on_gpu and event.get("pid") in swap:
            event["pid"] = swap[event["pid"]]
        if arguments.get("device") in swap:
            arguments["device"] = swap[arguments["device"]]


def retold(paths: Sequence[Path], folder: Path, *changes: Callable[[Content], None]) -> list[Path]:
    """The ranks changed, under names that say nothing, in another order."""
    found = []
    for number, path in enumerate(paths):
        content = json.loads(gzip.decompress(path.read_bytes()))
        for change in changes:
            change(content)
        found.append(folder / f"{'zyxwv'[number]} healthy.json")
        found[-1].write_text(json.dumps(content), "utf-8")
    return found[1:] + found[:1]


@pytest.mark.parametrize(
    ("run", "changes"),
    [
        ("variants/straggler_python0", (shuffled, a_year_later, on_other_threads, on_another_gpu)),
        *(
            pytest.param(run, changes, marks=pytest.mark.thorough)
            for run, changes in (
                ("variants/straggler_input", (shuffled, a_year_later, on_other_threads)),
                ("variants/straggler_python0", (on_another_gpu,)),
                ("ddp/no_overlap", (shuffled,)),
                ("variants/input_dl_workers", (shuffled, a_year_later, on_other_threads)),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(change.__name__ for change in value),
)
def test_ranks_told_in_another_way_get_the_same_diagnosis(
    fixtures: Path, tmp_path: Path, run: str, changes: tuple[Callable[[Content], None], ...]
) -> None:
    folder, name = run.split("/")
    paths = sorted((fixtures / folder).glob(f"{name}.*"))
    expected = summary(diagnosed(*paths))
    assert expected
    assert judged(retold(paths, tmp_path, *changes)) == expected


def tables(connection: sqlite3.Connection, column: str) -> list[str]:
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        name
        for name in names
        if column in [row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')]
    ]


@pytest.mark.parametrize("name", one_of(3, ["allocator_thrash", "dataloader_starved", "decode_graph"]))
def test_an_export_told_in_another_way_gets_the_same_diagnosis(
    fixtures: Path, tmp_path: Path, name: str
) -> None:
    """Rows in another order, a year later, thread numbers changed, the file renamed."""
    original, other = tmp_path / f"{name}.sqlite", tmp_path / "healthy.db"
    content = gzip.decompress((fixtures / "nsys" / f"{name}.sqlite.gz").read_bytes())
    original.write_bytes(content)
    other.write_bytes(content)
    connection = sqlite3.connect(other)
    connection.create_function("random_order", 1, lambda row: random.Random(row).random(), deterministic=True)
    for column in ("start", "end"):
        for table in tables(connection, column):
            connection.execute(f'UPDATE "{table}" SET "{column}" = "{column}" + {YEAR_US * 1000}')
    for column in ("globalTid", "endGlobalTid"):
        for table in tables(connection, column):
            connection.execute(
                f'UPDATE "{table}" SET "{column}" = "{column}" - ("{column}" & 16777215) '
                f'+ (16777000 - ("{column}" & 16777215)) WHERE "{column}" IS NOT NULL'
            )
    for table in tables(connection, "start"):
        connection.execute(f'CREATE TABLE moved AS SELECT * FROM "{table}" ORDER BY random_order(rowid)')
        connection.execute(f'DROP TABLE "{table}"')
        connection.execute(f'ALTER TABLE moved RENAME TO "{table}"')
    connection.commit()
    connection.close()
    expected = judged([original])
    assert expected
    assert judged([other]) == expected
