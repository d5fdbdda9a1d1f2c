"""A plot in the colours of the theme, whose axes write numbers as they are."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg

from viewer.appearance import theme


class Axis(pg.AxisItem):  # type: ignore[misc]
    """Ticks in the units of its label: the library would rescale them, even where it was told not to."""

    def updateAutoSIPrefix(self) -> None:
        self._updateLabel()


class Plot(pg.PlotWidget):  # type: ignore[misc]
    """Without menu and buttons; ``label_axes`` anew for every theme."""

    def __init__(self, **axes: Any) -> None:
        super().__init__(axisItems={"bottom": Axis("bottom"), "left": Axis("left")} | axes)
        self.setMenuEnabled(False)
        # it ends with the plot: Python would end it whenever it collects garbage
        menu = self.getPlotItem().ctrlMenu
        menu.setParent(self, menu.windowFlags())
        self.hideButtons()

    def label_axes(self, bottom: str, left: str) -> None:
        """Say what the axes measure, and take over the colours of the theme."""
        colors = theme.current()
        self.setBackground(colors.panel)
        for side, text in (("bottom", bottom), ("left", left)):
            axis = self.getAxis(side)
            axis.setPen(pg.mkPen(colors.line_strong))
            axis.setTextPen(pg.mkPen(colors.text_secondary))
            axis.setTickFont(theme.font(theme.SECONDARY_PX))
            axis.setLabel(text, color=colors.text_secondary.name(), **{"font-size": "11px"})
        self.showGrid(x=True, y=True, alpha=0.12)
