"""Answers that stand above their question's run, found in a notebook's cells.

A reader's working copy has no outputs. What could still tell an answer too early is the
code: an alt text, a title, an assert in the cell to be run, our solution right below a
"Your turn". Knows the JSON of notebooks, and which exercises ask for which number.
"""

import ast
import re

from named_mistakes.banks import find_banks
from tools.notebook_rules import is_folded, joined

QUESTION = re.compile(r"\*Predict\b[^*]*\*")
TITLE_PLACE = {"curves": 2, "bars": 3, "arrows": 1, "attention_map": 3}
SHORT = 4  # shorter words of a title tell nothing


def spoilers(notebook):
    """Each answer that stands too early, in one sentence that names its cell."""
    cells = notebook["cells"]
    above = ""  # the text of the section so far
    for place, cell in enumerate(cells):
        source = joined(cell["source"])
        if cell["cell_type"] == "code":
            yield from alts_in_code(cell["id"], source)
            yield from printed_solutions(source, cells[place + 1 :])
            continue
        above = source if re.search(r"^## ", source, re.MULTILINE) else above + source
        if QUESTION.search(source):
            yield from answers_in_the_runs(cells[place + 1 :], above)


def answers_in_the_runs(after, above):
    """What the cells up to the first with an output tell before they are run."""
    for run in after:
        if run["cell_type"] != "code" or is_folded(run):
            continue
        source = joined(run["source"])
        if any(is_claim(statement) for statement in ast.parse(source).body):
            yield f"{run['id']} asserts the answer in sight: move it to a folded cell"
        if run["outputs"]:
            yield from early_titles(run["id"], source, above)
            return


def is_claim(statement):
    """Is it an assert, or a loop or a condition that holds nothing else?"""
    if isinstance(statement, ast.Assert):
        return True
    if not isinstance(statement, ast.For | ast.If) or statement.orelse:
        return False
    return all(is_claim(part) for part in statement.body)


def alts_in_code(name, source):
    """An alt text among the code; the cell's metadata is the place for it."""
    for node in ast.walk(ast.parse(source)):
        keyword = isinstance(node, ast.keyword) and node.arg == "alt"
        variable = isinstance(node, ast.Name) and node.id == "alt"
        if keyword or variable:
            yield f"{name} tells its figure's alt text in the code"
            return


def early_titles(name, source, above):
    """Titles that say more than the section so far."""
    tree = ast.parse(source)
    known = set(words(above)) | set(words(without_titles(tree)))
    for title in titles(tree):
        for word in words(title):
            if word not in known and f"{word}s" not in known:
                yield f"{name} tells the answer in a title: {word!r} of {title!r}"


def titles(tree):
    """The titles of figures and views, where they are written out."""
    for node in title_nodes(tree):
        if isinstance(node, ast.Name) and node.id == "title":
            node = assigned(tree, node.id) or node
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def assigned(tree, name):
    """What a variable is set to in this cell, or None."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return node.value
    return None


def title_nodes(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (word.value for word in node.keywords if word.arg == "title")
            name = ast.unparse(node.func).removeprefix("plots.")
            if name in TITLE_PLACE and len(node.args) > TITLE_PLACE[name]:
                yield node.args[TITLE_PLACE[name]]


def without_titles(tree):
    nodes = list(title_nodes(tree))
    if value := assigned(tree, "title"):
        nodes.append(value)
    hidden = {id(part) for node in nodes for part in ast.walk(node)}
    visible = [node for node in ast.walk(tree) if id(node) not in hidden]
    names = [node.id for node in visible if isinstance(node, ast.Name)]
    texts = [str(node.value) for node in visible if isinstance(node, ast.Constant)]
    return " ".join(names + texts)


def words(text):
    """The longer words of a text, and its numbers, in small letters."""
    parts = re.findall(r"\d+(?:[.,]\d+)*|[^\W\d_]+", text.lower())
    return [part for part in parts if part[0].isdigit() or len(part) >= SHORT]


def printed_solutions(source, after):
    """Our own solution, open to be read right below the cell that asks for one."""
    asked = re.search(r"""check\(\s*["']([\w.]+)["'],\s*(\w+)""", source)
    if not asked:
        return
    exercise, answer = asked.groups()
    stub = signatures(source).get(answer)
    for cell in after:
        text = joined(cell["source"])
        if cell["cell_type"] == "markdown":
            here, *rest = re.split(r"^## ", text, maxsplit=1, flags=re.MULTILINE)
            if exercise in PREDICTED and holds(here, PREDICTED[exercise]):
                yield f"{cell['id']} tells the answer of {exercise}"
            if rest:  # a new section
                return
            continue
        folded = is_folded(cell)
        if stub and stub in signatures(text).values() and not folded:
            yield f"{cell['id']} prints the solution of {exercise}: fold its source"
        return


def signatures(source):
    """The names of the arguments of each function, and of each class's methods."""
    by_name = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            by_name[node.name] = tuple(one.arg for one in node.args.args)
        if isinstance(node, ast.ClassDef):
            methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
            by_name[node.name] = tuple(
                (one.name, *(argument.arg for argument in one.args.args))
                for one in methods
            )
    return {name: takes for name, takes in by_name.items() if takes}


def holds(text, number):
    return number in re.findall(r"\d+(?:[.,]\d+)*", text)


def predicted_numbers():
    """{exercise: the number that it asks for, as prose writes it}"""
    predicted = {}
    for exercises in find_banks().values():
        for exercise in exercises:
            value = exercise.reference() if exercise.predicts else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                predicted[exercise.name] = f"{value:,}"
    return predicted


PREDICTED = predicted_numbers()
