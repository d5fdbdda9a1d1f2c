"""The server that assistants talk to on standard input and output: its tools, and the page that explains them."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, ParamSpec, TypeVar

import anyio
import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

import resources
from parsers.files.private_folder import PrivateFolder
from parsers.helper_process import HelperProcess
from parsers.model import Cancelled, Progress, TraceError
from viewer.assistant import answers
from viewer.assistant.recordings import MAX_OPEN, MAX_WAITING, Recordings, Refused
from viewer.query.errors import QueryError, shortened
from viewer.terminal.console import program_version
from viewer.terminal.exit_codes import DONE

MAX_PAINTING_S = 120.0
MAX_SAID = 500  # characters of what is said instead of an answer
PAINTER = __name__.replace("assistant.server", "screenshot")  # wherever this package lies
_LOOK_EVERY_S = 0.05
_progress: ContextVar[Progress] = ContextVar("progress")  # of the call that a thread works on


def picture(paths: Sequence[Path], start_ns: int, end_ns: int, progress: Progress) -> bytes:
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
    painted, until = None, time.monotonic() + MAX_PAINTING_S
    try:
        while time.monotonic() < until:
            progress.step(0.0, "painting")
            with contextlib.suppress(queue.Empty):
                painted = helper.next(_LOOK_EVERY_S)
                break
    finally:
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


class _Server(MCPServer[Any]):
    """What is wrong with a call is said in a sentence, however long the call is."""

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if len(str(error)) <= MAX_SAID:
                raise
            raise ToolError(shortened(str(error), MAX_SAID)) from None


def serve(recordings: Recordings) -> None:
    """Serve until standard input ends, nobody reads the output, or SIGTERM; the process ends with it.

    It ends whatever its threads still wait for: nobody is there to hear it.
    """

    def end(number: int = 0, _: FrameType | None = None) -> None:
        recordings.close()
        with contextlib.suppress(RuntimeError):  # one is being made in this very moment
            PrivateFolder.remove_all()  # a call that nobody waits for may have made one meanwhile
        os._exit(128 + number if number else DONE)

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=_until_nobody_reads, args=(os.dup(1), end), daemon=True).start()
    try:
        server(recordings).run("stdio")
    except* OSError:  # the output is gone
        pass
    except* KeyboardInterrupt:
        end(signal.SIGINT)
    end()


def _until_nobody_reads(output: int, end: Callable[[], None]) -> None:
    """A pipe tells at once that its reader is gone, whether or not there is something to write."""
    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(output, 0)  # errors alone
        poll.poll()
        end()


def server(recordings: Recordings) -> MCPServer[Any]:
    """A server over these recordings; every tool only reads."""
    made = _Server(
        "stallscope", title="Stallscope", version=program_version(), instructions=guide(), log_level="ERROR"
    )
    reads = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

    threads = anyio.CapacityLimiter((MAX_OPEN + 1) * MAX_WAITING)

    def tool(title: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
        def register(work: Callable[P, T]) -> Callable[P, T]:
            @functools.wraps(work)
            async def told(*args: P.args, **kwargs: P.kwargs) -> T:
                progress = Progress()
                _progress.set(progress)
                try:
                    call = functools.partial(work, *args, **kwargs)
                    return await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=threads)
                except (Refused, TraceError, QueryError) as error:
                    raise ToolError(str(error)) from None
                except Cancelled:
                    raise ToolError("It was stopped.") from None
                finally:
                    progress.cancel()  # the thread of a call that was given up ends what it started

            made.tool(title=title, annotations=reads, structured_output=False)(told)
            return work

        return register

    def asked(tool: Callable[..., T], *runs: str | list[str], **arguments: Any) -> T:
        """What a function of ``answers`` says of these recordings. Raises ``Refused``."""
        content = recordings.ask(runs, answers.told, _progress.get(), tool=tool.__name__, arguments=arguments)
        said = json.loads(content)
        if "refused" in said:
            raise Refused(said["refused"])
        answer: T = said["answer"]
        return answer

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
        return asked(answers.about, path)

    @tool("What is slow, and why")
    def diagnose(path: str | list[str]) -> str:
        """The whole diagnosis as text: verdict, where the time goes, fixes with their gain, numbered findings."""
        return asked(answers.diagnosis, path)

    @tool("Where the time goes")
    def budget(
        path: str | list[str], start_ns: int | None = None, end_ns: int | None = None
    ) -> dict[str, Any]:
        """Parts of the time of each GPU, which add up to the analysed time or to the span."""
        every = answers.MAX_ROWS
        return asked(answers.table, path, name="budget", rows=every, span=span(start_ns, end_ns))

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
        return asked(answers.table, path, name=name, rows=rows, span=span(start_ns, end_ns))

    @tool("Ready-made questions")
    def questions() -> dict[str, str]:
        """The names that `query` takes in place of SQL: reports of nsys stats, of HTA, of torch.profiler ..."""
        return answers.ready_made()

    @tool("Ask in SQL")
    def query(path: str | list[str], sql: str, rows: int = answers.USUAL_ROWS) -> dict[str, Any]:
        """Answer one SELECT (DuckDB) over the tables, or a ready-made question by its name."""
        return asked(answers.query, path, sql=sql, rows=rows)

    @tool("Explain a finding")
    def explain(path: str | list[str], finding: int) -> dict[str, Any]:
        """Everything about one finding of `diagnose`, by its number: figures, advice, how its rule decides."""
        return asked(answers.explanation, path, finding=finding)

    @tool("Show a finding")
    def evidence(path: str | list[str], finding: int, place: int = 1) -> list[Any]:
        """Where to see a finding: its longest places, and a picture of one of them."""
        found = asked(answers.places, path, finding=finding)
        if not 1 <= place <= len(found):
            raise Refused(f"This finding has {len(found)} places, numbered from 1.")
        chosen = found[place - 1]
        painted = picture(recordings.files_of(path), chosen["start_ns"], chosen["end_ns"], _progress.get())
        return [found, Image(data=painted, format="png")]

    @tool("What fixing gives")
    def predictions(path: str | list[str], fixes: list[str] | None = None) -> str:
        """What each fix would give, as a band, from a replay of the recording; or several of them together."""
        return asked(answers.predictions, path, fixes=fixes or [])

    @tool("Compare two recordings")
    def compare(before: str | list[str], after: str | list[str]) -> str:
        """Whether it got faster, by how much, why, and what is first now."""
        return asked(answers.comparison, before, after)

    return made
