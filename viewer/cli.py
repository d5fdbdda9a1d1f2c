"""The command line: opens the window, or diagnoses, compares, converts and records without Qt."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from parsers.model import SYSTEM_ERRORS, Cancelled, Progress, TraceError, refused_by_system
from viewer.option_values import percentage, price, threshold

if TYPE_CHECKING:
    from parsers.containers import PrivateFolder

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

DONE, GATE_FAILED, BAD_INPUT, GATE_INCONCLUSIVE, BROKEN, INTERRUPTED = (
    0,
    1,
    2,
    3,
    70,
    130,
)  # 70: EX_SOFTWARE of sysexits.h


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the process's exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser(arguments).parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        _write_any_text()
        code = run(options)
        sys.stdout.flush()  # here, because a full disk at the end of the process would be its exit code
        return code
    except (KeyboardInterrupt, Cancelled):
        return INTERRUPTED
    except BrokenPipeError:
        _give_up_output()
        return DONE
    except (TraceError, *SYSTEM_ERRORS) as error:
        _give_up_output()
        _complain(error if isinstance(error, TraceError) else refused_by_system(error, _subject(arguments)))
        return BAD_INPUT
    except Exception:
        _give_up_output()
        traceback.print_exc()
        print("stallscope: this is a mistake in Stallscope itself. Please report it.", file=sys.stderr)
        return BROKEN


def _complain(error: TraceError) -> None:
    from viewer.reports.plain_text import safe

    with contextlib.suppress(OSError):
        print(safe(f"stallscope: {error}").replace("\n", " "), file=sys.stderr)


def _subject(arguments: Sequence[str]) -> str:
    """What an error is about that names no file itself."""
    return next((word for word in arguments[1:] if not word.startswith("-")), "output")


def _write_any_text() -> None:
    """Names need not be text: what the terminal cannot show is replaced."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _give_up_output() -> None:
    """Where the output cannot be written, let nothing try again when the process ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser of the command in ``arguments``; only that command's code is imported."""
    parser = argparse.ArgumentParser(
        prog="stallscope",
        description="Opens GPU profiler recordings and says what the GPU is waiting for, how much a fix would give, "
        "where to see it, and what to change.",
        epilog=f"commands: {', '.join(_COMMANDS)}; without one the files open in the window",
    )
    parser.add_argument("--version", action="version", version=f"stallscope {_version()}")
    declare = _COMMANDS.get(arguments[0]) if arguments else None
    if declare is None:
        parser.add_argument(
            "paths", nargs="*", metavar="PATH", help="a recording, ranks of one run, or a folder"
        )
        parser.add_argument("--at", metavar="TIME", help="show this moment, such as 31.2ms from the start")
        parser.add_argument(
            "--separate", action="store_true", help="do not hand the files to a window that is open already"
        )
        desktop = parser.add_mutually_exclusive_group()
        desktop.add_argument(
            "--install-desktop-files",
            action="store_true",
            help="add the program and its file types to your desktop (for pipx and uv; packages do it themselves)",
        )
        desktop.add_argument("--remove-desktop-files", action="store_true", help="take them away again")
        parser.set_defaults(run=_open_window)
    else:
        declare(parser.add_subparsers(required=True))
    return parser


def _declare_diagnose(commands: Commands) -> None:
    parser = commands.add_parser("diagnose", help="say what is slow and why")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that stands alone")
    parser.add_argument(
        "--fail-on",
        choices=["high", "medium", "low"],
        help="exit with 1 on such a finding, with 3 where there is no GPU work to judge",
    )
    parser.add_argument(
        "--threshold",
        action="append",
        type=threshold,
        default=[],
        metavar="NAME=VALUE",
        help="change what a rule decides by, such as least-share=5%%; docs/rules.md lists the names",
    )
    parser.add_argument(
        "--cost-per-hour",
        type=price,
        metavar="PRICE",
        help="of one GPU, in any currency: say what idle GPUs cost",
    )
    parser.set_defaults(run=_diagnose)


def _declare_whatif(commands: Commands) -> None:
    parser = commands.add_parser("whatif", help="say how fast it would be with some fixes")
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument(
        "--fix",
        action="append",
        default=[],
        metavar="ID",
        help="a fix that `stallscope diagnose` names; several are predicted together",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_whatif)


