"""What changed in notebooks as one HTML page that needs nothing beside itself.

Knows changes and HTML. Knows nothing of git and files.
"""

import base64
import difflib
import json
import re
from html import escape

from tests.support.notebook_changes import (
    changed_pictures,
    output_changes,
    picture_kinds,
    pretty,
)
from tests.support.notebook_rules import shortened
from tests.support.pictures import picture_difference

CONTEXT = 2  # unchanged lines shown before and after a change
LONG_LINE = 500  # characters; a longer line is broken after signs of code
MANY_LINES = 100  # of one output; the rest is counted
MANY_WORDS = 5000  # in which words that differ are still marked
SAME_WORDS = 0.3  # the share of common words from which the others are marked
WORD = re.compile(r"\n|\w+|[^\w\n]")
STYLE = """
body { font: 1rem/1.5 sans-serif; max-width: 100rem; margin: 0 auto; padding: 1rem;
       color: #111; background: #fff; }
h2 { border-top: 0.2rem solid #444; padding-top: 1rem; margin-top: 3rem; }
h3 { border-top: 1px solid #999; padding-top: 1rem; margin-top: 2rem; }
h4 { margin: 1rem 0 0.3rem; font-weight: normal; color: #444; }
p { margin: 0.3rem 0; }
pre { font: 0.9rem/1.4 monospace; margin: 0; padding: 0.6rem; background: #f5f5f5;
      white-space: pre-wrap; overflow-wrap: anywhere; }
.old { background: #fbdcc6; }
.new { background: #cfe5f5; }
.old, .new { color: #000; }
mark { color: inherit; background: none; font-weight: bold;
       text-decoration: underline; }
.pictures { display: grid; gap: 1rem;
            grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); }
figure { margin: 0; }
figcaption { color: #444; }
img { max-width: 100%; background: #fff; border: 1px solid #999; }
"""


