"""A translator of real sentences, and what it says after 60 to 10,000 steps.

Writes the shipped weights `spanish`, too. PAIRS=file.tsv make record NB=08 reads that
file instead of the hub's pairs.
"""

import os

import torch
from sacrebleu.metrics import CHRF
from torch import nn

from course_utils import pretrained
from course_utils.data.hub import load_pairs
from course_utils.data.splits import split_pairs
from course_utils.decoding import TranslationStep, greedy
from course_utils.metrics import bleu
from tools.train_shipped import spanish

PAIRS = os.environ.get("PAIRS", "sentence-transformers/parallel-sentences-tatoeba")
SEEDS = (0,)
POINTS = [{"steps": 10_000}]
LOOK = (60, 200, 600, 3000, 10_000)
SENTENCES = (
    "I lost my keys again.",
    "My sister bought a red car yesterday.",
    "The old man told us a long story.",
    "If it rains, we will stay at home.",
    "Nobody knows why the dog is afraid of the cat.",
)


def run(steps: int) -> dict:
    """BLEU and chrF of 500 unseen sentences, and our five, after each step of LOOK."""
    _, test = split_pairs(pair for pair in load_pairs(PAIRS) if fits(pair))
    questions = sorted(test)[:: len(test) // 500][:500]
    references = [test[question] for question in questions]
    results = {}
    done = 0

    def watch(model, tokenizer) -> None:
        nonlocal done
        done += 20
        if done in LOOK:
            answers = translate(model, tokenizer, questions)
            results[f"bleu {done}"] = bleu(answers, references)
            results[f"chrf {done}"] = chrf(answers, references)
            results[f"ours {done}"] = translate(model, tokenizer, SENTENCES)
            print(results, flush=True)

    model, tokenizer, history = spanish(PAIRS, steps, watch=watch)
    pretrained.save(model, tokenizer, pretrained.FOLDER / "spanish", torch.bfloat16)
    results["loss"] = sum(history.losses[-200:]) / 200
    return results


def fits(pair: tuple[str, str]) -> bool:
    """Whether the training reads a pair of this length."""
    return len(pair[0].split()) <= 10


def translate(model, tokenizer, sentences) -> list[str]:
    """Spanish for English, greedily."""
    ids = [torch.tensor(tokenizer.encode(text)) for text in sentences]
    step = TranslationStep(model, nn.utils.rnn.pad_sequence(ids, batch_first=True))
    prompt = torch.full((len(ids), 1), tokenizer.bos_id)
    stop = {"stop_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
    return [tokenizer.decode(row) for row in greedy(step, prompt, 40, **stop)]


def chrf(answers: list[str], references: list[list[str]]) -> float:
    """chrF (Popović 2015): a score of letters instead of words."""
    most = max(len(texts) for texts in references)
    columns = [
        [texts[min(n, len(texts) - 1)] for texts in references] for n in range(most)
    ]
    return CHRF().corpus_score(answers, columns).score
