"""What a log of torch.compile says, as tables: their titles and columns."""

from __future__ import annotations

from parsers.model.results import titled

COMPILATIONS_TITLE = "Compilations"
COMPILATIONS = titled(
    "function",
    "place",
    "compilation",
    "start (s)",
    "took (s)",
    "backend (s)",
    "operators",
    "compiled again because",
    "failed because",
)
GRAPH_BREAKS_TITLE = "Graph breaks"
GRAPH_BREAK_AT = "graph break at "  # before the place, of a mark on the timeline
GRAPH_BREAKS = titled("place", "reason", "times", "first (s)", "hint")
