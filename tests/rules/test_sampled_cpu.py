"""Samples are told by the deepest frame of the user's own code."""

from __future__ import annotations

from pathlib import Path

import pytest

from parsers import open_trace
from parsers.model import Trace
from parsers.model.names.source_files import frame_parts, is_own_frame
from rules import Finding, diagnose
from rules.analysis.analysis import Analysis
from rules.analysis.cpu.sampled_stacks import own_time
from rules.verdict.verdict import verdict
from tests.parsers.test_sampled_stacks import opened

# The cases lie on either side of these.
MIN_NAMED = 0.05


def found(trace: Trace) -> Finding:
    diagnosis = diagnose(trace)
    assert not diagnosis.crashed
    return next(each for each in diagnosis.findings if each.rule == "sampled-cpu")


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("feed.speedscope.json", "44 % of the CPU's time is in parse.<locals>.<listcomp> (feed.py:9)"),
        ("feed.collapsed.txt", "43 % of the CPU's time is in parse.<locals>.<listcomp> (feed.py:9)"),
        ("feed.chrome.json", "50 % of the CPU's time is in compress (feed.py:23)"),
        ("burn.perf.txt.gz", "45 % of the CPU's time is in smooth (burn)"),
    ],
)
def test_recorded_samples_name_the_programs_own_line(fixtures: Path, name: str, title: str) -> None:
    trace = open_trace([fixtures / "stacks" / name])
    finding = found(trace)
    assert finding.title == title
    assert finding.evidence
    assert verdict(Analysis(trace), diagnose(trace)) == title


def test_what_runs_below_and_further_functions_are_told(fixtures: Path) -> None:
    finding = found(open_trace([fixtures / "stacks" / "feed.speedscope.json"]))
    assert "Samples show threads at work for 5.74 s: 44 %" in finding.explanation
    assert "mostly in JSONDecoder.raw_decode, 30 % in compress (feed.py:23) and" in finding.explanation


@pytest.mark.parametrize(
    ("script", "title"),
    [
        ("/env/bin/my-tool", "67 % of the CPU's time is in render (draw.py:9)"),
        ("/env/bin/other", "100 % of the CPU's time is in render, called from other:3"),
    ],
)
def test_a_program_that_pip_installed_is_its_own_package(tmp_path: Path, script: str, title: str) -> None:
    package = "/env/lib/python3.12/site-packages"
    stack = f"<module> ({script}:3);main ({package}/click/core.py:1);"
    samples = (
        f"{stack}main ({package}/my_tool/cli.py:5);render ({package}/my_tool/draw.py:9) 20\n"
        f"{stack}main ({package}/my_tool/cli.py:5);dump ({package}/yaml/emit.py:2) 10\n"
    )
    assert found(opened(tmp_path, samples)).title == title


def test_lines_of_one_function_are_added_up_and_its_costliest_line_is_named(tmp_path: Path) -> None:
    own = own_time(
        opened(tmp_path, "run (a.py:1);go (b.py:4) 2\nrun (a.py:1);go (b.py:9) 3\nrun (a.py:1) 1\n")
    )
    assert [(each.function, each.line, each.ns) for each in own.frames] == [
        ("go", 9, 50_000_000),
        ("run", 1, 10_000_000),
    ]
    assert own.sampled_ns == 60_000_000
    assert own.foreign_ns == 0


@pytest.mark.parametrize(("count", "named"), [(5, True), (4, False)])
def test_functions_with_little_time_are_not_named(count: int, named: bool, tmp_path: Path) -> None:
    assert MIN_NAMED == 0.05
    finding = found(
        opened(tmp_path, f"run (a.py:1);go (b.py:4) {100 - count}\nrun (a.py:1);rare (c.py:2) {count}\n")
    )
    assert ("rare (c.py:2)" in finding.explanation) is named


@pytest.mark.parametrize(("count", "told"), [(5, True), (4, False)])
def test_time_outside_of_the_programs_own_code_is_told(count: int, told: bool, tmp_path: Path) -> None:
    text = (
        f"run (a.py:1);go (b.py:4) {100 - count}\nwait (threading.py:320);acquire (threading.py:1) {count}\n"
    )
    assert ("not in any of the program's own functions" in found(opened(tmp_path, text)).explanation) is told


@pytest.mark.parametrize(("count", "told"), [(5, True), (4, False)])
def test_what_runs_below_is_named_where_it_takes_most(count: int, told: bool, tmp_path: Path) -> None:
    text = f"run (a.py:1);loads (json/__init__.py:3) {count}\nrun (a.py:1) {10 - count}\n"
    assert ("mostly in loads" in found(opened(tmp_path, text)).explanation) is told


