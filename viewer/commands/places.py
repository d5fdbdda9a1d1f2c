"""``stallscope places``: gives places where programs run a name, with the line that prepares their environment."""

from __future__ import annotations

import argparse
from typing import Any

from viewer.terminal.console import complain
from viewer.terminal.exit_codes import BAD_INPUT, DONE


def declare(commands: Any) -> None:
    """Add the command's parser."""
    parser = commands.add_parser("places", help="manage the places where programs run")
    actions = parser.add_subparsers(required=True, metavar="save|list|check|remove")
    save = actions.add_parser("save", help="save a place under a name, for use with --on")
    save.add_argument("name", metavar="NAME")
    save.add_argument("place", metavar="PLACE", help="such as ssh:me@gpu-box")
    save.add_argument(
        "--setup", default="", metavar="LINE", help="shell command that sets up the environment there"
    )
    save.set_defaults(run=_save)
    listed = actions.add_parser("list", help="list the saved places")
    listed.set_defaults(run=_list)
    check = actions.add_parser("check", help="connect to a place and check whether programs can run there")
    check.add_argument("place", metavar="PLACE")
    check.set_defaults(run=_check)
    remove = actions.add_parser("remove", help="forget a name")
    remove.add_argument("name", metavar="NAME")
    remove.set_defaults(run=_remove)


def _save(options: argparse.Namespace) -> int:
    from viewer.remote.names import place_of, remember

    remember(options.name, place_of(options.place, options.setup))
    return DONE


def _list(options: argparse.Namespace) -> int:
    from viewer.appearance.plain_text import one_line
    from viewer.remote.names import remembered

    known = remembered()
    for name, place in known.items():
        print(one_line(f"{name:<16} {place.text:<32} {place.setup}".rstrip()))
    if not known:
        complain("No place is saved. Save one with `stallscope places save NAME PLACE`.")
    return DONE


def _check(options: argparse.Namespace) -> int:
    from viewer.remote.far import Far
    from viewer.remote.names import PlaceProblem, find_place

    place = find_place(options.place)
    if not place.steps:
        raise PlaceProblem(options.place, "This is the machine you are on.", "Name another place.")
    far = Far(place)
    try:
        far.open()
        python = next((name for name in ("python3", "python") if far.has(name)), "")
        print(f"{far.name}: reached; {python or 'no Python'} found")
    finally:
        far.close()
    return DONE


def _remove(options: argparse.Namespace) -> int:
    from viewer.remote.names import forget

    if not forget(options.name):
        complain(f"There is no place called {options.name}.")
        return BAD_INPUT
    return DONE
