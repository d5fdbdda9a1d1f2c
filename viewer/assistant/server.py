"""The server that assistants talk to on standard input and output: its tools, and the page that explains them."""

from __future__ import annotations

import functools
import json
import queue
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

import resources
from parsers.helper_process import HelperProcess
from parsers.model import TraceError
from viewer.assistant import answers
from viewer.assistant.recordings import Recordings, Refused
from viewer.terminal.console import program_version

PATIENCE_S = 120.0
PAINTER = __name__.replace("assistant.server", "screenshot")  # wherever this package lies


def picture(paths: Sequence[Path], start_ns: int, end_ns: int) -> bytes:
    """The window's timeline around [start, end) as PNG. Raises ``Refused`` where it cannot be painted."""
    margin = max((end_ns - start_ns) // 2, 1_000)
    wanted = {
        "paths": [str(path) for path in paths],
        "span": f"{max(start_ns - margin, 0)}ns-{end_ns + margin}ns",
    }
    try:
        helper = HelperProcess(
            PAINTER, json.dumps(wanted).encode(), pieces=lambda pipe: [pipe.read()], own_group=True
        )
    except OSError as error:
        raise Refused(f"The picture could not be painted: {error.strerror or error}.") from None
    try:
        painted = helper.next(PATIENCE_S)
    except queue.Empty:
        painted = None
    helper.end()
    if not painted:
        raise Refused("The picture could not be painted. The places say where it is.")
    return painted


P = ParamSpec("P")
T = TypeVar("T")
GUIDE = "stallscope://guide"


def guide() -> str:
    """The page that an assistant reads first."""
    return resources.path("assistant-guide.md").read_text("utf-8")


def server(recordings: Recordings) -> MCPServer[Any]:
    """A server over these recordings; every tool only reads."""
    made: MCPServer[Any] = MCPServer(
        "stallscope", title="Stallscope", version=program_version(), instructions=guide(), log_level="ERROR"
    )
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    def tool(title: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
        def register(work: Callable[P, T]) -> Callable[P, T]:
            @functools.wraps(work)
            def told(*args: P.args, **kwargs: P.kwargs) -> T:
                try:
                    return work(*args, **kwargs)
                except (Refused, TraceError) as error:
                    raise ToolError(str(error)) from None

            made.tool(title=title, annotations=reads, structured_output=False)(told)
            return told

        return register

    def span(start_ns: int | None, end_ns: int | None) -> tuple[int, int] | None:
        if start_ns is None or end_ns is None:
            return None
        if end_ns < start_ns:
            raise Refused("A span ends before it begins.")
        return start_ns, end_ns

    @made.resource(GUIDE, title="How to ask Stallscope", mime_type="text/markdown")
    def the_guide() -> str:
        """How to ask, in which order, and what the numbers mean."""
        return guide()

    @tool("What can be opened")
    def list_recordings() -> list[str]:
        """The paths of all recordings that may be opened."""
        return recordings.listed()

    @tool("Open a recording")
    def open_recording(path: str | list[str]) -> dict[str, Any]:
        """What a recording is: its files, length, GPUs, steps and notes. Several paths are ranks of one run."""
        return answers.about(recordings.analysis(path))

    @tool("What is slow, and why")
    def diagnose(path: str | list[str]) -> str:
        """The whole diagnosis as text: verdict, where the time goes, fixes with their gain, numbered findings."""
        return answers.diagnosis(recordings.analysis(path))

    @tool("Where the time goes")
    def budget(
        path: str | list[str], start_ns: int | None = None, end_ns: int | None = None
    ) -> dict[str, Any]:
        """Parts of the time of each GPU, which add up to the analysed time or to the span."""
        analysis = recordings.analysis(path)
        return answers.table(analysis, "budget", answers.MOST_ROWS, span(start_ns, end_ns))

    @tool("Tables")
    def tables(
        path: str | list[str] | None = None,
        name: str | None = None,
        rows: int = answers.USUAL_ROWS,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> dict[str, Any]:
        """The names of all tables; with path and name the first rows of one, such as operator_summary."""
        if path is None or name is None:
            return answers.tables()
        return answers.table(recordings.analysis(path), name, rows, span(start_ns, end_ns))

    @tool("Ready-made questions")
    def questions() -> dict[str, str]:
        """The names that `query` takes in place of SQL: reports of nsys stats, of HTA, of torch.profiler ..."""
        return answers.ready_made()

    @tool("Ask in SQL")
    def query(path: str | list[str], sql: str, rows: int = answers.USUAL_ROWS) -> dict[str, Any]:
        """Answer one SELECT (DuckDB) over the tables, or a ready-made question by its name."""
        return answers.query(recordings.analysis(path), sql, rows)

    @tool("Explain a finding")
    def explain(path: str | list[str], finding: int) -> dict[str, Any]:
        """Everything about one finding of `diagnose`, by its number: figures, advice, how its rule decides."""
        return answers.explanation(recordings.analysis(path), finding)

    @tool("Show a finding")
    def evidence(path: str | list[str], finding: int, place: int = 1) -> list[Any]:
        """Where to see a finding: its longest places, and a picture of one of them."""
        found = answers.places(recordings.analysis(path), finding)
        if not 1 <= place <= len(found):
            raise Refused(f"This finding has {len(found)} places, numbered from 1.")
        chosen = found[place - 1]
        names = [path] if isinstance(path, str) else path
        files = [recordings.allowed(each) for each in names]
        return [found, Image(data=picture(files, chosen["start_ns"], chosen["end_ns"]), format="png")]

    @tool("What fixing gives")
    def predictions(path: str | list[str], fixes: list[str] | None = None) -> str:
        """What each fix would give, as a band, from a replay of the recording; or several of them together."""
        return answers.predictions(recordings.analysis(path), fixes or ())

    @tool("Compare two recordings")
    def compare(before: str | list[str], after: str | list[str]) -> str:
        """Whether it got faster, by how much, why, and what is first now."""
        return answers.comparison(recordings.analysis(before), recordings.analysis(after))

    return made
