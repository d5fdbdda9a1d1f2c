"""The counters tab: what Nsight Compute measured for the selected kernel, where a report was opened as well."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from parsers.model.units import capital
from viewer.appearance.labels import Label
from viewer.panels.panel import Panel, tab

if TYPE_CHECKING:
    from viewer.panels.kernel.kernel_details import KernelDetails


@tab
class CountersPanel(Panel):
    """Shows the profiled launch that stands for the selected kernel, and how sure that is."""

    title: ClassVar[str] = "Counters"
    lacks: ClassVar[str] = (
        "Hardware counters were not recorded. Open a report of Nsight Compute together with the timeline."
    )
    order: ClassVar[int] = 90

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
