"""Two runs side by side, as plain values and frames."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from parsers.model.late import dataclass
from rules.comparison import compare as comparing
from stallscope.run import Run

if TYPE_CHECKING:
    import pandas as pd

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What changed; ``cautions`` say why the two may not be comparable."""

    verdict: str
    cautions: tuple[str, ...]
    _found: comparing.Comparison

    @classmethod
    def of(cls, before: Run | Path | Iterable[Path], after: Run | Path | Iterable[Path]) -> Comparison:
        """Compare two runs. Raises ``RecordingError`` where nothing in one can be set against the other."""
        found = comparing.compare(Run.of(before).trace, Run.of(after).trace)
        return cls(found.verdict, tuple(found.cautions), found)

    def __str__(self) -> str:
        from viewer.reports.comparison_blocks import as_text

        return as_text(self._found)

    def __repr__(self) -> str:
        return f"<Comparison: {self.verdict}>"

    def _repr_html_(self) -> str:
        from viewer.reports.comparison_blocks import comparison_report
        from viewer.reports.rendering.pages import IN_A_NOTEBOOK, framed, page_of

        return framed(page_of(comparison_report(self._found), most_bytes=IN_A_NOTEBOOK))

    @property
    def step_ns(self) -> tuple[float, float]:
        """The mean step before and after, ns; of runs without steps the whole analysed time."""
        return self._found.step.before, self._found.step.after

    @property
    def measures(self) -> pd.DataFrame:
        """Time, kernels and parts of the budget on both sides; ``unit`` says in what."""
        import pandas as pd

        rows = [
            (each.name, each.unit, each.before, each.after, each.change)
            for each in (self._found.step, *self._found.measures)
        ]
        return pd.DataFrame(rows, columns=["name", "unit", "before", "after", "change_share"])

    @property
    def kernels(self) -> pd.DataFrame:
        """Kernels that changed, the largest change first; calls and time of one step."""
        import pandas as pd

        rows = [
            (each.name, each.calls_before, each.calls_after, each.ns_before, each.ns_after, each.ns_change)
            for each in self._found.kernels
        ]
        names = ["name", "calls_before", "calls_after", "before_ns", "after_ns", "change_ns"]
        return pd.DataFrame(rows, columns=names)

    @property
    def findings(self) -> pd.DataFrame:
        """Findings that are gone, new or still there, and what each costs at most."""
        import pandas as pd

        rows = [
            (each.finding.title, each.change.value, each.before_ns, each.after_ns)
            for each in self._found.findings
        ]
        return pd.DataFrame(rows, columns=["title", "now", "before_ns", "after_ns"])

    def as_json(self) -> dict[str, Any]:
        """What ``stallscope compare --json`` prints."""
        from viewer.reports.comparison_report import as_json

        return as_json(self._found)
