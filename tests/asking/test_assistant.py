"""What assistants get: a whole session by the SDK's own client, bounded answers, and nothing beside what was named."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import anyio
import pytest

from parsers.model import Progress
from rules.analysis.analysis import Analysis
from viewer.assistant import answers
from viewer.assistant.recordings import Recordings, Refused
from viewer.cli import main
from viewer.query.errors import QueryError
from viewer.tables.table import summary_of

RUN = "torch/memory_stack.pt.trace.json.gz"
OTHER = "torch/elementwise_chain.pt.trace.json.gz"


def text_of(result: Any) -> str:
    """The text of an answer."""
    return "\n".join(part.text for part in result.content if part.type == "text")


@pytest.mark.thorough  # every day tests/asking/test_assistant_process.py has the server as a process
def test_a_session_over_standard_input_and_output(
    fixtures: Path, tmp_path: Path, repository: Path, memory_stack: Analysis
) -> None:
    for name in (RUN, OTHER):
        shutil.copy(fixtures / name, tmp_path)
    run, other = (str(tmp_path / Path(name).name) for name in (RUN, OTHER))

    from mcp import Client  # here: every worker collects this module, and few ever run a session
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def session(nowhere: TextIO) -> None:
        command = StdioServerParameters(
            command=sys.executable,
            args=["-m", "viewer", "mcp", str(tmp_path)],
            cwd=repository,
            env=dict(os.environ),
        )
        # Else it is what stood for standard error in the test that first loaded the SDK.
        async with Client(stdio_client(command, errlog=nowhere)) as client:
            tools = (await client.list_tools()).tools
            assert {tool.name for tool in tools} == {
                "budget", "compare", "diagnose", "evidence", "explain", "list_recordings", "open_recording",
                "predictions", "query", "questions", "tables",
            }  # fmt: skip
            assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
            assert run in text_of(await client.call_tool("list_recordings"))
            opened = json.loads(text_of(await client.call_tool("open_recording", {"path": run})))
            assert opened["events"] == len(memory_stack.trace.events)
            verdict = text_of(await client.call_tool("diagnose", {"path": run}))
            assert "What to change" in verdict
            top = json.loads(
                text_of(
                    await client.call_tool("tables", {"path": run, "name": "operator_summary", "rows": 3})
                )
            )
            assert [row[0] for row in top["rows"]] == summary_of(memory_stack, "operator_summary")[
                "name"
            ].head(3).tolist()
            shown = await client.call_tool("evidence", {"path": other, "finding": 1})
            picture = next(part for part in shown.content if part.type == "image")
            assert picture.mime_type == "image/png"
            assert len(picture.data) > 5_000
            compared = text_of(await client.call_tool("compare", {"before": run, "after": other}))
            assert "before" in compared
            explained = text_of(await client.call_tool("explain", {"path": other, "finding": 1}))
            assert json.loads(explained)["how_the_rule_decides"]
            parts = json.loads(text_of(await client.call_tool("budget", {"path": run})))
            assert sum(row[2] for row in parts["rows"]) == memory_stack.window_ns
            gains = text_of(await client.call_tool("predictions", {"path": other}))
            assert "faster" in gains
            for hostile in (
                "/etc/hostname",
                f"{tmp_path}/../../etc/hostname",
                "file:///etc/hostname",
                "s3://a/b",
            ):
                refused = await client.call_tool("open_recording", {"path": hostile})
                assert refused.is_error
                assert re.search(
                    "Only existing files that were named|not the path of a recording", text_of(refused)
                )
            asked = await client.call_tool(
                "query", {"path": run, "sql": "SELECT * FROM read_csv('/etc/hostname')"}
            )
            assert asked.is_error

    with open(os.devnull, "w") as nowhere:
        anyio.run(session, nowhere)


def test_every_tool_answers_in_bounds(recordings: Mapping[str, Analysis]) -> None:
    progress = Progress()
    for name in ("torch with stacks and memory", "Nsight Systems of graphs", "XProf"):
        analysis = recordings[name]
        assert len(answers.diagnosis(analysis, progress)) <= answers.MAX_TEXT_LENGTH + 100
        assert len(answers.predictions(analysis, progress)) <= answers.MAX_TEXT_LENGTH + 100
        json.dumps(answers.about(analysis, progress), allow_nan=False)
        found = answers.query(analysis, progress, "SELECT kind FROM events", 10_000)
        assert len(found["rows"]) == min(answers.MAX_ROWS, found["rows_in_all"])
        json.dumps(found, allow_nan=False)
        parts = answers.table(analysis, progress, "budget")
        assert sum(row[2] for row in parts["rows"]) == analysis.window_ns * len(analysis.active_devices)
    run = recordings["torch with stacks and memory"]
    told = answers.explanation(run, progress, 1)
    assert told["how_the_rule_decides"]
    assert answers.places(run, progress, 1)
    half = answers.table(run, progress, "kernels", 5, (0, run.trace.duration // 2))
    assert len(half["rows"]) == 5
    for wrong in (
        lambda: answers.explanation(run, progress, 99),
        lambda: answers.predictions(run, progress, ["no-such-fix"]),
        lambda: answers.table(run, progress, "no_such_table"),
        lambda: answers.query(run, progress, "DROP VIEW kernels"),
    ):
        with pytest.raises((Refused, QueryError)):
            wrong()


def test_nothing_beside_what_was_named_is_opened(fixtures: Path, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        shutil.copy(fixtures / OTHER, folder / "run.json.gz")
    (inside / "link.json.gz").symlink_to(outside / "run.json.gz")
    (inside / "folder").symlink_to(outside)
    recordings = Recordings([inside])
    assert recordings.allowed("run.json.gz") == recordings.allowed(str(inside / "run.json.gz"))
    for hostile in (
        str(outside / "run.json.gz"),
        str(inside / ".." / "outside" / "run.json.gz"),
        "../outside/run.json.gz",
        "link.json.gz",
        "folder/run.json.gz",
        "/etc/passwd",
        "/proc/self/environ",
        "~/.ssh/id_rsa",
        "file:///etc/passwd",
        "s3://bucket/run.json.gz",
        "run.json.gz\0.txt",
        "nothing.json",
        "",
        "x" * 10_000,
    ):
        with pytest.raises(Refused):
            recordings.files_of(hostile)
    with pytest.raises(Refused):
        recordings.files_of(["run.json.gz", str(outside / "run.json.gz")])
    alone = Recordings([inside / "run.json.gz"])
    assert alone.files_of("run.json.gz") == (inside / "run.json.gz",)
    (inside / "other.json").write_text("[]")
    with pytest.raises(Refused):
        alone.files_of(str(inside / "other.json"))


def test_the_guide_is_one_page_and_names_what_there_is(tmp_path: Path) -> None:
    from mcp import Client

    from viewer.assistant.server import guide, server

    text = guide()
    assert len(text.splitlines()) < 60

    async def names() -> tuple[set[str], str]:
        async with Client(server(Recordings([tmp_path]))) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            page = await client.read_resource("stallscope://guide")
            return tools, page.contents[0].text

    tools, page = anyio.run(names)
    assert page == text
    assert all(f"`{name}`" in text for name in tools)


def test_what_is_not_there_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path / "nothing")]) == 2
    assert "no such file" in capsys.readouterr().err
