"""Which cells and outputs of two versions of a notebook belong together, and differ.

Knows the JSON of notebooks. Knows nothing of git and pages.
"""

import copy
import difflib
import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.support.notebook_rules import alt_text, joined

ALIKE = 0.5  # the share of common words from which one cell counts as the other, edited
STORED_BESIDE = ("cell_type", "id", "source", "outputs", "execution_count")


@dataclass
class Output:
    """One output: texts and pictures by kind, alt text, and what else is stored."""

    parts: dict[str, str]
    alt: str
    metadata: dict[str, Any]


@dataclass
class Cell:
    """One cell; its name and place do not count where two are compared."""

    name: str = field(compare=False)
    place: int = field(compare=False)
    kind: str
    source: str
    outputs: list[Output]
    rest: dict[str, Any]


@dataclass
class Change:
    """A cell before and after; None where it was added or removed."""

    old: Cell | None
    new: Cell | None
    moved: bool = False

    @property
    def kind(self):
        """What happened, in one or two words."""
        if self.old is None:
            return "added"
        if self.new is None:
            return "removed"
        if self.old == self.new:
            return "moved"
        return "changed and moved" if self.moved else "changed"


# --- reading -----------------------------------------------------------------------


def cells_of(notebook):
    """The cells, named as the tests name them."""
    found = []
    count = 0
    for place, cell in enumerate(notebook["cells"], start=1):
        name = cell.get("id", "")
        if cell["cell_type"] == "code":
            count += 1
            name = f"In [{count}] {name}".rstrip()
        found.append(
            Cell(
                name=name or f"cell {place}",
                place=place,
                kind=cell["cell_type"],
                source=joined(cell["source"]),
                outputs=outputs_of(cell),
                rest=rest_of(cell),
            )
        )
    return found


def rest_of(cell):
    """What is stored beside source and outputs: tags, other metadata, attachments."""
    rest = dict(cell.get("metadata", {}))
    for name, value in cell.items():
        if name not in (*STORED_BESIDE, "metadata"):
            rest[name] = value
    return rest


def outputs_of(cell):
    """The outputs; the pieces of a stream are put together."""
    found = []
    for output in cell.get("outputs", []):
        kind = output["output_type"]
        if kind == "stream":
            name, text = output["name"], joined(output["text"])
            if found and list(found[-1].parts) == [name]:
                found[-1].parts[name] += text
                continue
            parts = {name: text}
        elif kind == "error":
            parts = {"error": f"{output['ename']}: {output['evalue']}"}
        else:
            data = sorted(output["data"].items())
            parts = {name: _as_text(value) for name, value in data}
        found.append(Output(parts, alt_text(output), _other_metadata(output)))
    return found


def _as_text(value):
    lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return joined(value) if isinstance(value, str) or lines else pretty(value)


def _other_metadata(output):
    """The metadata of an output without its alt text, which is compared by itself."""
    kept = copy.deepcopy(output.get("metadata", {}))
    kept.pop("alt", None)
    kept.get("image/png", {}).pop("alt", None)
    return {name: value for name, value in kept.items() if value}


def pretty(value):
    """JSON as people read it; nothing if the value is empty."""
    if not value:
        return ""
    return json.dumps(value, indent=1, ensure_ascii=False, sort_keys=True)


# --- comparing ---------------------------------------------------------------------


def changes(old, new):
    """The cells that differ, in the order of the new notebook.

    Cells belong together by what they say, whatever their ids. A removed cell comes
    after the one that it followed.
    """
    found = pairs(
        [(cell.kind, cell.source) for cell in old],
        [(cell.kind, cell.source) for cell in new],
        lambda a, b: likeness(old[a], new[b]),
    )
    steady = in_order([b for _, b in found])
    partner = dict(found)
    taken = set(partner.values())
    listed = []
    follows = -1
    for a, cell in enumerate(old):
        follows = partner.get(a, follows)
        if a in partner:
            change = Change(cell, new[follows], follows not in steady)
            listed.append((follows, 0, change))
        else:
            listed.append((follows, 1, Change(cell, None)))
    for b, cell in enumerate(new):
        if b not in taken:
            listed.append((b, 0, Change(None, cell)))
    listed.sort(key=lambda one: one[:2])
    told = [change for _, _, change in listed]
    return [change for change in told if change.moved or change.old != change.new]


def pairs(old_keys, new_keys, alike):
    """Which place in the old list belongs to which in the new one, in the old order.

    First what is the same in the same order, then what is most alike, wherever it
    stands. alike(a, b): how much the entries at two places have in common, 0 to 1.
    """
    matcher = difflib.SequenceMatcher(None, old_keys, new_keys, autojunk=False)
    found = {}
    for block in matcher.get_matching_blocks():
        for step in range(block.size):
            found[block.a + step] = block.b + step
    taken = set(found.values())
    candidates = []
    for a in set(range(len(old_keys))) - set(found):
        for b in set(range(len(new_keys))) - taken:
            common = alike(a, b)
            if common >= ALIKE:
                candidates.append((-common, abs(a - b), a, b))
    for _, _, a, b in sorted(candidates):
        if a not in found and b not in taken:
            found[a] = b
            taken.add(b)
    return sorted(found.items())


def likeness(old, new):
    """The share of words that two cells have in common; 0 for a text and code."""
    if old.kind != new.kind:
        return 0.0
    if old.source == new.source:
        return 1.0
    words = [re.findall(r"\w+", cell.source) for cell in (old, new)]
    matcher = difflib.SequenceMatcher(None, *words, autojunk=False)
    if matcher.quick_ratio() < ALIKE:
        return 0.0
    return matcher.ratio()


def in_order(numbers):
    """The longest selection of the numbers that rises."""
    ending = []  # for each number the longest such selection that ends with it
    for number in numbers:
        before = [chosen for chosen in ending if chosen[-1] < number]
        ending.append([*max(before, key=len, default=[]), number])
    return max(ending, key=len, default=[])


def output_changes(old, new):
    """(number, old output, new output) of each output that differs; None for neither.

    The number counts the outputs of the new cell, of the old one if it was removed.
    """
    before = old.outputs if old else []
    after = new.outputs if new else []
    found = pairs(
        [repr(output) for output in before],
        [repr(output) for output in after],
        lambda a, b: float(list(before[a].parts) == list(after[b].parts)),
    )
    partner = dict(found)
    taken = set(partner.values())
    listed = []
    for a, output in enumerate(before):
        if a not in partner:
            listed.append((a + 1, output, None))
        elif output != after[partner[a]]:
            listed.append((partner[a] + 1, output, after[partner[a]]))
    for b, output in enumerate(after):
        if b not in taken:
            listed.append((b + 1, None, output))
    return sorted(listed, key=lambda one: one[0])


def picture_kinds(output):
    """The kinds of picture that an output holds, such as image/png."""
    parts = output.parts if output else {}
    return [kind for kind in parts if kind.startswith("image/")]


def changed_pictures(old, new):
    """The kinds of picture in which two outputs differ; one of them may be None."""
    before = old.parts if old else {}
    after = new.parts if new else {}
    kinds = dict.fromkeys(picture_kinds(old) + picture_kinds(new))
    return [kind for kind in kinds if before.get(kind) != after.get(kind)]
