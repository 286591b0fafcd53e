"""The source of a function as a cell of its own: no annotations, its imports on top.

Knows modules and their source. Knows nothing of exercises.
"""

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from copy import copy


def pasteable(function: Callable) -> str:
    """The source of a function, with the imports and helpers of its module it needs."""
    function = inspect.unwrap(function)
    source = inspect.getsource(sys.modules[function.__module__])
    defined = {name: node for node in ast.parse(source).body for name in _names(node)}
    imports: list[str] = []
    helpers: list[str] = []

    def take(name: str) -> None:
        node = defined.pop(name, None)
        if isinstance(node, ast.Import | ast.ImportFrom):
            alone = copy(node)
            alone.names = [one for one in node.names if name in (one.name, one.asname)]
            imports.append(ast.unparse(alone))
        elif node is not None:
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef):
                    _drop_annotations(part)
            for part in ast.walk(node):
                if isinstance(part, ast.Name):
                    take(part.id)
            helpers.append(_text(node, source.splitlines()))

    take(function.__name__)
    top = sorted(imports, key=lambda line: (line.startswith("from"), line))
    return "\n\n\n".join(filter(None, ["\n".join(top), *helpers]))


def _names(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Assign):
        yield from (one.id for one in node.targets if isinstance(one, ast.Name))
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        yield node.name


def _drop_annotations(function: ast.FunctionDef) -> None:
    function.returns = None
    for part in ast.walk(function.args):
        if isinstance(part, ast.arg):
            part.annotation = None


def _text(node: ast.stmt, lines: list[str]) -> str:
    """A statement as it stands there; the first line of a function is written anew."""
    if not isinstance(node, ast.FunctionDef):
        return "\n".join(lines[node.lineno - 1 : node.end_lineno])
    marks = [f"@{ast.unparse(mark)}" for mark in node.decorator_list]
    head = f"def {node.name}({ast.unparse(node.args)}):"
    body = lines[node.body[0].lineno - 1 : node.end_lineno]
    return "\n".join([*marks, head, *body])