def test_samples_of_libraries_alone_say_so(tmp_path: Path) -> None:
    trace = opened(tmp_path, "wait (threading.py:320);acquire (threading.py:1) 40\n")
    whole = "The CPU's time is not spent in any of the program's own functions"
    assert found(trace).title == f"{whole}: 100 % in acquire (threading.py:1)"
    assert found(trace).evidence


@pytest.mark.parametrize(("count", "named"), [(5, True), (4, False)])
def test_of_time_outside_of_own_functions_the_innermost_ones_are_named(
    count: int, named: bool, tmp_path: Path
) -> None:
    kernel = "([kernel.kallsyms])"
    text = f"recv {kernel};copy {kernel} {100 - count}\nrecv {kernel};check {kernel} {count}\n"
    finding = found(opened(tmp_path, text))
    assert finding.title.endswith(f"own functions: {100 - count} % in copy {kernel}")
    assert (f"and {count}.0 % in check {kernel}." in finding.explanation) is named


@pytest.mark.parametrize(
    ("samples", "title"),
    [
        (1, "Only 1 sample was taken, too few to tell where the CPU's time goes"),
        (9, "Only 9 samples were taken, too few to tell where the CPU's time goes"),
        (10, "100 % of the CPU's time is in step (/home/me/app)"),
    ],
)
def test_a_few_samples_tell_nothing_of_the_time(samples: int, title: str, tmp_path: Path) -> None:
    taken = [
        f"app 7 100.{number:06}: cycles:\n\t    55d0 step+0x1f (/home/me/app)\n\n"
        for number in range(samples)
    ]
    finding = found(opened(tmp_path, "".join(taken)))
    assert finding.title.replace("step (app)", "step (/home/me/app)") == title
    assert (finding.culprit.name == "") is (samples < 10)
    assert ("Record for longer" in " ".join(finding.remedy.advice)) is (samples < 10)


@pytest.mark.parametrize(("times", "few"), [(2, True), (3, False)])
def test_weights_of_equal_samples_tell_how_many_there_are(times: int, few: bool, tmp_path: Path) -> None:
    stacks = "".join(
        f"main (a.py:1);step{number} (a.py:{number}) {times * 1_000_003}\n" for number in range(3)
    )
    title = found(opened(tmp_path, f"{stacks}main (a.py:1);load (a.py:9) 1000003\n")).title
    assert (
        title == f"Only {3 * times + 1} samples were taken, too few to tell where the CPU's time goes"
    ) is few


@pytest.mark.parametrize(("count", "told"), [(50, True), (49, False)])
def test_a_binary_without_symbols_is_named_where_most_time_is_in_it(
    count: int, told: bool, tmp_path: Path
) -> None:
    leaves = {"0x5be08": count - 20, "0x5bd70": 20, "step": 100 - count}
    burn = "(/home/me/burn)"
    text = "".join(f"main {burn};{leaf} {burn} {samples}\n" for leaf, samples in leaves.items())
    finding = found(opened(tmp_path, text))
    assert (finding.title == f"{count} % of the CPU's time is in burn, whose functions have no names") is told
    assert ("An address is one place in a function" in finding.explanation) is told
    assert ("Build with symbols" in " ".join(finding.remedy.advice)) is told


@pytest.mark.parametrize(("named", "told"), [(50, True), (51, False)])
def test_libraries_without_symbols_are_told_where_no_own_function_was_seen(
    named: int, told: bool, tmp_path: Path
) -> None:
    """What every stack begins in, the loader, is none of the program's own."""
    leaves = {
        "0x11 (libpython3.14.dylib)": 30,
        "0x22 (libpython3.14.dylib)": 10,
        "0x33 (_regex.so)": 60 - named,
    }
    start = "0x8d53 (dyld)"
    text = "".join(f"{start};{leaf} {samples}\n" for leaf, samples in leaves.items())
    finding = found(opened(tmp_path, text + f"{start};__psynch_cvwait (libsystem_kernel.dylib) {named}\n"))
    said = "40 % of the CPU's time is in libpython3.14.dylib, whose functions have no names"
    assert (finding.title == said) is told
    assert (": 40 % in libpython3.14.dylib and 10 % in _regex.so." in finding.explanation) is told
    assert "dyld)" not in finding.title


@pytest.mark.parametrize(("own", "told"), [(31, False), (30, True)])
def test_a_library_without_symbols_is_not_told_before_a_longer_own_function(
    own: int, told: bool, tmp_path: Path
) -> None:
    text = f"run (a.py:1);run (a.py:1) {own}\nx (ld.so);0x1 (one.so) 30\nx (ld.so);0x2 (two.so) 30\n"
    title = found(opened(tmp_path, text)).title
    assert title.endswith("whose functions have no names") is told


