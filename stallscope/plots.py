"""Pictures of a run as matplotlib figures, which nobody shows but who asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from parsers.model.units import NS_PER_MS
from viewer.appearance import palette

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Tables(Protocol):
    """What is drawn: a run or its slice."""

    @property
    def budget(self) -> pd.DataFrame:
        """Where the time went."""

    @property
    def steps(self) -> pd.DataFrame:
        """The steps."""

    def table(self, name: str) -> pd.DataFrame:
        """Any other table."""


class Plots:
    """Each method makes one figure of the run or its slice."""

    def __init__(self, run: Tables) -> None:
        self._run = run

    def budget(self) -> Figure:
        """Where the time of each GPU went, as bars of shares."""
        figure, axes = _empty(8, 0.6 * max(self._run.budget["name"].nunique(), 1) + 1.2)
        table = self._run.budget.pivot(index="name", columns="part", values="time_share").fillna(0.0)
        left = 0 * table.iloc[:, 0] if table.shape[1] else None
        for part in self._run.budget["part"].drop_duplicates():
            axes.barh(table.index, 100 * table[part], left=left, color=palette.part(str(part)), label=part)
            left = table[part] * 100 + left
        axes.set_xlabel("% of the time")
        axes.set_xlim(0, 100)
        axes.invert_yaxis()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=4, frameon=False)
        return figure

    def kernels(self, most: int = 15) -> Figure:
        """The kernels that take most time, as bars of milliseconds."""
        table = self._run.table("kernel_summary").head(most)
        figure, axes = _empty(8, 0.3 * max(len(table), 1) + 1.0)
        axes.barh(
            table["short_name"].str.slice(0, 48), table["total_ns"] / NS_PER_MS, color=palette.part("compute")
        )
        axes.set_xlabel("ms on the GPU")
        axes.invert_yaxis()
        return figure

    def steps(self) -> Figure:
        """The length of each step, one line a rank."""
        figure, axes = _empty(8, 3)
        table = self._run.steps
        rank = table["rank"].fillna(-1)
        for each in sorted(rank.unique()):
            lengths = table["duration_ns"][rank == each] / NS_PER_MS
            axes.plot(range(len(lengths)), lengths, marker=".", label=f"rank {each}" if each >= 0 else "")
        axes.set_xlabel("step")
        axes.set_ylabel("ms")
        axes.set_ylim(bottom=0)
        if axes.get_legend_handles_labels()[1]:
            axes.legend(frameon=False)
        return figure


def _empty(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure that no window shows. Raises ``ImportError`` with a hint."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'stallscope[plot]'") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()
