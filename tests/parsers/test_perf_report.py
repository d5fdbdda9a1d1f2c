"""What perf report prints becomes a table for each event."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace, UnknownFormat
from parsers.model.names.source_files import KERNEL
from rules import diagnose

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


def test_a_report_of_perf_has_readable_names(tmp_path: Path) -> None:
    text = "# Overhead  Symbol                  \n# ........  ........................\n#\n"
    (table,) = opened(
        tmp_path, text + "    62.00%  [.] _RNvNtC4demo3cpu4step\n    38.00%  [.] memcpy\n"
    ).tables
    assert table.column("Symbol") == ("demo::cpu::step", "memcpy")


@pytest.mark.parametrize("binary", ["[unknown]    ", "[kernel.vmlinux]"])
def test_what_the_kernel_hides_the_symbols_of_is_the_kernel(binary: str, tmp_path: Path) -> None:
    text = (
        "# Overhead  Shared Object     Symbol                  \n"
        "# ........  ................  ........................\n#\n"
        f"    30.00%  {binary:<16}  [k] 0xffffffff9653accd\n"
        "    28.00%  app               [.] step\n"
        f"    20.00%  {binary:<16}  [k] 0xffffffff96aae9c7\n"
        f"    10.00%  {binary:<16}  [k] page_fault\n"
    )
    trace = opened(tmp_path, text)
    assert trace.tables[0].column("Symbol") == (KERNEL, "step", KERNEL, "page_fault")
    (finding,) = diagnose(trace).findings
    assert finding.title == "50 % of the CPU's time is in the kernel"
    assert "kptr_restrict" in finding.advice[0]


def test_a_report_of_perf_names_the_binary_where_it_has_no_symbols(tmp_path: Path) -> None:
    text = (
        "# Overhead  Shared Object  Symbol                  \n# ........  .............  ........................\n#\n"
        "    52.00%  libgomp.so.1   [.] 0x000000000001fefe\n"
        "    38.00%  [unknown]      [.] 0x0000000000000011\n"
        "    10.00%  app            [.] step\n"
    )
    (table,) = opened(tmp_path, text).tables
    assert table.column("Symbol") == ("libgomp.so.1", "0x0000000000000011", "step")
