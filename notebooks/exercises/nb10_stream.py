"""An exercise of notebook 10: show a text while its ids are still arriving.

Knows bytes and UTF-8. Knows nothing of how an answer is run or shown.
"""

from collections.abc import Sequence

import torch

from named_mistakes import Exercise, Mistake


def stream(ids: Sequence[int], pieces: Sequence[bytes]) -> list[str]:
    """What can be shown after each id; an unfinished character waits for its rest."""
    texts = []
    waiting = b""
    for id in ids:
        waiting += pieces[id]
        complete = waiting.decode("utf-8", errors="ignore")  # without an unfinished end
        texts.append(complete)
        waiting = waiting[len(complete.encode()) :]
    return texts


def _each_alone(ids, pieces, errors):
    return [pieces[id].decode("utf-8", errors=errors) for id in ids]


def _everything_so_far(ids, pieces, errors):
    rows = [ids[: end + 1] for end in range(len(ids))]
    return [
        b"".join(pieces[id] for id in row).decode("utf-8", errors=errors)
        for row in rows
    ]


def _what_is_longer(ids, pieces):
    """Decode everything with replacement signs, show what is longer than before."""
    texts, length = [], 0
    for text in _everything_so_far(ids, pieces, "replace"):
        texts.append(text[length:])
        length = len(text)
    return texts


def _all_or_nothing(ids, pieces):
    """Show what waits only when its last byte ends a character."""
    texts, waiting = [], b""
    for id in ids:
        waiting += pieces[id]
        try:
            texts.append(waiting.decode("utf-8"))
            waiting = b""
        except UnicodeDecodeError:
            texts.append("")
    return texts


def _all_or_left_out(ids, pieces):
    """As before, and an id that has to wait gets no entry."""
    texts, waiting = [], b""
    for id in ids:
        waiting += pieces[id]
        try:
            texts.append(waiting.decode("utf-8"))
            waiting = b""
        except UnicodeDecodeError:
            continue
    return texts


def _never_emptied(ids, pieces):
    texts, waiting = [], b""
    for id in ids:
        waiting += pieces[id]
        try:
            texts.append(waiting.decode("utf-8"))
        except UnicodeDecodeError:
            texts.append("")
    return texts


def _cut_by_characters(ids, pieces):
    """Removes as many bytes as characters were shown."""
    texts, waiting = [], b""
    for id in ids:
        waiting += pieces[id]
        texts.append(waiting.decode("utf-8", errors="ignore"))
        waiting = waiting[len(texts[-1]) :]
    return texts


def _emptied_with_the_rest(ids, pieces):
    """Forgets the unfinished end as soon as something can be shown."""
    texts, waiting = [], b""
    for id in ids:
        waiting += pieces[id]
        texts.append(waiting.decode("utf-8", errors="ignore"))
        if texts[-1]:
            waiting = b""
    return texts


def _bytes_as_characters(ids, pieces):
    return [pieces[id].decode("latin-1") for id in ids]


def _arriving(generator):
    """Streams over one vocabulary, whose ids are drawn."""
    cuts = [b"b", b"\xc3", b"\xa0n", b" \xf0\x9f", b"\x99\x82", b" ok", b"n\xc6"]
    cuts += [b"\xb0\xe1\xbb", b"\x9b", b"c \xe1", b"\xba\xbf", b"\xf0", b"\x9f"]
    cuts += [b"\x99", b"\x82", b"a\xf0\x9f\x99", b"\xc3\xa9t"]
    order = torch.randperm(len(cuts), generator=generator).tolist()
    pieces = [b"" for _ in cuts]
    for piece, id in zip(cuts, order, strict=True):
        pieces[id] = piece
    streams = [
        (0, 1, 2, 3, 4, 5),  # bàn 🙂 ok
        (6, 7, 8, 9, 10, 3),  # nước ế and half a face
        (5, 11, 12, 13, 14, 0),  # the bytes of a face, one by one
        (15, 14, 16, 0),  # three bytes of a face behind a letter; a whole é
        (0, 5, 0),
        (5,),
        (1,),
        (),
    ]
    cases = [([order[place] for place in row], pieces) for row in streams]
    return [*cases, (cases[-4][0], [b"." + piece for piece in pieces])]


