"""Ways to train a decoder on stories: the course's, and what others would use.

Every way is a function (stories, rate, batch size, steps) -> logits of ids, and every
model has the width, depth and heads of SIZE.
"""

import math
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.gpt2 import GPT2
from benchmarks.stories import CONTEXT, Stories
from course_utils.config import LlamaConfig, TrainConfig
from course_utils.models import LlamaLM
from course_utils.training.loop import train
from course_utils.training.losses import label_loss

SIZE = {"width": 256, "heads": 4, "layers": 2}
D_FF = 688
MULTIPLE = 16  # the course rounds the lengths of its batches up to one of these
Score = Callable[[Tensor], Tensor]


def course(
    stories: Stories,
    rate: float,
    batch_size: int,
    steps: int,
    **settings: Any,
) -> Score:
    """The course's model, in the course's loop: Muon, linear decay, rounded lengths."""
    torch.manual_seed(0)
    model = LlamaLM(
        LlamaConfig(
            vocab_size=stories.tokenizer.vocab_size,
            d_model=SIZE["width"],
            num_heads=SIZE["heads"],
            num_layers=SIZE["layers"],
            d_ff=D_FF,
            max_length=CONTEXT,
        )
    )
    config = recipe(rate, steps, **settings)
    train(model, stories.batches(batch_size, MULTIPLE), config)
    return model


def recipe(rate: float, steps: int, **settings: Any) -> TrainConfig:
    """What the course trains with."""
    warmup = math.ceil(steps / 20)
    ours = {"schedule": "linear", "optimizer": "muon", "momentum": 0.9} | settings
    return TrainConfig(steps=steps, learning_rate=rate, warmup_steps=warmup, **ours)


def course_float32(stories: Stories, rate: float, batch_size: int, steps: int) -> Score:
    """The same in float32."""
    return course(stories, rate, batch_size, steps, precision="float32")


def course_adamw(stories: Stories, rate: float, batch_size: int, steps: int) -> Score:
    """The course's model with AdamW and half a cosine."""
    rivals = {"optimizer": "adamw", "schedule": "cosine"}
    return course(stories, rate, batch_size, steps, **rivals)


def transformers_muon(
    stories: Stories, rate: float, batch_size: int, steps: int
) -> Score:
    """LlamaForCausalLM in the course's loop: Muon, linear decay, rounded lengths."""
    model = llama(stories)
    score = logits_of(model)

    def loss(model: nn.Module, batch: Sequence[Tensor], smoothing: float) -> Tensor:
        inputs, labels = batch
        return label_loss(score(inputs), labels, smoothing)

    batches = stories.batches(batch_size, MULTIPLE)
    train(model, batches, recipe(rate, steps), loss=loss)
    return score


def gpt2(stories: Stories, rate: float, batch_size: int, steps: int) -> Score:
    """A decoder in the style of GPT-2, in float32."""
    torch.manual_seed(0)
    model = GPT2(stories.tokenizer.vocab_size, **SIZE)
    return plain_loop(model, model, stories, rate, batch_size, steps, bfloat16=False)


def transformers_float32(
    stories: Stories, rate: float, batch_size: int, steps: int
) -> Score:
    """LlamaForCausalLM in a plain loop."""
    model = llama(stories)
    score = logits_of(model)
    return plain_loop(model, score, stories, rate, batch_size, steps, bfloat16=False)


def transformers_bfloat16(
    stories: Stories, rate: float, batch_size: int, steps: int
) -> Score:
    """LlamaForCausalLM in a plain loop with autocast."""
    model = llama(stories)
    score = logits_of(model)
    return plain_loop(model, score, stories, rate, batch_size, steps, bfloat16=True)


def transformers_rounded(
    stories: Stories, rate: float, batch_size: int, steps: int
) -> Score:
    """The same, with the rounded lengths of the course."""
    model = llama(stories)
    score = logits_of(model)
    return plain_loop(
        model, score, stories, rate, batch_size, steps, bfloat16=True, multiple=MULTIPLE
    )


def trainer(stories: Stories, rate: float, batch_size: int, steps: int) -> Score:
    """LlamaForCausalLM in the Trainer of transformers, bfloat16."""
    from transformers import Trainer, TrainingArguments

    model = llama(stories)
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            per_device_train_batch_size=1,  # a row of the data is a batch of stories
            max_steps=steps,
            learning_rate=rate,
            warmup_steps=math.ceil(steps / 20),
            lr_scheduler_type="cosine",
            weight_decay=0.1,
            adam_beta2=0.95,
            max_grad_norm=1.0,
            bf16=True,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        Trainer(
            model=model,
            args=settings,
            train_dataset=Batches(stories, batch_size, steps),
            data_collator=lambda rows: rows[0],
            compute_loss_func=loss_of,
        ).train()
    return logits_of(model)


class Batches(torch.utils.data.Dataset):
    """The course's batches as the rows of a data set."""

    def __init__(self, stories: Stories, batch_size: int, steps: int):
        self.batches = stories.batches(batch_size)
        self.steps = steps

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> dict[str, Tensor]:
        inputs, labels = self.batches(step)
        return {"input_ids": inputs, "labels": labels}


def loss_of(
    outputs: object, labels: Tensor, num_items_in_batch: object = None
) -> Tensor:
    """The loss that all ways have; a model of transformers would shift the labels."""
    return F.cross_entropy(outputs.logits.float().flatten(0, 1), labels.flatten())


def llama(stories: Stories) -> nn.Module:
    """LlamaForCausalLM of the course's size, with its own first weights."""
    import transformers

    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=stories.tokenizer.vocab_size,
            hidden_size=SIZE["width"],
            num_attention_heads=SIZE["heads"],
            num_hidden_layers=SIZE["layers"],
            intermediate_size=D_FF,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            use_cache=False,
        )
    )


def logits_of(model: nn.Module) -> Score:
    """The logits of a model of transformers."""
    return lambda ids: model(input_ids=ids).logits


def plain_loop(
    model: nn.Module,
    score: Score,
    stories: Stories,
    rate: float,
    batch_size: int,
    steps: int,
    bfloat16: bool,
    multiple: int = 1,
) -> Score:
    """AdamW, a warm-up and half a cosine down to a tenth, as nanoGPT has it."""
    matrices = [weight for weight in model.parameters() if weight.ndim >= 2]
    others = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": matrices}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, rate, betas=(0.9, 0.95), weight_decay=0.1)
    warmup = math.ceil(steps / 20)

    def factor(step: int) -> float:
        """What part of the rate a step, counted from 0, has."""
        if step < warmup:
            return (step + 1) / warmup
        done = (step - warmup) / max(1, steps - warmup)
        return 0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    batches = stories.batches(batch_size, multiple)
    model.train()
    for step in range(steps):
        inputs, labels = batches(step)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            logits = score(inputs)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    model.eval()
    return score


WAYS = {
    one.__name__: one
    for one in (
        course,
        course_float32,
        course_adamw,
        transformers_muon,
        gpt2,
        transformers_float32,
        transformers_bfloat16,
        transformers_rounded,
        trainer,
    )
}
