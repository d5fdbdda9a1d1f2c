"""Rules as an index tells of them, so that a module of the catalogue is loaded only where it may have something to say.

Of a recording of a GPU without communication, logs, and snapshots that is a third of the modules.
"""

from __future__ import annotations

import importlib
import json
from functools import cache

import resources
from parsers.model.catalogs import modules_of
from parsers.model.late import dataclass
from rules.findings.base import CATALOG, OF_COUNTERS, Need, Rule, registered, rules

FILE = "rules.json"


@dataclass(frozen=True, slots=True)
class Listed:
    """What is to be known of a rule before it is loaded, as it says itself; ``module`` is where it is."""

    id: str
    module: str
    needs: frozenset[Need]
    of_the_cpu_alone: bool = False

    def rule(self) -> Rule:
        """The rule, which is loaded now unless it was before."""
        if self.id not in registered():
            importlib.import_module(f"{CATALOG}.{self.module}")
        return registered()[self.id]


def listed(counters: bool = True) -> list[Listed]:
    """Every rule by id, of the index or registered besides; those about hardware ``counters`` may be left out.

    Modules that the index does not know are loaded.
    """
    known = {each.module for each in _index()}
    for name in modules_of(CATALOG):
        if name not in known and (counters or not name.startswith(OF_COUNTERS)):
            importlib.import_module(f"{CATALOG}.{name}")
    found = {each.id: each for each in _index() if counters or not each.module.startswith(OF_COUNTERS)}
    others = (each for each in registered().values() if each.id not in {one.id for one in _index()})
    found |= {each.id: _as_listed(each) for each in others}
    return [found[name] for name in sorted(found)]


@cache
def _index() -> tuple[Listed, ...]:
    told = json.loads(resources.path(FILE).read_text("utf-8"))
    return tuple(
        Listed(rule, each["module"], frozenset(Need[need] for need in each["needs"]), each["cpu"])
        for rule, each in told.items()
    )


def _as_listed(rule: Rule) -> Listed:
    return Listed(rule.id, type(rule).__module__.rpartition(".")[2], rule.needs, rule.of_the_cpu_alone)


def index_text() -> str:
    """The index as the rules are now: what ``python -m rules.documentation`` writes."""
    told = {
        each.id: {
            "module": each.module,
            "needs": sorted(need.name for need in each.needs),
            "cpu": each.of_the_cpu_alone,
        }
        for each in map(_as_listed, rules())
    }
    return json.dumps(told, indent=1) + "\n"