@pytest.mark.parametrize(("functions", "spread"), [(21, True), (20, False)])
def test_time_in_many_functions_is_told_to_be_spread(functions: int, spread: bool, tmp_path: Path) -> None:
    text = "".join(f"main (a.py:1);step{number} (b.py:{number}) 1\n" for number in range(1, functions + 1))
    finding = found(opened(tmp_path, text))
    assert (finding.title == "The CPU's time is spread over many of the program's functions") is spread
    assert "step1 (b.py:1)" in finding.explanation
    assert finding.evidence


@pytest.mark.parametrize(("count", "told"), [(91, True), (90, False)])
def test_time_that_is_nearly_all_outside_of_own_functions_is_told_as_such(
    count: int, told: bool, tmp_path: Path
) -> None:
    text = f"wait (threading.py:320);0x7f00 {count}\nrun (a.py:1);run (a.py:1) {100 - count}\n"
    title = found(opened(tmp_path, text)).title
    assert (title == "91 % of the CPU's time is in none of the program's own functions") is told
    assert (title == "10 % of the CPU's time is in run (a.py:1)") is not told


@pytest.mark.parametrize(("count", "told"), [(5, True), (4, False)])
def test_a_script_is_told_by_what_it_calls_where_that_takes_most(
    count: int, told: bool, tmp_path: Path
) -> None:
    text = f"<module> (a.py:1);_run_once (asyncio/base_events.py:3) {count}\n<module> (a.py:1) {10 - count}\n"
    title = found(opened(tmp_path, text)).title
    assert ("is in _run_once, called from a.py:1" in title) is told
    assert ("is in <module> (a.py:1)" in title) is not told


def test_recordings_without_samples_say_why_nothing_is_checked(fixtures: Path) -> None:
    skipped = diagnose(open_trace([fixtures / "smi" / "dmon.txt"])).skipped
    assert skipped["sampled-cpu"] == "no CPU stack samples"


@pytest.mark.parametrize(
    ("frame", "own"),
    [
        ("/home/me/train.py(12): load", True),
        ("train.py(12): load", True),
        ("/usr/lib/python3.11/json/decoder.py(3): decode", False),
        ("json/decoder.py(3): decode", False),
        ("torch/nn/modules/module.py(1778): _call_impl", False),
        ("/env/lib/python3.11/site-packages/numpy/core.py(3): dot", False),
        ("<frozen importlib._bootstrap>(241): _call", False),
        ("load (/home/me/train.py:12)", True),
        ("_newname (/usr/lib/python3.6/threading.py:727)", False),
        ("integrate (/home/me/burn)", True),
        ("deflate (/usr/lib/x86_64-linux-gnu/libz.so.1.2.13)", False),
        ("do_syscall_64 ([kernel.kallsyms])", False),
        ("_PyEval_EvalFrameDefault (/home/me/bin/python3.11)", False),
        ("thread (10584): compressor", False),
        ("process 7:train.py", False),
        ("solve", True),
        ("0x7f3f60374c7d", False),
        ("0x6fc091 (/home/me/burn)", True),
        ("numpy/linalg/linalg.py(3): norm", False),
        ("matplotlib/figure.py(3): draw", False),
        ("numbers_of_mine/linalg.py(3): norm", True),
        ("/home/me/numpy/linalg.py(3): norm", True),
        ("__llround", False),
        ("__sqrt_finite@GLIBC_2.15", False),
        ("malloc", False),
        ("operator new(unsigned long)", False),
        ("std::vector<Route>::push_back", False),
        ("std::vector<int> (/home/me/burn)", False),
        ("Item* std::copy<Item const*, Item*>(Item const*, Item*)", False),
        ("void sort_all<std::vector<int> >(std::vector<int>&)", True),
        ("Route::Route(std::vector<int> const&)", True),
        ("mallocs", True),
        ("core::iter::traits::iterator::Iterator::fold", False),
        ("<f32 as core::ops::arith::Div>::div", False),
        ("alloc::vec::Vec<T,A>::push", False),
        ("<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::next", False),
        ("<mine::Vector as core::ops::arith::Div>::div", True),
        ("core::solver::step", True),
        ("<mine::BinExec<A,B,F> as mine::ctx::Executor>::exec", True),
    ],
)
def test_frames_of_python_libraries_and_the_system_are_not_the_users(frame: str, own: bool) -> None:
    assert is_own_frame(frame) is own


@pytest.mark.parametrize(
    ("count", "told"),
    [
        ("30", "Samples of all threads, without times: 67 % in solve"),
        ("3000000", "Samples of all threads, without"),
    ],
)
def test_samples_without_times_are_told_without_times(count: str, told: str, tmp_path: Path) -> None:
    account = found(opened(tmp_path, f"main;solve {2 * int(count)}\nmain;read {count}\n")).account
    assert str(account).startswith(told)
    assert " s" not in str(account).replace(" solve", "")


