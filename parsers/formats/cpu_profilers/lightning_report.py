"""What PyTorch Lightning's profilers print: how long each action of the trainer took, simple and advanced."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from parsers.files.base import Source, parser
from parsers.model import ResultTable
from parsers.model.late import dataclass, regex
from parsers.model.results import TimeOf, Totals, titled
from parsers.printed_profile import PrintedProfile

_SIMPLE = regex(r"^\|? *Action\s*\|\s*Mean duration \(s\)", re.MULTILINE)
_ADVANCED = regex(r"^Profile stats for: (?!records)", re.MULTILINE)
_ACTION = regex(r"Profile stats for: (.*?)(?: rank: \d+)?$")
_TAKES = regex(r" *\d{1,15} function calls .*\bin (\d{1,12}\.\d{1,9}) (?:CPU )?seconds")
_OF_OPTIMIZER = regex(r"_(?:with|and)_closure(?:_\d{1,9})?$")  # until version 1.4
_CALLBACK = regex(r"\[Callback\](\w+)")
_NUMBER = regex(r"\d{1,15}(?:\.\d{1,15})?(?:e[+-]\d{1,3})?")
_COLUMNS = titled("Action", "Calls", "Own time (s)", "Own share (%)", "With what it calls (s)")
_EPOCH, _BATCH, _UPDATE = "run_training_epoch", "run_training_batch", "optimizer_step"
_INSIDE = {  # the action in which an action runs; where a version has none of that name, the one around it
    _BATCH: _EPOCH,
    "train_dataloader_next": _EPOCH,
    "get_train_batch": _EPOCH,
    "fetch_next_train_batch": "get_train_batch",
    "fetch_next_validate_batch": "get_validate_batch",
    "fetch_next_sanity_check_batch": "get_sanity_check_batch",
    "batch_to_device": _EPOCH,
    "training_batch_to_device": _EPOCH,
    "val_next": _EPOCH,
    "evaluation_step_and_end": _EPOCH,
    "validation_step": "evaluation_step_and_end",
    "on_train_batch_start": _EPOCH,
    "on_train_batch_end": _EPOCH,
    "on_train_epoch_start": _EPOCH,
    "on_train_epoch_end": _EPOCH,
    "on_validation_end": _EPOCH,
    _UPDATE: _BATCH,
    "training_step_and_backward": _UPDATE,
    "model_forward": "training_step_and_backward",
    "training_step": "model_forward",
    "model_backward": "training_step_and_backward",
    "backward": "model_backward",
    "optimizer_zero_grad": _UPDATE,
    "on_after_backward": _UPDATE,
    "configure_gradient_clipping": _UPDATE,
    "transfer_batch_to_device": "batch_to_device",
}


@dataclass(frozen=True, slots=True)
class _Action:
    name: str
    calls: float
    seconds: float

    @property
    def kind(self) -> str:
        """Its name without the class that it belongs to: "[Strategy]DDPStrategy.backward" is "backward".

        Nor with the number of its optimizer, which older versions state.
        """
        name = self.name.rpartition(".")[2] if self.name.startswith("[") else self.name
        return _OF_OPTIMIZER.sub("", name)

    @property
    def title(self) -> str:
        """Its kind; of callbacks, of which there are several, with their class."""
        found = _CALLBACK.match(self.name)
        return f"{found[1]}.{self.kind}" if found else self.kind


@parser
class LightningReport(PrintedProfile):
    """Recognised by the header of the simple profiler, or by the lines above the tables of the advanced one."""

    format = "lightning-report"
    title = "PyTorch Lightning"
    files = "reports of its simple and advanced profilers"
    suffixes = (".txt", ".log")
    priority = 55  # before cProfile, whose tables the advanced one prints
    version = 3
    producer = "PyTorch Lightning"

    def recognises(self, source: Source) -> bool:
        return any(_is_report(each.decode("latin-1")) for each in source.printed)

    def tables(self, text: str) -> Iterator[ResultTable]:
        lines = text.splitlines()
        yield from _reports(_simple(lines) if _SIMPLE.search(text) else _advanced(lines))


def _is_report(text: str) -> bool:
    if "Mean duration" in text and _SIMPLE.search(text):
        return True
    return "function calls" in text and _ADVANCED.search(text) is not None


def _reports(actions: Iterator[_Action | float]) -> Iterator[ResultTable]:
    """A table for each report; a number, the seconds of the whole run or 0, begins one."""
    rows: list[_Action] = []
    whole = 0.0
    for each in actions:
        if isinstance(each, float):
            yield _table(rows, whole)
            rows, whole = [], each
        else:
            rows.append(each)
    yield _table(rows, whole)


def _simple(lines: list[str]) -> Iterator[_Action | float]:
    """What the rows say: name, mean, number of calls (newer versions), total, percent (newer versions)."""
    total, titles = -1, [""]
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells[0] == "Action" and len(cells) > 2:
            titles = cells
            total = next((at for at, title in enumerate(cells) if title.startswith("Total time")), -1)
        elif total > 0 and len(cells) == len(titles) and _NUMBER.fullmatch(cells[total]):
            seconds = float(cells[total])
            calls = cells[2] if len(titles) > 3 else ""
            if cells[0] == "Total":
                yield seconds
            else:
                yield _Action(cells[0], float(calls) if _NUMBER.fullmatch(calls) else 0.0, seconds)


def _advanced(lines: list[str]) -> Iterator[_Action | float]:
    name = ""
    for line in lines:
        if found := _ACTION.match(line.strip()):
            name = found[1]
        elif name and (found := _TAKES.match(line)):
            yield _Action(name, 0.0, float(found[1]))
            name = ""


def _table(actions: list[_Action], whole: float) -> ResultTable:
    """The actions by their own time, which is what the actions inside them leave."""
    there = {each.kind for each in actions}
    inside: defaultdict[str, float] = defaultdict(float)
    for each in actions:
        outer = _INSIDE.get(each.kind, "")
        while outer and outer not in there:
            outer = _INSIDE.get(outer, "")
        inside[outer] += each.seconds
    own = [(each, max(each.seconds - inside[each.kind], 0.0)) for each in actions]
    own.sort(key=lambda row: -row[1])
    whole = whole or sum(seconds for _, seconds in own)
    rows = tuple(
        (each.title, each.calls or None, seconds, seconds / whole * 100.0 if whole else None, each.seconds)
        for each, seconds in own
    )
    totals = Totals(TimeOf.PROGRAM, 0, 2, 3, 1, whole=whole)
    return ResultTable("Actions of PyTorch Lightning", _COLUMNS, rows, totals=(totals,))
