"""The code of a notebook, to be run in part: what it defines, without what it shows.

Knows stored notebooks. Knows nothing of what they are about.
"""

import ast
import json
from typing import Any

from tools.notebook_rules import ROOT, joined

PATHS = {  # "00" to "18", and "mo" for more_practice.ipynb
    path.name[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
}
NOTEBOOKS = {
    number: json.loads(path.read_text("utf-8")) for number, path in PATHS.items()
}


def code_cells(number):
    """(source, stored outputs) of each code cell of the notebook, such as "07"."""
    code = [c for c in NOTEBOOKS[number]["cells"] if c["cell_type"] == "code"]
    return [(joined(cell["source"]), cell["outputs"]) for cell in code]


def texts(number):
    """The source of each cell of text."""
    cells = NOTEBOOKS[number]["cells"]
    return [joined(c["source"]) for c in cells if c["cell_type"] == "markdown"]


def defined(node):
    """The name that a statement defines, or None."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def built(number: str, *names: str, **known: Any) -> dict[str, Any]:
    """What the notebook imports, and functions and classes as its cells define them.

    names: those alone, and constants by name, in the order of the cells; without any,
    every function and class. known: names that they find beside, such as a constant
    of another size. Raises AssertionError for a name that is not defined there.
    """
    space = dict(known)
    met = set()
    for source, _ in code_cells(number):
        for node in ast.parse(source).body:
            name = defined(node)
            function = isinstance(node, ast.FunctionDef | ast.ClassDef)
            asked = name in names if names else function
            if asked or isinstance(node, ast.Import | ast.ImportFrom):
                met.add(name)
                code = compile(ast.Module([node], []), f"notebook {number}", "exec")
                exec(code, space)
    assert met >= set(names), f"notebook {number} lacks {sorted(set(names) - met)}"
    return space
