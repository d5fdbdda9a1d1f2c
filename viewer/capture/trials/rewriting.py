"""Writes changes into the text of a script at known calls, and leaves everything else as it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from parsers.model.late import dataclass
from viewer.capture.torch_runner.stallscope_recorder.trials.sites import Edit, Site

MAX_POSITIONAL = {"loader": 5, "optimizer": 3, "ddp": 1, "zero_grad": 0, "copy": 3}
"""Arguments by position; one more could be the one that is set by its name."""


@dataclass(frozen=True, slots=True)
class Change:
    """An edit at a site, on behalf of the change ``switch``."""

    switch: str
    edit: Edit
    site: Site


def rewritten(text: str, changes: Sequence[Change]) -> tuple[str, set[str]]:
    """The text with the changes, and the switches of which something was written; the same text if it is no Python."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(text))
    except cst.ParserSyntaxError:
        return text, set()
    finder = _Finder(changes)
    wrapper.visit(finder)
    writer = _Writer(finder)
    return wrapper.visit(writer).code, writer.done


@dataclass(slots=True)
class _Found:
    """The node of each call that a change is about, and the statement around it."""

    calls: dict[cst.Call, list[Change]] = field(default_factory=dict)
    around: dict[cst.SimpleStatementLine, list[Change]] = field(default_factory=dict)
    after: dict[cst.SimpleStatementLine, list[tuple[Change, str]]] = field(default_factory=dict)
    once: list[Change] = field(default_factory=list)


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, changes: Sequence[Change]) -> None:
        super().__init__()
        self.found = _Found(once=[each for each in changes if each.edit.once])
        self._changes = [each for each in changes if not each.edit.once]
        self._statements: list[cst.SimpleStatementLine] = []
        self._assigned: list[tuple[str, int, cst.SimpleStatementLine]] = []
        self._candidates: dict[Change, list[tuple[cst.Call, cst.SimpleStatementLine | None]]] = {}

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self._statements.append(node)
        line = self._range(node).start.line
        for small in node.body:
            targets = (
                [each.target for each in small.targets]
                if isinstance(small, cst.Assign)
                else [small.target]
                if isinstance(small, cst.AnnAssign) and small.value is not None
                else []
            )
            self._assigned += [(_code(target), line, node) for target in targets]

    def leave_SimpleStatementLine(self, original_node: cst.SimpleStatementLine) -> None:
        self._statements.pop()

    def visit_Call(self, node: cst.Call) -> None:
        span = self._range(node)
        statement = self._statements[-1] if self._statements else None
        for change in self._changes:
            if span.start.line <= change.site.line <= span.end.line and _may_be(node, change.site, span):
                self._candidates.setdefault(change, []).append((node, statement))

    def leave_Module(self, original_node: cst.Module) -> None:
        for change, calls in self._candidates.items():
            exact = [each for each in calls if self._starts_at(each[0], change.site)]
            chosen = exact or calls
            if len(chosen) == 1 or exact:
                self._take(change, *min(chosen, key=lambda each: len(_code(each[0]))))

    def _take(self, change: Change, call: cst.Call, statement: cst.SimpleStatementLine | None) -> None:
        edit = change.edit
        if edit.arguments:
            self.found.calls.setdefault(call, []).append(change)
        elif edit.around and statement is not None and not _binds_for_later(statement):
            self.found.around.setdefault(statement, []).append(change)
        elif edit.after:
            name = _code(call.func)
            line = self._range(call).start.line
            made = [node for target, at, node in self._assigned if target == name and at < line]
            if made:
                self.found.after.setdefault(made[-1], []).append((change, name))

    def _range(self, node: cst.CSTNode) -> Any:
        return self.get_metadata(PositionProvider, node)

    def _starts_at(self, node: cst.Call, site: Site) -> bool:
        start = self._range(node).start
        return (start.line, start.column) == (site.line, site.column)