STREAM = Exercise(
    name="tokens.stream",
    statement="Gives a list: for each id of a stream the text that it adds for a "
    "reader, from `pieces[id]`, its bytes. A character appears once all its bytes are "
    "there.",
    takes=("ids", "pieces"),
    reference=stream,
    cases=_arriving,
    mistakes=(
        Mistake(
            name="each piece by itself, with replacement signs",
            function=lambda ids, pieces: _each_alone(ids, pieces, "replace"),
            hint="Half a character is not an error here: the other half is on its way.",
            more="Keep the bytes that you cannot show yet, and append the next piece "
            "to them.",
        ),
        Mistake(
            name="halves are thrown away",
            function=lambda ids, pieces: _each_alone(ids, pieces, "ignore"),
            hint="The halves of a character are dropped, each in its own piece.",
            more="Bytes that cannot be shown yet must still be there for the next id.",
        ),
        Mistake(
            name="everything so far, each time",
            function=lambda ids, pieces: _everything_so_far(ids, pieces, "ignore"),
            hint="Printed one after the other, your texts repeat the beginning often.",
            more="Only what is new since the last id.",
        ),
        Mistake(
            name="everything so far, with replacement signs",
            function=lambda ids, pieces: _everything_so_far(ids, pieces, "replace"),
            hint="The beginning comes again and again, and half characters show.",
            more="Only what is new since the last id, and only whole characters.",
        ),
        Mistake(
            name="a replacement sign is counted as shown",
            function=_what_is_longer,
            hint="For half a character, you have already shown a replacement sign. Who "
            "takes it back?",
            more="Measure what was shown in whole characters, without a sign for the "
            "rest.",
        ),
        Mistake(
            name="a whole character waits for the next",
            function=_all_or_nothing,
            hint="A piece may end one character and begin another. The first is "
            "complete.",
            more="Show the part that is valid. Only the rest has to wait.",
        ),
        Mistake(
            name="only whole pieces, and the others are left out",
            function=_all_or_left_out,
            hint="Your list is shorter than the row of ids, and a whole character may "
            "wait for the next.",
            more="An id that shows nothing gets an empty text. Of a longer piece, show "
            "the valid part.",
        ),
        Mistake(
            name="what was shown stays in store",
            function=_never_emptied,
            hint="The beginning comes again and again. When do you forget what is "
            "shown?",
            more="Keep only the bytes that are not shown yet.",
        ),
        Mistake(
            name="the rest is thrown away with what is shown",
            function=_emptied_with_the_rest,
            hint="A piece may end one character and begin another. Where are the bytes "
            "of the second?",
            more="Remove the bytes of what you show, and no others.",
        ),
        Mistake(
            name="as many bytes removed as characters shown",
            function=_cut_by_characters,
            hint="After “à” one of its bytes is still in store. How many bytes does "
            "“à” have?",
            more="`len` of a text counts characters. What you store are bytes.",
        ),
        Mistake(
            name="a byte is taken for a character",
            function=_bytes_as_characters,
            hint="Each byte becomes a letter of its own. That is a different encoding, "
            "Latin-1.",
            more="UTF-8 writes “à” as two bytes. Decode them together.",
        ),
        Mistake(
            name="ids that show nothing are left out",
            function=lambda ids, pieces: [text for text in stream(ids, pieces) if text],
            hint="Your list is shorter than the row of ids.",
            more="An id that shows nothing gets an empty text.",
        ),
    ),
    hint="Walk along the ids and keep the bytes that are not shown yet. Decode them: "
    'with errors="ignore", an unfinished end is left out. Remove the bytes of what you '
    "show.",
)


EXERCISES = (STREAM,)
