"""The tabs of profiled launches: the counters of the selected kernel, and all launches under the roofline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsers.model import Attribute
from parsers.model.units import capital
from viewer.appearance.widgets import Label
from viewer.panels.panel import Panel, tab

if TYPE_CHECKING:
    from rules.kernels.roofline import Roofline
    from viewer.panels.charts.roofline import RooflinePlot
    from viewer.panels.kernel.kernel_details import KernelDetails


@tab
class RooflinePanel(Panel):
    """The roofline beside a timeline: of profiled launches, else of operators as their shapes let one estimate."""

    title = "Roofline"
    lacks = (
        "Neither shapes nor hardware counters were recorded. "
        "Record with record_shapes=True, or open a report of Nsight Compute."
    )
    order = 100
    says_whole_run = True

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


@tab
class CountersPanel(Panel):
    """Shows the profiled launch that stands for the selected kernel, and how sure that is."""

    title = "Counters"
    lacks = "Hardware counters were not recorded. Open a report of Nsight Compute together with the timeline."
    order = 90

    def build(self) -> None:
        self._note = Label("", "secondary", pixels=12, wrap=True)
        self._note.setContentsMargins(14, 6, 14, 2)
        self.details: KernelDetails | None = None
        self.column.addWidget(self._note)
        self.column.addStretch(0)
        self.document.event_changed.connect(self.invalidate)

    def has_data(self) -> bool:
        trace = self.document.trace
        return trace is not None and bool(trace.kernels) and len(trace.events) > 0

    def refresh(self) -> None:
        from rules.kernels.join import kernel_join

        trace, event = self.document.trace, self.document.selected_event
        if trace is None:
            return
        join = kernel_join(trace)
        found = join.profile_of(event) if event >= 0 else None
        if found is None:
            if self.details is not None:
                self.details.hide()
            why = (
                "No counters were recorded for this event."
                if event >= 0
                else "Select a kernel to see its counters."
            )
            self._note.setText(
                f"{why} {join.matched:,} of {len(join.event):,} kernels of the timeline were profiled."
            )
            return
        kernel, certainty = found
        self._note.setText(f"{capital(certainty.text)}.")
        details = self._made_details()
        details.show_kernel(kernel)
        details.show()

    def _made_details(self) -> KernelDetails:
        if self.details is None:
            from viewer.panels.kernel.kernel_details import KernelDetails

            self.details = KernelDetails()
            self.column.insertWidget(1, self.details, 1)
        return self.details
