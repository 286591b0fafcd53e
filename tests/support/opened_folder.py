"""Use a folder as people use it, knowing nothing of it; print one JSON line.

Knows `transformers`, version 4 or 5, and nothing of the course: it runs in an
environment of its own. The arguments are a folder, texts, and token ids, the last two
as JSON.
"""

import json
import sys

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline

NEW = 12  # tokens
ROLES = ("pad", "bos", "eos", "unk")


def used(folder, texts, ids):
    """What people see who open the folder."""
    transformers.utils.logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    greedy = {"max_new_tokens": NEW, "do_sample": False}
    alone = [
        model.generate(**tokenizer(text, return_tensors="pt"), **greedy)[0]
        for text in texts
    ]
    with torch.no_grad():
        logits = model(torch.tensor(ids)).logits[:, -1]
    write = pipeline("text-generation", model=folder, batch_size=2)
    return {
        "version": transformers.__version__,
        "special": {role: getattr(tokenizer, f"{role}_token") for role in ROLES},
        "special ids": {role: getattr(tokenizer, f"{role}_token_id") for role in ROLES},
        "size": len(tokenizer),
        "ids": [tokenizer(text)["input_ids"] for text in texts],
        "back": [tokenizer.decode(tokenizer(text)["input_ids"]) for text in texts],
        "padded": batch["input_ids"].tolist(),
        "attention mask": batch["attention_mask"].tolist(),
        "last logits": logits.tolist(),
        "dtype": str(model.dtype),
        "alone": [tokenizer.decode(row, skip_special_tokens=True) for row in alone],
        "together": tokenizer.batch_decode(
            model.generate(**batch, **greedy), skip_special_tokens=True
        ),
        "promptless": model.generate(do_sample=False)[0].tolist(),
        "pipeline": [found[0]["generated_text"] for found in write(texts, **greedy)],
        "empty prompt": write("", do_sample=False)[0]["generated_text"],
    }


if __name__ == "__main__":
    print(
        json.dumps(used(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])))
    )