def _declare_compare(commands: Commands) -> None:
    parser = commands.add_parser("compare", help="say what changed between two recordings")
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that stands alone")
    parser.add_argument(
        "--fail-on-regression",
        type=percentage,
        metavar="PERCENT",
        help="exit with 1 when the mean step got longer by this much (5 or 5%%), "
        "with 3 when the noise, or what the recordings lack, does not allow to say",
    )
    parser.set_defaults(run=_compare)


def _declare_convert(commands: Commands) -> None:
    parser = commands.add_parser("convert", help="write the events in another format")
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--to", choices=["chrome", "parquet", "csv"], required=True)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.set_defaults(run=_convert)


def _declare_capture(commands: Commands) -> None:
    from viewer.capture.command_line import add_parser

    add_parser(commands, lambda paths: main(["diagnose", *map(str, paths)]))


def _declare_self_check(commands: Commands) -> None:
    parser = commands.add_parser("self-check", help="count what this installation can read and check")
    parser.set_defaults(run=_self_check)


_COMMANDS: dict[str, Callable[[Commands], None]] = {
    "diagnose": _declare_diagnose,
    "whatif": _declare_whatif,
    "compare": _declare_compare,
    "capture": _declare_capture,
    "convert": _declare_convert,
    "self-check": _declare_self_check,
}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("stallscope")
    except PackageNotFoundError:
        return "from source"


def _open_window(options: argparse.Namespace) -> int:
    if options.install_desktop_files or options.remove_desktop_files:
        from viewer.desktop import desktop_files

        done = desktop_files.install() if options.install_desktop_files else desktop_files.remove()
        print("\n".join(done))
        return DONE
    from viewer.start.opening import has_display

    if not has_display():
        print(
            "stallscope: there is no display to open a window on. "
            "Use `stallscope diagnose PATH` here, or start it in a desktop session.",
            file=sys.stderr,
        )
        return BAD_INPUT
    from viewer.app import run
    from viewer.desktop.file_names import local_path

    at = None
    if options.at:
        from parsers.model.units import parse_duration

        at = parse_duration(options.at)
        if at is None:
            print(f"stallscope: {options.at!r} is not a time. Write it like 31.2ms.", file=sys.stderr)
            return BAD_INPUT
    return run([local_path(word) for word in options.paths], at, options.separate)


def _diagnose(options: argparse.Namespace) -> int:
    from rules import Severity, diagnosis_of
    from rules.analysis.analysis import Analysis
    from rules.thresholds import Thresholds
    from viewer.loading.loader import read_apart

    progress = _terminal_progress()
    thresholds = Thresholds(dict(options.threshold))
    trace = read_apart(_inputs(options.paths), progress.part(0.0, 0.7))
    analysis = Analysis(trace, thresholds)
    diagnosis = diagnosis_of(analysis, progress.part(0.7, 1.0))
    progress.step(1.0, "")
    if options.html:
        from viewer.reports.html_report import as_html

        _write(options.html, as_html(trace, diagnosis, analysis))
    if options.json:
        from viewer.reports.json_report import as_json

        json.dump(as_json(trace, diagnosis, analysis, options.cost_per_hour), sys.stdout, allow_nan=False)
        print()
    else:
        from viewer.reports.text_report import as_text

        sys.stdout.write(as_text(trace, diagnosis, analysis, options.cost_per_hour))
    sys.stdout.flush()
    if options.fail_on:
        levels = [level.value for level in Severity]
        loud = levels[: levels.index(options.fail_on) + 1]
        if any(finding.severity.value in loud for finding in diagnosis.findings):
            return GATE_FAILED
        if not (len(trace.gpu_operations) or trace.kernels):
            print("stallscope: The gate cannot decide: no GPU work was recorded.", file=sys.stderr)
            return GATE_INCONCLUSIVE
    return DONE


def _whatif(options: argparse.Namespace) -> int:
    from rules import diagnosis_of
    from rules.analysis.analysis import Analysis
    from rules.fixes.plan import plan_of
    from viewer.loading.loader import read_apart
    from viewer.reports.fixes_report import fixes_json, fixes_text, outcome_json, outcome_text

    progress = _terminal_progress()
    paths = _inputs(options.paths)
    analysis = Analysis(read_apart(paths, progress.part(0.0, 0.7)))
    plan = plan_of(analysis)
    progress.step(1.0, "")
    if not options.fix:
        if options.json:
            json.dump(fixes_json(analysis, diagnosis_of(analysis)), sys.stdout, allow_nan=False)
            print()
        else:
            sys.stdout.write("\n".join(fixes_text(analysis)))
        return DONE
    try:
        chosen = plan.chosen(options.fix)
    except KeyError as error:
        known = ", ".join(each.id for each in plan.promises) or plan.reason or "none"
        raise TraceError(
            paths[0], f"There is no fix {error.args[0]!r} here.", f"Known are: {known}."
        ) from None
    outcome = plan.predict(options.fix)
    if options.json:
        json.dump(outcome_json(plan, outcome, chosen), sys.stdout, allow_nan=False)
        print()
    else:
        sys.stdout.write(outcome_text(plan, outcome, chosen))
    return DONE


