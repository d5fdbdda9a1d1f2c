"""What perf report prints becomes a table for each event."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace, UnknownFormat

REPORT = """# To display the perf.data header info, please use --header/--header-only options.
#
# Samples: 10K of event 'cpu-clock:uhpppH'
# Event count (approx.): 2000000000
#
# Children      Self  Command   Shared Object       Symbol
# ........  ........  ........  ..................  .................
#
    98.75%     0.00%  gwf-test  libc-2.31.so        [.] __libc_start_main
            |
            ---__libc_start_main
               |--96.91%--gwf_ed
    96.90%    95.00%  gwf-test  gwf-test            [.] gwf_ed
     1.00%     1.00%  gwf-test  [kernel.kallsyms]   [k] page fault


# Samples: 8K of event 'cycles:u'
# Event count (approx.): 5917824742
#
# Overhead  Command  Shared Object  Symbol
# ........  .......  .............  ................
#
   100.00%  solve    solve          [.] my_dgesv(int, double*)
"""


def opened(folder: Path, text: str) -> Trace:
    (folder / "report.txt").write_text(text)
    return open_trace([folder / "report.txt"])


def test_each_event_is_a_table_and_clocks_have_times(tmp_path: Path) -> None:
    clock, cycles = opened(tmp_path, REPORT).tables
    assert clock.column("Symbol") == ("__libc_start_main", "gwf_ed", "page fault")
    assert clock.column("Self") == (0.0, 95.0, 1.0)
    assert clock.column("Time") == (0.0, 1.9e9, 2e7)
    assert cycles.rows == ((100.0, "solve", "solve", "my_dgesv(int, double*)"),)
    assert [table.totals[0].time for table in (clock, cycles)] == [5, -1]


def test_other_comments_are_no_report(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat):
        opened(tmp_path, "# Overhead of the tool\n# ........\n 12.50%  solve\n")
