"""What a log of torch.compile says, as tables: their titles and columns."""

from __future__ import annotations

from parsers.model.results import ResultColumn

COMPILATIONS_TITLE = "Compilations"
COMPILATIONS = (
    ResultColumn("function"),
    ResultColumn("place"),
    ResultColumn("compilation"),
    ResultColumn("start", "s"),
    ResultColumn("took", "s"),
    ResultColumn("backend", "s"),
    ResultColumn("operators"),
    ResultColumn("compiled again because"),
    ResultColumn("failed because"),
)
GRAPH_BREAKS_TITLE = "Graph breaks"
GRAPH_BREAK_AT = "graph break at "  # before the place, of a mark on the timeline
GRAPH_BREAKS = (
    ResultColumn("place"),
    ResultColumn("reason"),
    ResultColumn("times"),
    ResultColumn("first", "s"),
    ResultColumn("hint"),
)
