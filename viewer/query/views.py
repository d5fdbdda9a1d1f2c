"""Views beside the tables: short names, the tables of Perfetto's trace processor, and functions for units.

Perfetto's tables are described at https://perfetto.dev/docs/analysis/sql-tables; here they hold what the model holds.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class View:
    """A view over other tables: what one row is, its columns, and the query that it is."""

    about: str
    columns: tuple[str, ...]
    sql: str


def _view(about: str, columns: str, sql: str) -> View:
    return View(about, tuple(columns.split()), sql)


SHORTER = {"calls": "api_calls"}  # view -> the table that it is
VIEWS: dict[str, View] = {
    "calls": _view(
        "the table api_calls by a shorter name",
        "event name start_ns end_ns duration_ns gpu_idle_ns operations region operator rank process thread",
        "SELECT * FROM api_calls",
    ),
    "slice": _view(
        "Perfetto: one event with a duration",
        "id ts dur track_id category name depth parent_id arg_set_id slice_id",
        """
        SELECT event AS id, start_ns AS ts, end_ns - start_ns AS dur, lane AS track_id, kind AS category, name, depth,
               (SELECT parent FROM parents WHERE parents.event = events.event) AS parent_id,
               event AS arg_set_id, event AS slice_id
        FROM events
        """,
    ),
    "process": _view(
        "Perfetto: one process",
        "upid id pid name",
        """
        SELECT row_number() OVER (ORDER BY rank NULLS FIRST, process) - 1 AS upid, upid AS id, process AS pid,
               any_value(process_name) AS name, rank
        FROM lanes WHERE process IS NOT NULL GROUP BY rank, process
        """,
    ),
    "thread": _view(
        "Perfetto: one thread",
        "utid id tid name upid is_main_thread",
        """
        SELECT row_number() OVER (ORDER BY lanes.rank NULLS FIRST, lanes.process, lanes.thread) - 1 AS utid, utid AS id,
               lanes.thread AS tid,
               coalesce(any_value(lanes.name) FILTER (lanes.kind = 'cpu_thread'), any_value(lanes.name)) AS name,
               any_value(process.upid) AS upid, lanes.thread = lanes.process AS is_main_thread, lanes.rank AS rank
        FROM lanes LEFT JOIN process
             ON process.pid = lanes.process AND process.rank IS NOT DISTINCT FROM lanes.rank
        WHERE lanes.thread IS NOT NULL GROUP BY lanes.rank, lanes.process, lanes.thread
        """,
    ),
    "track": _view(
        "Perfetto: one lane",
        "id name type",
        "SELECT lane AS id, name, kind AS type FROM lanes",
    ),
    "thread_track": _view(
        "Perfetto: one lane of a thread",
        "id name type utid",
        """
        SELECT lanes.lane AS id, lanes.name, lanes.kind AS type, thread.utid
        FROM lanes JOIN thread ON thread.tid = lanes.thread AND thread.rank IS NOT DISTINCT FROM lanes.rank
        """,
    ),
    "process_track": _view(
        "Perfetto: one lane of a process",
        "id name type upid",
        """
        SELECT lanes.lane AS id, lanes.name, lanes.kind AS type, process.upid
        FROM lanes JOIN process ON process.pid = lanes.process AND process.rank IS NOT DISTINCT FROM lanes.rank
        WHERE lanes.thread IS NULL
        """,
    ),
    "thread_slice": _view(
        "Perfetto: one event of a thread, with the names of thread and process",
        "id ts dur category name depth parent_id track_id arg_set_id utid tid thread_name upid pid process_name",
        """
        SELECT slice.id, slice.ts, slice.dur, slice.category, slice.name, slice.depth, slice.parent_id, slice.track_id,
               slice.arg_set_id, thread.utid, thread.tid, thread.name AS thread_name, process.upid, process.pid,
               process.name AS process_name
        FROM slice JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid)
        LEFT JOIN process USING (upid)
        """,
    ),
    "gpu_slice": _view(
        "Perfetto: one event on a GPU",
        "id ts dur category name depth track_id arg_set_id",
        """
        SELECT slice.id, slice.ts, slice.dur, slice.category, slice.name, slice.depth, slice.track_id,
               slice.arg_set_id
        FROM slice JOIN lanes ON slice.track_id = lanes.lane WHERE lanes.device IS NOT NULL
        """,
    ),
    "flow": _view(
        "Perfetto: from the call to what it launched",
        "id slice_out slice_in",
        "SELECT row_number() OVER () - 1 AS id, launch AS slice_out, operation AS slice_in FROM launches",
    ),
    "args": _view(
        "Perfetto: one argument of an event",
        "id arg_set_id flat_key key int_value string_value display_value",
        """
        SELECT row_number() OVER () - 1 AS id, event AS arg_set_id, key AS flat_key, key, number AS int_value,
               text AS string_value, coalesce(CAST(text AS VARCHAR), CAST(number AS VARCHAR)) AS display_value
        FROM arguments
        """,
    ),
    "counter_track": _view(
        "Perfetto: one counter",
        "id name unit",
        """
        SELECT row_number() OVER (ORDER BY name, rank NULLS FIRST, device NULLS FIRST) - 1 AS id, name, unit, rank,
               device
        FROM counters GROUP BY name, unit, rank, device
        """,
    ),
    "counter": _view(
        "Perfetto: one sample",
        "id ts track_id value",
        """
        SELECT row_number() OVER () - 1 AS id, counters.time_ns AS ts, counter_track.id AS track_id, counters.value
        FROM counters JOIN counter_track
             ON counter_track.name = counters.name AND counter_track.unit = counters.unit
            AND counter_track.rank IS NOT DISTINCT FROM counters.rank
            AND counter_track.device IS NOT DISTINCT FROM counters.device
        """,
    ),
    "trace_bounds": _view(
        "Perfetto: begin and end of the recording",
        "start_ts end_ts",
        "SELECT 0 AS start_ts, length_ns AS end_ts FROM recording",
    ),
}
FUNCTIONS: dict[str, View] = {
    name: _view(about, "", f"CREATE TEMP MACRO {name}{body}")
    for name, about, body in (
        ("us", "microseconds as ns: us(4)", "(count) AS CAST(round(count * 1e3) AS BIGINT)"),
        ("ms", "milliseconds as ns: ms(1.5)", "(count) AS CAST(round(count * 1e6) AS BIGINT)"),
        ("seconds", "seconds as ns: seconds(2)", "(count) AS CAST(round(count * 1e9) AS BIGINT)"),
        (
            "extract_arg",
            "Perfetto: one argument by its key: extract_arg(arg_set_id, 'grid')",
            # what is handed over may be called like a column of args: inside, columns have names of their own
            "(wanted_set, wanted_key) AS (SELECT any_value(value_) FROM (SELECT arg_set_id AS set_, "
            "CAST(key AS VARCHAR) AS key_, display_value AS value_ FROM args) "
            "WHERE set_ = wanted_set AND key_ = wanted_key)",
        ),
    )
}
