"""Right answers to the exercises of notebook 10, each unlike the reference."""

import codecs
import math
from collections import Counter
from itertools import pairwise

import torch

from course_utils import bpe


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


def merges_by_lists(words, num_merges):
    """All words in one list; what is joined leaves a hole, which is swept out."""
    texts = [[list(word), times] for word, times in words.items()]
    merges = {}
    for new in range(260, 260 + num_merges):
        counts = {}
        for ids, times in texts:
            for pair in pairwise(ids):
                counts[pair] = counts.get(pair, 0) + times
        if not counts:
            break
        most = max(counts.values())
        best = sorted(pair for pair in counts if counts[pair] == most)[0]
        merges[best] = new
        for text in texts:
            ids = text[0]
            for place in range(len(ids) - 1):
                if (ids[place], ids[place + 1]) == best:
                    ids[place : place + 2] = new, None
            text[0] = [id for id in ids if id is not None]
    return merges


def merges_of_the_package(words, num_merges):
    letters = bpe.BytePairs()
    texts = [letters.decode(w) for w, times in words.items() for _ in range(times)]
    return bpe.train(texts, 260 + num_merges).made


def encode_by_list(word, merges):
    """All merges once, in the order of learning: the same, only slower."""
    for pair, new in merges.items():
        word = bpe.join(word, pair, new)
    return list(word)


def stream_by_codec(ids, pieces):
    decoder = codecs.getincrementaldecoder("utf-8")()
    return [decoder.decode(pieces[id]) for id in ids]


def bits_by_tensors(nats, counts, texts):
    all_nats = torch.tensor(nats) @ torch.tensor(counts).to(torch.tensor(nats))
    return all_nats * math.log2(math.e) / len("".join(texts).encode())


RIGHT_ANSWERS = {
    "tokens.pair_counts": [counts_by_sums],
    "tokens.merge": [merge_by_stack],
    "tokens.train": [merges_by_lists, merges_of_the_package],
    "tokens.encode": [encode_by_list],
    "tokens.stream": [stream_by_codec],
    "tokens.bits_per_byte": [bits_by_tensors],
}
