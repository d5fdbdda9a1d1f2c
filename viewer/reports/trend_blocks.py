"""Runs in their order as a report: a chart and a table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from viewer.reports.blocks import Chart, Form, Report, Table
from viewer.reports.pictures.charts import trend_chart
from viewer.reports.series_report import COLUMNS, Point, series_rows


def trend_report(name: str, points: Sequence[Point]) -> Report:
    """Each run with how it differs from the first and from the one before."""
    return Report(
        f"Step time of {name}",
        (
            Chart(partial(trend_chart, points), form=Form.PAGE),
            Table("", COLUMNS, series_rows(points), prose=(3, 4), few=len(points)),
        ),
    )
