"""What a change is that can be tried in a running script, and how the changes are discovered."""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, TypeVar

from .program import Program
from .sites import Edit

SWITCH, START, CEILING = "switch", "start", "ceiling"
LEVELS = SWITCH, START, CEILING
SETTLE = 2
"""Steps after a change that are not timed: caches, the allocator and the clocks of the GPU follow."""
SLOW_SETTLING = 4
"""Steps; what takes longer to settle for the first time compiles."""


class Change:
    """One change that can be made and taken back; ``put`` and ``undo_by`` remember how it was.

    Of two with the same ``group`` at most one is made. ``settle`` steps after it are not timed, and ``first_settle``
    where it is made for the first time.
    """

    name = ""
    title = ""
    level = SWITCH
    group = ""
    #: tried without being asked for
    usual = True
    #: makes no sense where the program computes on the CPU
    needs_gpu = False
    #: the ceiling that says what it can give at most
    ceiling = ""
    settle = SETTLE
    first_settle = SETTLE
    #: set for the process before torch is loaded; of changes at the start only
    environment: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self._undo: List[Callable[[], Any]] = []

    def can(self, program: Program) -> Optional[str]:
        """Why it makes no sense in this program, in words that follow "because"; ``None`` where it can be tried."""
        return None

    def on(self, program: Program) -> None:
        """Make the change; what it raises is told, and what was done by then is taken back."""

    def off(self, program: Program) -> None:
        self.restore()

    def settle_after(self, program: Program) -> int:
        """Steps that are left alone once the change is taken back."""
        return SETTLE

    def at_step(self, program: Program) -> None:
        """A step begins while the change is made."""

    def is_made(self, program: Program) -> bool:
        """Whether everything still is as ``on`` left it: a script may set the same itself."""
        return True

    def edits(self, program: Program) -> Tuple[Edit, ...]:
        """How the change is written into the script; empty where a few lines do not say it."""
        return ()

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a class, module or object until ``restore``."""
        own = vars(owner)
        if name in own:
            before = own[name]
            self._undo.append(lambda: setattr(owner, name, before))
        else:
            self._undo.append(lambda: delattr(owner, name))
        setattr(owner, name, value)

    def undo_by(self, call: Callable[[], Any]) -> None:
        self._undo.append(call)

    def restore(self) -> None:
        """Put everything back, also where one part of it fails; that failure is raised in the end."""
        failure: Optional[BaseException] = None
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure


C = TypeVar("C", bound=Type[Change])
_KNOWN: Dict[str, Type[Change]] = {}


def change(cls: C) -> C:
    """Register a change of the catalogue."""
    _KNOWN[cls.name] = cls
    return cls


def catalogue() -> Dict[str, Type[Change]]:
    """Every change, by name: those between two steps, those at the start, and what is taken away."""
    package = importlib.import_module("{}.changes".format(__package__))
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module("{}.{}".format(package.__name__, module.name))
    return dict(sorted(_KNOWN.items(), key=lambda each: (LEVELS.index(each[1].level), each[0])))


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    said = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return ("{}: {}".format(type(error).__name__, said) if said else type(error).__name__)[:300]


class Changes:
    """What is made at the moment, in the order in which it was made: the last is taken back first."""

    def __init__(self, program: Program, known: Optional[Dict[str, Type[Change]]] = None) -> None:
        self._program = program
        self._known = known if known is not None else catalogue()
        self._instances: Dict[str, Change] = {}
        self._used: Dict[str, bool] = {}
        self.made: Tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Change:
        if name not in self._instances:
            self._instances[name] = self._known[name]()
        return self._instances[name]

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def reason_against(self, name: str) -> Optional[str]:
        """Why a change cannot be tried here; ``None`` where it can."""
        if name not in self._known:
            return "this recorder doesn't know it"
        try:
            if self[name].needs_gpu and self._program.device != "cuda":
                return "the program runs on the CPU"
            return self[name].can(self._program)
        except Exception as error:
            return first_line(error)

    def edits(self, name: str) -> Tuple[Edit, ...]:
        """How a change is written into the script; empty where that is not known."""
        try:
            return self[name].edits(self._program)
        except Exception:
            return ()

    def settle(self, names: Tuple[str, ...]) -> int:
        """Steps that are left alone after the change to ``names``, which is yet to be made."""
        new = [name for name in names if name not in self.made]
        gone = [self[name].settle_after(self._program) for name in self.made if name not in names]
        return max(
            [SETTLE, *gone] + [self[n].settle if self._used.get(n) else self[n].first_settle for n in new]
        )

    def turn(self, names: Tuple[str, ...]) -> str:
        """Have exactly these made; a line about the first that fails, and then none of them is made."""
        shared = 0
        while shared < min(len(names), len(self.made)) and names[shared] == self.made[shared]:
            shared += 1
        try:
            self._take_back(shared)
            for name in names[shared:]:
                self.made = (*self.made, name)
                self[name].on(self._program)
                self._used[name] = True
        except Exception as error:
            self.take_all_back()
            return first_line(error)
        return ""

    def take_all_back(self) -> None:
        """Leave the program as it was; what fails at that is passed over, so that the rest is put back."""
        while self.made:
            try:
                self._take_back(len(self.made) - 1)
            except Exception:
                continue

    def _take_back(self, keep: int) -> None:
        while len(self.made) > keep:
            name, self.made = self.made[-1], self.made[:-1]
            self[name].off(self._program)

    def at_step(self) -> None:
        for name in self.made:
            self[name].at_step(self._program)

    def are_made(self) -> bool:
        return all(self[name].is_made(self._program) for name in self.made)
