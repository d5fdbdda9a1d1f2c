"""The roofline tab: profiled launches, else operators as far as their shapes let one estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from parsers.model import Attribute
from viewer.panels.panel import Panel, tab

if TYPE_CHECKING:
    from rules.kernels.roofline import Roofline
    from viewer.panels.charts.roofline import RooflinePlot


@tab
class RooflinePanel(Panel):
    """The roofline beside a timeline: of profiled launches, else of operators as their shapes let one estimate."""

    title: ClassVar[str] = "Roofline"
    lacks: ClassVar[str] = (
        "Neither shapes nor hardware counters were recorded. "
        "Record with record_shapes=True, or open a report of Nsight Compute."
    )
    order: ClassVar[int] = 100
    says_whole_run: ClassVar[bool] = True

    def build(self) -> None:
        self.plot: RooflinePlot | None = None
        self._estimated: Roofline | None = None

    def has_data(self) -> bool:
        trace = self.document.trace
        if trace is None or not len(trace.events):
            return False
        return bool(trace.kernels) or (
            Attribute.INPUT_DIMS in trace.attributes and len(trace.links.operation) > 0
        )

    def refresh(self) -> None:
        trace = self.document.trace
        if trace is None:
            return
        self._estimated = None
        if trace.kernels:
            self._made_plot().show_kernels(trace.kernels)
            return

        def work() -> Roofline:
            from rules.kernels.operator_roofs import estimated_roofline

            return estimated_roofline(trace)

        def show(estimated: Roofline) -> None:
            if trace is self.document.trace:
                self._estimated = estimated
                self._made_plot().show_estimates(estimated)

        self.compute(work, show)

    def _made_plot(self) -> RooflinePlot:
        if self.plot is None:
            from viewer.panels.charts.roofline import RooflinePlot

            self.plot = RooflinePlot(low=True)
            self.plot.chosen.connect(self._select)
            self.column.addWidget(self.plot)
        return self.plot

    def _select(self, index: int) -> None:
        from rules.kernels.join import kernel_join

        trace = self.document.trace
        if trace is None or self.plot is None:
            return
        self.plot.mark(index)
        if self._estimated is not None:
            self.document.show_event(self._estimated.points[index].event)
        else:
            events = kernel_join(trace).events_of([trace.kernels[index]])
            if len(events):
                self.document.show_event(int(events[0]))