def page(reports, against):
    """The whole page; `against` says in words with what is compared."""
    title = escape(f"Changes in notebooks since {against}")
    sections = [section(report, place) for place, report in enumerate(reports)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n<h1>{title}</h1>\n"
        "<p>Lines that begin with - are old, lines that begin with + are new.</p>\n"
        f"{contents(reports)}\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def contents(reports):
    """One line for each notebook, as the command prints it, with a link."""
    items = [
        f'<li><a href="#notebook-{place}">{escape(report.summary())}</a></li>'
        for place, report in enumerate(reports)
    ]
    return f"<ul>\n{''.join(items)}\n</ul>"


def section(report, place):
    """One notebook."""
    parts = [f'<h2 id="notebook-{place}">{escape(report.name)}</h2>\n']
    parts += [f"<p>{escape(sentence)}</p>\n" for sentence in report.news]
    if report.old_rest != report.new_rest:
        parts.append(heading("Metadata of the notebook"))
        parts.append(text_change(pretty(report.old_rest), pretty(report.new_rest)))
    parts += [cell_section(change) for change in report.changes]
    return "".join(parts)


def heading(text):
    return f"<h4>{escape(text)}</h4>\n"


# --- cells -------------------------------------------------------------------------


def cell_section(change):
    """One changed cell: what happened to it in words, its source, its outputs."""
    cell = change.new or change.old
    parts = [f"<h3>{escape(cell.name)}: {change.kind}</h3>\n"]
    parts += [f"<p>{escape(sentence)}</p>\n" for sentence in cell_news(change)]
    old_source = change.old.source if change.old else ""
    new_source = change.new.source if change.new else ""
    if old_source != new_source:
        parts.append(heading("Source"))
        parts.append(text_change(old_source, new_source, most=None))
    else:
        parts.append("<details><summary>The source is unchanged.</summary>\n")
        parts.append(f"<pre>{escape(cell.source)}</pre></details>\n")
    parts += outputs_section(change)
    return "".join(parts)


def cell_news(change):
    """Sentences about the name, the place, the tags and other metadata of a cell."""
    old, new = change.old, change.new
    if old and new and old.name != new.name:
        yield f"Its old name is {old.name}."
    if change.moved:
        yield f"It was cell {old.place} of the notebook, now it is cell {new.place}."
    before = old.rest if old else {}
    after = new.rest if new else {}
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"{name}: {_value(before, name)} before, {_value(after, name)} now."


def _value(values, name):
    if name not in values:
        return "none"
    return shortened(json.dumps(values[name], ensure_ascii=False))


# --- outputs -----------------------------------------------------------------------


def outputs_section(change):
    """All outputs of a cell that differ, one after the other."""
    old, new = change.old, change.new
    shown = [
        output_section(change, number, before, after)
        for number, before, after in output_changes(old, new)
    ]
    if not shown and old and new and old.outputs != new.outputs:
        shown.append("<p>The outputs are the same in another order.</p>\n")
    return shown


def output_section(change, number, old, new):
    """What differs in one output: texts, alt text, metadata and pictures."""
    counts = [len(cell.outputs) for cell in (change.old, change.new) if cell]
    name = "Output" if max(counts) == 1 else f"Output {number}"
    parts = []
    for kind, before, after in text_parts(old, new):
        if before != after:
            parts.append(heading(f"{name}: {kind}"))
            parts.append(text_change(before, after))
    kinds = changed_pictures(old, new)
    for kind in kinds:
        parts.append(heading(f"{name}: {kind}"))
        parts.append(picture_change(kind, old, new))
    if not kinds:
        for kind in picture_kinds(new):
            parts.append(heading(f"{name}: {kind}, unchanged"))
            parts.append(pictures([figure("", "The picture", kind, new)]))
    return "".join(parts)


def text_parts(old, new):
    """(what it is, old text, new text) of everything in two outputs but pictures."""
    before = old.parts if old else {}
    after = new.parts if new else {}
    old_alt = old.alt if old else ""
    new_alt = new.alt if new else ""
    for kind in dict.fromkeys([*before, *after]):
        old_text = before.get(kind, "")
        new_text = after.get(kind, "")
        is_picture = kind.startswith("image/")
        is_alt = kind == "text/plain" and old_text == old_alt and new_text == new_alt
        if not is_picture and not is_alt:
            yield kind, old_text, new_text
    yield "alt text", old_alt, new_alt
    old_metadata = old.metadata if old else {}
    new_metadata = new.metadata if new else {}
    yield "metadata", pretty(old_metadata), pretty(new_metadata)


def picture_change(kind, old, new):
    """The old and the new picture side by side, and where they differ."""
    before = old.parts.get(kind) if old else None
    after = new.parts.get(kind) if new else None
    shown = []
    if before:
        shown.append(figure("Old picture", "Old picture", kind, old))
    if after:
        shown.append(figure("New picture", "New picture", kind, new))
    said = ""
    if before and after and kind == "image/svg+xml":
        said = "<p>The SVG files differ.</p>\n"
    elif before and after:
        difference, sentence = picture_difference(before, after)
        said = f"<p>{escape(sentence)}</p>\n"
        if difference:
            address = f"data:image/png;base64,{difference}"
            caption = "Difference: the darker, the larger"
            shown.append(_figure(address, f"{caption}. {sentence}", caption))
    return pictures(shown) + said


def figure(caption, name, kind, output):
    """A picture of an output; its alt text is introduced by what it is here."""
    data = output.parts[kind]
    if kind == "image/svg+xml":
        data = base64.b64encode(data.encode()).decode()
    alt = f"{name}: {output.alt or 'it has no alt text'}"
    return _figure(f"data:{kind};base64,{''.join(data.split())}", alt, caption)


def _figure(address, alt, caption):
    under = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return (
        f'<figure><img src="{escape(address)}" alt="{escape(alt)}">{under}</figure>\n'
    )


def pictures(figures):
    return f'<div class="pictures">\n{"".join(figures)}</div>\n'


# --- texts -------------------------------------------------------------------------


def text_change(old, new, most=MANY_LINES):
    """Two texts line by line: "-" is old, "+" is new, "⋮" is what is left out.

    most: how many lines are shown; None for all.
    """
    before, after = lines_of(old), lines_of(new)
    told = []
    matcher = difflib.SequenceMatcher(None, before, after)
    for group in matcher.get_grouped_opcodes(CONTEXT):
        if told or group[0][1] > 0:
            told.append("⋮")
        for kind, a, a_end, b, b_end in group:
            if kind == "equal":
                told += [f"  {escape(line)}" for line in before[a:a_end]]
            else:
                told += replaced(before[a:a_end], after[b:b_end])
    if not told:
        told = ["(They differ at the ends of lines or in a long run of letters.)"]
    if most is not None and len(told) > most:
        told[most:] = [f"⋮ and {len(told) - most:,} lines more"]
    text = "\n".join(told)
    return f"<pre>{text}</pre>\n"


def lines_of(text):
    """The lines without pictures in base64; a very long line becomes several."""
    found = []
    for line in shortened(text).splitlines():
        if len(line) > LONG_LINE:
            found += [part for part in re.split(r"(?<=[,;{}>])", line) if part]
        else:
            found.append(line)
    return found


def replaced(old, new):
    """Old lines and the new ones in their place, with signs, as HTML."""
    before, after = marked("\n".join(old), "\n".join(new))
    gone = [f'<span class="old">- {line}</span>' for line in before.split("\n")]
    come = [f'<span class="new">+ {line}</span>' for line in after.split("\n")]
    return (gone if old else []) + (come if new else [])


def marked(old, new):
    """Two texts as HTML; the words that differ are marked if they are not too many."""
    before, after = WORD.findall(old), WORD.findall(new)
    few = len(before) + len(after) <= MANY_WORDS
    matcher = difflib.SequenceMatcher(None, before, after)
    if not few or matcher.ratio() < SAME_WORDS:
        return escape(old), escape(new)
    old_html = ""
    new_html = ""
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        old_html += _words(before[a:a_end], kind != "equal")
        new_html += _words(after[b:b_end], kind != "equal")
    return old_html, new_html


def _words(words, differ):
    """Some words as HTML; a mark does not reach over the end of a line."""
    if not differ:
        return escape("".join(words))
    lines = "".join(words).split("\n")
    return "\n".join(f"<mark>{escape(line)}</mark>" if line else "" for line in lines)
