"""Small changes to a source text, each of which a test should notice.

Python is changed by its syntax tree, SQL by its words. What only people read (log lines, messages
of errors, docstrings, annotations) is left alone.
"""

import ast
import re
from collections.abc import Iterator
from copy import copy

import msgspec

_LONGEST_SHOWN = 60


class Change(msgspec.Struct, frozen=True):
    """Replaces the characters from `start` to `end` of a text."""

    line: int
    start: int
    end: int
    new: str
    shown: str  # what was changed, in one short line

    def applied(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]


def changes_of(text: str, suffix: str) -> list[Change]:
    """All changes that can be made to a text, in its order."""
    found = _of_sql(text) if suffix == ".sql" else _Python(text).found()
    return sorted(found, key=lambda change: (change.start, change.end, change.new))


# Python

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt), ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
_OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = {"log", "logger"}


class _Python:
    """Walks a syntax tree. Positions are of the tree; `ast.unparse` writes what is put in."""

    def __init__(self, text: str) -> None:
        self._tree = ast.parse(text)
        self._text = text
        lines = text.splitlines(keepends=True)
        self._bytes = [line.encode() for line in lines]
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))

    def found(self) -> Iterator[Change]:
        yield from self._within(self._tree)

    def _within(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.stmt):
            yield from self._of_statement(node)
        if isinstance(node, ast.expr):
            yield from self._of_expression(node)
        for child in _children(node):
            yield from self._within(child)

    def _of_statement(self, node: ast.stmt) -> Iterator[Change]:
        match node:
            case ast.Return(value=ast.expr() as value) if not _is_none(value):
                yield self._change(value, ast.Constant(None))
            case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
                yield self._change(node, ast.Pass(), f"removed: {self._source(node)}")
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
                yield self._change(node, ast.Pass(), f"removed: {self._source(node)}")
            case ast.If(test=test):
                yield self._change(test, ast.Constant(value=False))
        if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
            other = copy(node)
            other.op = _ARITHMETIC[type(node.op)]()
            yield self._change(node, other)

    def _of_expression(self, node: ast.expr) -> Iterator[Change]:
        match node:
            case ast.Compare(ops=[op]):
                for kind in _COMPARISONS[type(op)]:
                    yield self._change(node, ast.Compare(node.left, [kind()], node.comparators))
            case ast.BoolOp(op=op, values=values):
                other = ast.Or() if isinstance(op, ast.And) else ast.And()
                yield self._change(node, ast.BoolOp(other, values))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._change(node, operand)
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC and not _is_text(node):
                yield self._change(node, ast.BinOp(node.left, _ARITHMETIC[type(op)](), node.right))
            case ast.Constant(value=bool() as value):
                yield self._change(node, ast.Constant(not value))
            case ast.Constant(value=int() as value):
                yield self._change(node, ast.Constant(value + 1))
                if value > 0:
                    yield self._change(node, ast.Constant(value - 1))
            case ast.Call(func=ast.Name(id=name)) if name in _OPPOSITES:
                yield self._change(node.func, ast.Name(_OPPOSITES[name]))
            case ast.IfExp(body=body, orelse=orelse):
                yield self._change(node, body)
                yield self._change(node, orelse)

    def _change(self, old: ast.expr | ast.stmt, new: ast.AST, shown: str | None = None) -> Change:
        start, end = self._span(old)
        text = ast.unparse(ast.fix_missing_locations(new))
        if isinstance(old, ast.expr) and not isinstance(new, ast.Constant | ast.Name):
            text = f"({text})"
        if shown is None:
            shown = _difference(ast.unparse(old), ast.unparse(new))
        return Change(old.lineno, start, end, text, _short(shown))

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._at(node.lineno, node.col_offset),
            self._at(node.end_lineno, node.end_col_offset),
        )

    def _at(self, line: int, column: int) -> int:
        """Columns of the tree count bytes."""
        return self._starts[line - 1] + len(self._bytes[line - 1][:column].decode())

    def _source(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._text[start:end]


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Those that are worth a change."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom():
            return  # text, and where text inside text has no exact place
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from node.args.defaults
            yield from (default for default in node.args.kw_defaults if default is not None)
            yield from _without_docstring(node.body)
        case ast.ClassDef() | ast.Module():
            yield from _without_docstring(node.body)
        case ast.AnnAssign():
            if node.value is not None:
                yield node.value
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Expr(value=value) if _is_talk(value):
            return
        case _:
            for child in ast.iter_child_nodes(node):
                if not (isinstance(child, ast.Expr) and _is_talk(child.value)):
                    yield child


def _without_docstring(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if not (isinstance(statement, ast.Expr) and _is_talk(statement.value)):
            yield statement


def _is_talk(value: ast.expr) -> bool:
    """A docstring, an ellipsis, or a line of a log."""
    match value:
        case ast.Constant():
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return name in _LOGS
        case _:
            return False


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


# SQL

_WORDS: list[tuple[str, str]] = [
    (r"<=", "<"), (r">=", ">"), (r"(?<![<>=!:])<(?![=>])", "<="), (r"(?<![-<>=])>(?!=)", ">="),
    (r"(?<![<>=!:])=(?!>)", "<>"), (r"<>", "="), (r"\bIS NOT NULL\b", "IS NULL"),
    (r"\bIS NULL\b", "IS NOT NULL"), (r"\bNOT (?=EXISTS|[a-z(])", ""), (r"\bOR\b", "AND"),
    (r"\bgreatest\(", "least("), (r"\bleast\(", "greatest("), (r"\bmin\(", "max("),
    (r"\bmax\(", "min("), (r"(?<= )\+ (?=[0-9a-z])", "- "), (r"(?<= )- (?=[0-9a-z])", "+ "),
    (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\bDESC\b", "ASC"),
    (r" SKIP LOCKED", ""), (r"\bFOR UPDATE( SKIP LOCKED)?", ""), (r"(?<=[ (,])[0-9]+\b", "+1"),
]  # fmt: skip
_CLAUSE = re.compile(r"^[ \t]*AND (?P<clause>[^\n]*)$", re.MULTILINE)


def _of_sql(text: str) -> Iterator[Change]:
    silent = re.sub(r"--[^\n]*|'[^']*'", lambda found: " " * len(found[0]), text)
    for pattern, new in _WORDS:
        for found in re.finditer(pattern, silent):
            # Assignments of an UPDATE are no comparisons.
            if new == "<>" and _assigns(silent, found.start()):
                continue
            put = str(int(found[0]) + 1) if new == "+1" else new
            yield _sql_change(text, found.start(), found.end(), put)
    for found in _CLAUSE.finditer(silent):
        clause = found["clause"]
        if clause.count("(") == clause.count(")") and not clause.rstrip().endswith((",", ";")):
            line = text[found.start() : found.end()]
            yield _sql_change(text, found.start(), found.end(), "", f"removed: {line.strip()}")


def _assigns(text: str, at: int) -> bool:
    """Whether the last keyword before this place is SET."""
    words = re.findall(r"\b(SET|WHERE|ON|AND|OR|WHEN|SELECT|HAVING|FILTER)\b", text[:at])
    return bool(words) and words[-1] == "SET"


def _sql_change(text: str, start: int, end: int, new: str, shown: str | None = None) -> Change:
    line = text.count("\n", 0, start) + 1
    if shown is None:
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        rest = text[end : last if last >= 0 else len(text)]
        before = text[max(first, start - 20) : start].lstrip()
        shown = f"{text[start:end].strip() or '?'} -> {new.strip() or 'nothing'} in {before}|{rest}"
    return Change(line, start, end, new, _short(shown))


def _difference(old: str, new: str) -> str:
    """Both, or where they are long, what differs between them with a little around it."""
    if len(old) + len(new) + 4 <= _LONGEST_SHOWN:
        return f"{old} -> {new}"
    same = _alike(old, new)
    same_end = _alike(old[same:][::-1], new[same:][::-1])
    first = max(0, same - 12)
    parts = [text[first : len(text) - same_end + 6] for text in (old, new)]
    return " -> ".join(part if len(part) <= 26 else part[:23] + "..." for part in parts)


def _alike(one: str, other: str) -> int:
    """How many characters they begin with in common."""
    return next(
        (n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + "..."