class _Writer(cst.CSTTransformer):
    def __init__(self, finder: _Finder) -> None:
        super().__init__()
        self._found = finder.found
        self._needs_torch = False
        self.done: set[str] = set()

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        for change in self._found.calls.get(original_node, ()):
            if not _can_take_arguments(updated_node, change):
                continue
            for name in change.edit.without:
                updated_node = _without_argument(updated_node, name)
            for name, value in change.edit.arguments:
                updated_node = _with_argument(updated_node, name, value)
            self.done.add(change.switch)
        return updated_node

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        made: cst.BaseStatement = updated_node
        for change in self._found.around.get(original_node, ()):
            item = cst.WithItem(cst.parse_expression(change.edit.around))
            inner = made.with_changes(leading_lines=())
            made = cst.With([item], cst.IndentedBlock([inner]), leading_lines=updated_node.leading_lines)
            self._wrote(change)
        following: list[cst.BaseStatement] = []
        for change, name in self._found.after.get(original_node, ()):
            following.append(cst.parse_statement(change.edit.after.replace("{}", name)))
            self._wrote(change)
        return cst.FlattenSentinel([made, *following]) if following else made

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        lines: list[cst.BaseStatement] = []
        for change in self._found.once:
            lines.append(cst.parse_statement(change.edit.once))
            self._wrote(change)
        if self._needs_torch and not any(map(_imports_torch, original_node.body)):
            lines.insert(0, cst.parse_statement("import torch"))
        if not lines:
            return updated_node
        body = list(updated_node.body)
        imports = [number for number, node in enumerate(original_node.body) if _is_import(node)]
        place = imports[-1] + 1 if imports else _after_docstring(body)
        return updated_node.with_changes(body=[*body[:place], *lines, *body[place:]])

    def _wrote(self, change: Change) -> None:
        self.done.add(change.switch)
        text = change.edit.around + change.edit.after + change.edit.once
        self._needs_torch = self._needs_torch or "torch." in text


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def _may_be(call: cst.Call, site: Site, span: Any) -> bool:
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else _code(call.func)
    names = {"zero_grad": ("zero_grad",), "copy": ("to", "cuda")}.get(site.what)
    if names is not None:
        return name in names
    if (span.start.line, span.start.column) == (site.line, site.column):
        return True
    return bool(site.called) and name == site.called


def _binds_for_later(statement: cst.SimpleStatementLine) -> bool:
    return any(isinstance(small, cst.Import | cst.ImportFrom | cst.Global) for small in statement.body)


def _can_take_arguments(call: cst.Call, change: Change) -> bool:
    """No argument could be given twice: none comes out of a list or a dictionary that is not seen."""
    positional = sum(1 for each in call.args if each.keyword is None and not each.star)
    return not any(each.star for each in call.args) and positional <= MAX_POSITIONAL.get(change.edit.at, 0)


def _without_argument(call: cst.Call, name: str) -> cst.Call:
    kept = [each for each in call.args if each.keyword is None or each.keyword.value != name]
    if len(kept) == len(call.args):
        return call
    last = call.args[-1]
    if kept and kept[-1] is not last:
        kept[-1] = kept[-1].with_changes(comma=last.comma, whitespace_after_arg=last.whitespace_after_arg)
    return call.with_changes(args=kept)


def _with_argument(call: cst.Call, name: str, value: str) -> cst.Call:
    expression = cst.parse_expression(value)
    for number, each in enumerate(call.args):
        if each.keyword is not None and each.keyword.value == name:
            args = [*call.args[:number], each.with_changes(value=expression), *call.args[number + 1 :]]
            return call.with_changes(args=args)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    new = cst.Arg(expression, cst.Name(name), equal)
    if not call.args:
        return call.with_changes(args=[new])
    *others, last = call.args
    between = others[-1].comma if others else cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    if isinstance(last.comma, cst.Comma):
        new = new.with_changes(comma=last.comma)
        if not others:
            between = last.comma
    new = new.with_changes(whitespace_after_arg=last.whitespace_after_arg)
    last = last.with_changes(comma=between, whitespace_after_arg=cst.SimpleWhitespace(""))
    return call.with_changes(args=[*others, last, new])


def _is_import(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(small, cst.Import | cst.ImportFrom) for small in node.body
    )


def _imports_torch(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.SimpleStatementLine) and any(
        isinstance(small, cst.Import)
        and any(_code(each.name).split(".")[0] == "torch" and each.asname is None for each in small.names)
        for small in node.body
    )


def _after_docstring(body: Sequence[cst.CSTNode]) -> int:
    first = body[0] if body else None
    is_text = isinstance(first, cst.SimpleStatementLine) and isinstance(first.body[0], cst.Expr)
    return 1 if is_text else 0
