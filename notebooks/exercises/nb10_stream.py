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
    return [([order[place] for place in row], pieces) for row in streams]


STREAM = Exercise(
    "tokens.stream",
    "Gives a list: for each id of a stream the text that it adds for a reader, from "
    "`pieces[id]`, its bytes. A character appears once all its bytes are there.",
    ("ids", "pieces"),
    stream,
    _arriving,
    (
        Mistake(
            "each piece by itself, with replacement signs",
            lambda ids, pieces: _each_alone(ids, pieces, "replace"),
            "Half a character is not an error here: the other half is on its way.",
            "Keep the bytes that you cannot show yet, and append the next piece to "
            "them.",
        ),
        Mistake(
            "halves are thrown away",
            lambda ids, pieces: _each_alone(ids, pieces, "ignore"),
            "The halves of a character are dropped, each in its own piece.",
            "Bytes that cannot be shown yet must still be there for the next id.",
        ),
        Mistake(
            "everything so far, each time",
            lambda ids, pieces: _everything_so_far(ids, pieces, "ignore"),
            "Printed one after the other, your texts repeat the beginning often.",
            "Only what is new since the last id.",
        ),
        Mistake(
            "everything so far, with replacement signs",
            lambda ids, pieces: _everything_so_far(ids, pieces, "replace"),
            "The beginning comes again and again, and half characters show.",
            "Only what is new since the last id, and only whole characters.",
        ),
        Mistake(
            "a replacement sign is counted as shown",
            _what_is_longer,
            "For half a character, you have already shown a replacement sign. Who "
            "takes it back?",
            "Measure what was shown in whole characters, without a sign for the rest.",
        ),
        Mistake(
            "a whole character waits for the next",
            _all_or_nothing,
            "A piece may end one character and begin another. The first is complete.",
            "Show the part that is valid. Only the rest has to wait.",
        ),
        Mistake(
            "only whole pieces, and the others are left out",
            _all_or_left_out,
            "Your list is shorter than the row of ids, and a whole character may wait "
            "for the next.",
            "An id that shows nothing gets an empty text. Of a longer piece, show the "
            "valid part.",
        ),
        Mistake(
            "what was shown stays in store",
            _never_emptied,
            "The beginning comes again and again. When do you forget what is shown?",
            "Keep only the bytes that are not shown yet.",
        ),
        Mistake(
            "the rest is thrown away with what is shown",
            _emptied_with_the_rest,
            "A piece may end one character and begin another. Where are the bytes of "
            "the second?",
            "Remove the bytes of what you show, and no others.",
        ),
        Mistake(
            "as many bytes removed as characters shown",
            _cut_by_characters,
            "After “à” one of its bytes is still in store. How many bytes does “à” "
            "have?",
            "`len` of a text counts characters. What you store are bytes.",
        ),
        Mistake(
            "a byte is taken for a character",
            _bytes_as_characters,
            "Each byte becomes a letter of its own. That is a different encoding, "
            "Latin-1.",
            "UTF-8 writes “à” as two bytes. Decode them together.",
        ),
        Mistake(
            "ids that show nothing are left out",
            lambda ids, pieces: [text for text in stream(ids, pieces) if text],
            "Your list is shorter than the row of ids.",
            "An id that shows nothing gets an empty text.",
        ),
    ),
    "Walk along the ids and keep the bytes that are not shown yet. Decode them: with "
    'errors="ignore", an unfinished end is left out. Remove the bytes of what you '
    "show.",
)


EXERCISES = (STREAM,)
