"""The values of command-line options: a price, a percentage, a threshold; each raises ArgumentTypeError otherwise."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rules.thresholds import Thresholds


def price(text: str) -> float:
    """Of one hour of a GPU, in any currency."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no price of an hour, such as 2.50")
    return value


def percentage(text: str) -> float:
    """5 for "5" and for "5%"."""
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0.0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage, such as 5 or 5%")
    return value


def threshold(text: str) -> tuple[str, float]:
    """The key and the value of NAME=VALUE."""
    from rules.thresholds import known_thresholds

    known = {each.key: each for each in known_thresholds()}
    name, _, written = text.partition("=")
    if name not in known:
        raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
    wanted = known[name]
    value = wanted.parsed(written)
    if value is None:
        bounds = f"{wanted.written(wanted.least)} to {wanted.written(wanted.most)}"
        raise argparse.ArgumentTypeError(f"{written!r} is no value for {name}, which may be {bounds}")
    return name, value


def add_thresholds(parser: argparse.ArgumentParser) -> None:
    """The option that changes what a rule decides by."""
    parser.add_argument(
        "--threshold",
        action="append",
        type=threshold,
        default=[],
        metavar="NAME=VALUE",
        help="change what a rule decides by, such as least-share=5%%; docs/rules.md lists the names",
    )


def thresholds_of(options: argparse.Namespace) -> Thresholds:
    """What ``add_thresholds`` declared."""
    from rules.thresholds import Thresholds

    return Thresholds(dict(options.threshold))