def _compare(options: argparse.Namespace) -> int:
    from rules.comparison.comparable import Incomparable
    from rules.comparison.compare import compare
    from rules.comparison.gate import Decision
    from viewer.loading.loader import read_apart
    from viewer.reports.comparison_report import as_json, as_text
    from viewer.reports.plain_text import safe

    progress = _terminal_progress()
    before = read_apart(_inputs([options.before]), progress.part(0.0, 0.5))
    after = read_apart(_inputs([options.after]), progress.part(0.5, 1.0))
    progress.step(1.0, "")
    limit = options.fail_on_regression
    try:
        result = compare(before, after)
    except Incomparable as error:
        if limit is None:
            raise
        _complain(error)
        return GATE_INCONCLUSIVE
    if options.html:
        from viewer.reports.html_report import comparison_as_html

        _write(options.html, comparison_as_html(result))
    if options.json:
        json.dump(as_json(result), sys.stdout, allow_nan=False)
        print()
    else:
        sys.stdout.write(as_text(result))
    if limit is None:
        return DONE
    sys.stdout.flush()
    decision, why = result.gate(limit)
    print(f"stallscope: {safe(why)}", file=sys.stderr)
    codes = {
        Decision.PASSED: DONE,
        Decision.FAILED: GATE_FAILED,
        Decision.INCONCLUSIVE: GATE_INCONCLUSIVE,
    }
    return codes[decision]


def _convert(options: argparse.Namespace) -> int:
    from viewer.loading.loader import read_apart
    from viewer.reports.conversion import write

    progress = _terminal_progress()
    trace = read_apart(_inputs([options.path]), progress.part(0.0, 0.8))
    try:
        write(trace, options.to, options.out, progress.part(0.8, 1.0))
    except OSError as error:
        raise _not_written(options.out, error) from error
    progress.step(1.0, "")
    print(options.out)
    return DONE


def _self_check(_: argparse.Namespace) -> int:
    import resources
    from parsers.base import parsers
    from rules.base import EXPLANATION_HEADINGS, rules

    readers, checks = parsers(), rules()
    samples = sorted(
        path for path in resources.path("samples").iterdir() if path.suffix not in (".toml", ".py")
    )
    print(f"stallscope {_version()}")
    print(f"formats: {len(readers)} ({', '.join(reader.format for reader in readers)})")
    print(f"rules: {len(checks)} ({', '.join(check.id for check in checks)})")
    print(f"samples: {len([path for path in samples if not path.name.startswith('_')])}")
    faults = [
        f"rule {check.id}: its explanation lacks {heading!r}"
        for check in checks
        for heading in EXPLANATION_HEADINGS
        if heading not in check.explanation
    ]
    faults += [
        f"no {what} were found" for what, found in (("formats", readers), ("rules", checks)) if not found
    ]
    for fault in faults:
        print(f"stallscope: {fault}", file=sys.stderr)
    return BAD_INPUT if faults else DONE


def _inputs(names: Sequence[str]) -> list[Path]:
    return [_from_standard_input() if name == "-" else Path(name) for name in names]


@cache
def _folder_until_the_end() -> PrivateFolder:
    from parsers.containers import PrivateFolder

    return PrivateFolder()


def _from_standard_input() -> Path:
    import shutil

    path = _folder_until_the_end().path / "standard input"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _write(path: Path, text: str) -> None:
    from viewer.kept.storage import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> TraceError:
    reason = error.strerror or str(error)
    return TraceError(path, f"The result could not be written: {reason}.", "Choose another place.")


def _terminal_progress() -> Progress:
    """A bar on a terminal, nothing when piped."""
    if not sys.stderr.isatty():
        return Progress()

    def show(fraction: float, doing: str) -> None:
        bar = "#" * round(30 * fraction)
        sys.stderr.write(f"\r\x1b[K[{bar:<30}] {doing}" if fraction < 1 else "\r\x1b[K")
        sys.stderr.flush()

    return Progress(show)


if __name__ == "__main__":
    sys.exit(main())
