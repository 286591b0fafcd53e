"""A translator of the phrase world that reads and writes pieces of words.

It is made as the shipped one in `tools/train_shipped.py`, with another tokenizer and in
half as many steps. Recorded are its translations of 200 sentences of each split.
"""

import torch
from torch import nn

from course_utils import config as configs
from course_utils import models
from course_utils.data.batches import pair_batches
from course_utils.data.hub import load_pairs
from course_utils.decoding import TranslationStep, greedy
from course_utils.tokenizer import train_bpe
from course_utils.training.loop import train
from course_utils.training.losses import translation_loss
from known_worlds.phrases import pair

SEEDS = (0,)
POINTS = [{"vocabulary": 1000, "steps": 1000}]
SPLITS = ("test", "object", "clitic_negation_future", "adjective")


def run(vocabulary: int, steps: int) -> dict:
    """The translations, split by split, and the loss at the end."""
    pairs = load_pairs("phrases", limit=60_000)
    tokenizer = train_bpe([text for both in pairs for text in both], vocabulary)
    torch.manual_seed(0)
    stack = configs.StackConfig(
        d_model=128, num_heads=4, num_layers=3, d_ff=512, max_length=64
    )
    shape = configs.EncoderDecoderConfig(
        source_vocab_size=tokenizer.vocab_size,
        target_vocab_size=tokenizer.vocab_size,
        encoder=stack,
        decoder=stack,
        share_weights=True,
    )
    model = models.EncoderDecoder(shape)
    ids = [(tokenizer.encode(one), tokenizer.encode(other)) for one, other in pairs]
    batches = pair_batches(ids, batch_size=64, max_length=64, special=tokenizer)
    config = configs.TrainConfig(
        steps=steps, learning_rate=4e-3, label_smoothing=0.1, optimizer="muon"
    )
    history = train(model, batches, config, loss=translation_loss)
    model.eval()
    results = {"loss": sum(history.losses[-50:]) / 50}
    for split in SPLITS:
        sentences = [pair(index, split).source for index in range(200)]
        results[split] = translate(model, tokenizer, sentences)
    return results


def translate(model, tokenizer, sentences) -> list[str]:
    """Spanish for English, greedily."""
    ids = [torch.tensor(tokenizer.encode(text)) for text in sentences]
    step = TranslationStep(model, nn.utils.rnn.pad_sequence(ids, batch_first=True))
    begin = torch.full((len(ids), 1), tokenizer.bos_id)
    stop = {"stop_id": tokenizer.eos_id, "pad_id": tokenizer.pad_id}
    return [tokenizer.decode(row) for row in greedy(step, begin, 60, **stop)]
