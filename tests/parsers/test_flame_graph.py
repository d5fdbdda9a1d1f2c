"""Flame graphs as SVG: what py-spy wrote, the layout of the script for perf, and drawings that mean harm."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from parsers import open_trace
from parsers.files.base import parser_of
from parsers.files.source import identify
from parsers.model import Trace, TraceError
from parsers.stacks.timeline import COUNTED_NS

HEAD = '<?xml version="1.0" standalone="no"?>\n<svg version="1.1" width="1200"><!--Flame graph stack visualization.-->'
Stacks = dict[tuple[str, ...], int]


def box(name: str, samples: int, row: int, places: str, of: int = 10) -> str:
    title = f"{escape(name)} ({samples:,} samples, {100 * samples / of:.2f}%)"
    return (
        f'<g class="func_g"><title>{title}</title><rect {places} y="{row}" height="15.0" fill="red" /></g>\n'
    )


def drawn(stacks: Stacks, *, upwards: bool) -> str:
    """As flamegraph.pl draws it: in pixels with one digit, the frame below all others at the bottom or the top."""
    whole = sum(stacks.values())
    boxes: list[str] = []

    def draw(prefix: tuple[str, ...], begins: int, depth: int) -> int:
        inside: dict[tuple[str, ...], int] = defaultdict(int)
        own = stacks.get(prefix, 0)
        for stack, count in stacks.items():
            if len(stack) > len(prefix) and stack[: len(prefix)] == prefix:
                inside[stack[: len(prefix) + 1]] += count
        at = begins
        for each, count in sorted(inside.items()):
            draw(each, at, depth + 1)
            at += count
        samples = own + sum(inside.values())
        row = 900 - 16 * depth if upwards else 100 + 16 * depth
        left, width = (10 + each * 1180 / whole for each in (begins, samples))
        places = f'x="{left:.1f}" width="{width - 10:.1f}"'
        boxes.append(box(prefix[-1] if prefix else "all", samples, row, places, whole))
        return samples

    draw((), 0, 0)
    return HEAD + "".join(boxes) + "</svg>"


def opened(folder: Path, text: str) -> Trace:
    path = folder / "graph"
    path.write_text(text)
    return open_trace([path])


def samples_of(trace: Trace) -> dict[tuple[int, str], int]:
    """Samples of each name at each depth."""
    found: dict[tuple[int, str], int] = defaultdict(int)
    table = trace.events
    for row, (depth, start, end) in enumerate(
        zip(table.depth.tolist(), table.start.tolist(), table.end.tolist(), strict=True)
    ):
        found[depth, trace.name(row)] += (end - start) // COUNTED_NS
    return dict(found)


def test_what_py_spy_drew_has_all_its_samples(fixtures: Path) -> None:
    found = samples_of(open_trace([fixtures / "stacks" / "feed.flame.svg"]))
    assert sum(count for (depth, _), count in found.items() if depth == 0) == 501
    assert sum(count for (_, name), count in found.items() if name == "feed.py(23): compress") == 204


@pytest.mark.parametrize("upwards", [True, False])
def test_stacks_are_what_lies_over_one_another(tmp_path: Path, upwards: bool) -> None:
    stacks: Stacks = {
        ("main", "load"): 3,
        ("main", "std::vector<int>::push_back"): 2,
        ("main",): 4,
        ("work", "load"): 1,
    }
    assert samples_of(opened(tmp_path, drawn(stacks, upwards=upwards))) == {
        (0, "main"): 9,
        (1, "load"): 4,
        (1, "std::vector<int>::push_back"): 2,
        (0, "work"): 1,
    }


def test_a_frame_whose_caller_was_cut_off_is_left_out(tmp_path: Path) -> None:
    kept = box("all", 10, 100, 'fg:x="0" fg:w="10"') + box("main", 10, 116, 'fg:x="0" fg:w="10"')
    lost = box("inner", 4, 148, 'fg:x="2" fg:w="4"')
    other = box("outer", 1, 132, 'fg:x="8" fg:w="1"')
    assert samples_of(opened(tmp_path, HEAD + kept + lost + other)) == {(0, "main"): 10, (1, "outer"): 1}


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "</svg>",
        HEAD + "<g><title>main</title><rect x='1' y='2'/></g></svg>",
        HEAD + box("all", 10, 100, 'fg:x="0" fg:w="10"'),
    ],
)
def test_a_flame_graph_without_frames_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError):
        opened(tmp_path, text)


@pytest.mark.parametrize(
    "text", ["<svg><!-- a drawing --></svg>", "a flamegraph <svg>", "<html><svg>flamegraph"]
)
def test_other_drawings_are_no_flame_graphs(text: str, tmp_path: Path) -> None:
    path = tmp_path / "drawing.svg"
    path.write_text(text)
    parser = parser_of(identify(path))
    assert parser is None or parser.format != "flame-graph"


@given(
    st.dictionaries(
        st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(tuple),
        st.integers(1, 9),
        min_size=1,
        max_size=8,
    ),
    st.binary(max_size=60),
)
@example({("a",): 1, ("a", "a", "a"): 1}, b"")
def test_any_drawing_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, stacks: Stacks, noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("graphs") / "graph"
    text = drawn(stacks, upwards=True).encode()
    path.write_bytes(text)
    found = samples_of(open_trace([path]))
    assert sum(count for (depth, _), count in found.items() if depth == 0) == sum(stacks.values())
    path.write_bytes(text[: len(text) * 2 // 3] + noise + text[len(text) * 2 // 3 :])
    try:
        open_trace([path])
    except TraceError:
        return
