"""Right answers to the exercises of notebook 10 in many styles; doubly wrong ones."""

import codecs
import math
from collections import Counter
from itertools import pairwise

import numpy as np
import torch
from nb10_bits_per_byte import bits_of_all
from nb10_stream import stream

from course_utils import bpe
from course_utils.looking.metrics import bits_per_byte


def counts_by_places(words):
    pairs = {}
    for word in words:
        for i in range(len(word) - 1):
            pair = (word[i], word[i + 1])
            pairs[pair] = pairs.get(pair, 0) + words[word]
    return pairs


def counts_by_sums(words):
    total = Counter()
    for word, times in words.items():
        for pair, here in Counter(pairwise(word)).items():
            total.update({pair: here * times})
    return dict(total)


def merge_by_stack(word, pair, new):
    done = []
    for id in word:
        if done and (done[-1], id) == pair:
            done[-1] = new
        else:
            done.append(id)
    return tuple(done)


def merge_by_recursion(word, pair, new):
    if len(word) < 2:
        return list(word)
    if tuple(word[:2]) == tuple(pair):
        return [new, *merge_by_recursion(word[2:], pair, new)]
    return [word[0], *merge_by_recursion(word[1:], pair, new)]


def encode_by_list(word, merges):
    """All merges once, in the order of learning: the same, only slower."""
    for pair, new in merges.items():
        word = bpe.join(word, pair, new)
    return list(word)


def encode_place_by_place(word, merges):
    ids = list(word)
    while True:
        ranks = [merges.get(pair, 10**9) for pair in pairwise(ids)]
        if not ranks or min(ranks) == 10**9:
            return tuple(ids)
        place = ranks.index(min(ranks))
        ids[place : place + 2] = [ranks[place]]


def stream_by_codec(ids, pieces):
    decoder = codecs.getincrementaldecoder("utf-8")()
    return [decoder.decode(pieces[id]) for id in ids]


def stream_by_tries(ids, pieces):
    """The longest beginning that is valid."""
    waiting, texts = b"", []
    for id in ids:
        waiting += pieces[id]
        for end in range(len(waiting), -1, -1):
            try:
                texts.append(str(waiting[:end], "utf-8"))
            except UnicodeDecodeError:
                continue
            waiting = waiting[end:]
            break
    return tuple(texts)


def bits_by_tensors(nats, counts, texts):
    all_nats = torch.tensor(nats) @ torch.tensor(counts).to(torch.tensor(nats))
    return all_nats * math.log2(math.e) / len("".join(texts).encode())


RIGHT_ANSWERS = {
    "tokens.pair_counts": [
        counts_by_places,
        counts_by_sums,
    ],
    "tokens.merge": [
        merge_by_stack,
        merge_by_recursion,
    ],
    "tokens.encode": [encode_by_list, encode_place_by_place],
    "tokens.stream": [stream_by_codec, stream_by_tries],
    "tokens.tokens_per_byte": [
        lambda text, ids: np.size(ids) / sum(len(c.encode("utf-8")) for c in text),
        lambda text, ids: 1 / (len(text.encode()) / len(ids)),
    ],
    "tokens.bits_per_byte": [
        bits_by_tensors,
        lambda nats, counts, texts: bits_per_byte(
            float(np.dot(nats, counts)) / sum(counts),
            sum(counts),
            sum(len(text.encode()) for text in texts),
        ),
    ],
}
DOUBLE_MISTAKES = {
    "tokens.pair_counts": [
        lambda words: Counter(pair for word in words for pair in set(pairwise(word))),
        lambda words: Counter(p for word in words for p in pairwise(word[:-1])),
    ],
    "tokens.merge": [
        lambda word, pair, new: merge_by_stack(word[:-1][::-1], pair[::-1], new)[::-1],
        lambda word, pair, new: [new if id in pair else id for id in word],
    ],
    "tokens.encode": [
        lambda word, merges: next(
            (bpe.join(word, p, merges[p]) for p in pairwise(word) if p in merges), word
        ),
        lambda word, merges: encode_by_list(word, dict(reversed(merges.items()))),
    ],
    "tokens.stream": [
        lambda ids, pieces: "".join(stream(ids, pieces)),
        lambda ids, pieces: [pieces[id].decode("utf-8", "replace") for id in ids if id],
    ],
    "tokens.tokens_per_byte": [lambda text, ids: len(text) / len(ids)],
    "tokens.bits_per_byte": [
        lambda nats, counts, texts: sum(nats) / len(nats) / math.log(2),
        lambda nats, counts, texts: (
            bits_of_all(nats, counts, texts) * math.log(2) * len(texts[0])
        ),
    ],
}
