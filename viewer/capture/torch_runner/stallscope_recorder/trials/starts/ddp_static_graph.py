"""A model that takes the same way each step, said to be so."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..catalogue import change
from ..ddp import DdpStart
from ..program import Program
from ..sites import Edit


@change
class DdpStaticGraph(DdpStart):
    """``DistributedDataParallel(static_graph=True)``."""

    name = "static-graph"
    title = "Declare the graph static (static_graph)"

    def reason_against(self, model: Any) -> Optional[str]:
        return "static_graph is already set" if getattr(model, "static_graph", False) else None

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        return (Edit("ddp", (("static_graph", "True"),), ("find_unused_parameters",)),)

    def changed(self, arguments: Dict[str, Any]) -> None:
        arguments["static_graph"] = True
        arguments["find_unused_parameters"] = False