def test_frames_are_taken_apart() -> None:
    assert frame_parts("/a/b.py(12): load") == ("load", "/a/b.py", 12)
    assert frame_parts("load (/a/b.py:12)") == ("load", "/a/b.py", 12)
    assert frame_parts("smooth (/tmp/burn)") == ("smooth", "/tmp/burn", 0)
    assert frame_parts("solve") == ("solve", "", 0)


def test_what_pythons_importer_runs_is_importing_modules(tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    importer = "_call_with_frames_removed (<frozen importlib._bootstrap>:488)"
    stacks = [
        f"<module> (train.py:1);{importer};<module> (a{number}.py:3);{importer} 20" for number in range(4)
    ]
    path.write_text("\n".join([*stacks, "<module> (train.py:9);step (train.py:5) 19"]) + "\n")
    (finding,) = diagnose(open_trace([path])).findings
    assert finding.title == "81 % of the CPU's time is in importing modules"
    assert "python -X importtime" in finding.advice[0]


@pytest.mark.parametrize(
    ("importing", "working", "title"),
    [
        (30, 29, "30 % of the CPU's time is in importing modules"),
        (30, 31, "31 % of the CPU's time is in step (train.py:5)"),
        (24, 20, "24 % of the CPU's time is in exec, called from a.py:3"),
    ],
)
def test_importing_is_told_where_it_takes_longer_than_any_own_function(
    importing: int, working: int, title: str, tmp_path: Path
) -> None:
    importer = "_call_with_frames_removed (<frozen importlib._bootstrap>:488)"
    rest = [
        f"<module> (train.py:9);part{number} (train.py:{number}9) {share}"
        for number, share in enumerate((100 - importing - working - 18 * 2, 18, 18))
        if share > 0
    ]
    path = tmp_path / "stacks.txt"
    path.write_text(
        "\n".join(
            [
                f"<module> (train.py:1);{importer};<module> (a.py:3);exec (/env/site-packages/b.py:1) {importing}",
                f"<module> (train.py:9);step (train.py:5) {working}",
                *rest,
            ]
        )
        + "\n"
    )
    assert found(open_trace([path])).title == title


def test_what_modules_call_while_they_are_imported_is_work(tmp_path: Path) -> None:
    importer = "_call_with_frames_removed (<frozen importlib._bootstrap>:488)"
    path = tmp_path / "stacks.txt"
    path.write_text(f"<module> (run.py:1);{importer};<module> (train.py:3);train (train.py:7) 100\n")
    trace = open_trace([path])
    assert own_time(trace).importing_ns == 0
    assert found(trace).title == "100 % of the CPU's time is in train (train.py:7)"


OF_THE_KERNEL = (
    "work 7 [000] 1.00{n:02}: 10101 cpu-clock: \n"
    "\tffffffff966a8e86 [unknown] ([unknown])\n"
    "\t    7ffe12345678 mprotect (/usr/lib/libc.so.6)\n"
    "\t    5581b6d0f1{n:02} {function}(int) (/home/me/work)\n\n"
)


def test_frames_of_the_kernel_without_symbols_are_the_kernels(tmp_path: Path) -> None:
    path = tmp_path / "perf.txt"
    path.write_text(
        "".join(OF_THE_KERNEL.format(n=n, function="fill" if n % 2 else "grow") for n in range(40))
    )
    finding = found(open_trace([path]))
    assert finding.title == "100 % of the CPU's time is in the kernel, called from several places"
    assert "sysctl kernel.kptr_restrict=0" in finding.advice[0]
    path.write_text(path.read_text().replace("ffffffff966a8e86", "7fffffff966a8e86"))
    assert "the kernel" not in found(open_trace([path])).explanation


def test_a_long_function_of_c_is_told_without_its_parameters(tmp_path: Path) -> None:
    path = tmp_path / "perf.txt"
    name = "Scene::colour_of(unsigned char*, Autonoma*, Ray, unsigned int)"
    path.write_text(
        "".join(
            f"work 7 [000] 1.0{n}: 10101 cpu-clock: \n\t5581b6d0f1 {name} (/home/me/work)\n\n"
            for n in range(100, 140)
        )
    )
    assert found(open_trace([path])).title == "100 % of the CPU's time is in Scene::colour_of"


@pytest.mark.parametrize(("length", "is_whole"), [(80, True), (81, False)])
def test_a_template_that_is_long_is_told_by_its_name(length: int, is_whole: bool, tmp_path: Path) -> None:
    name = f"run<{'T' * (length - len('run<>'))}>"
    path = tmp_path / "perf.txt"
    sample = f": 10101 cpu-clock: \n\t5581b6d0f1 {name} (/home/me/work)\n\n"
    path.write_text("".join(f"work 7 [000] 1.0{n}{sample}" for n in range(100, 140)))
    told = found(open_trace([path])).explanation
    assert (f"100 % in {name} (work)" in told) is is_whole
    assert ("100 % in run (work)" in told) is not is_whole
