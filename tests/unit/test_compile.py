"""`torch.compile(model, fullgraph=True)` for every model: no check breaks the graph."""

import pytest

from tests.support.plain_python import answers_of

PROGRAM = """
import torch
import torch._dynamo

from course_utils.config import *
from course_utils.models import *
from course_utils.recurrent import RecurrentSeq2Seq

# PyTorch itself compiles recurrent cells only when told so.
torch._dynamo.config.allow_rnn = True
torch.manual_seed(0)
ids, stack = torch.randint(1, 9, (2, 7)), StackConfig(d_model=16, num_heads=2, d_ff=24)
places, mask = torch.tensor([0, 6]), torch.ones(7, 7, dtype=torch.bool).tril(2)
both = EncoderDecoderConfig(
    source_vocab_size=9, target_vocab_size=9, encoder=stack, decoder=stack
)
learned = StackConfig(d_model=16, num_heads=2, d_ff=24, positions="learned")
gpt = DecoderLM(DecoderConfig(vocab_size=9, stack=learned)).eval()
llama = LlamaConfig(vocab_size=9, d_model=16, num_heads=4, num_kv_heads=2, d_ff=24)
llama = LlamaLM(llama).eval()
classes = ClassifierConfig(vocab_size=9, num_classes=3, stack=stack)
calls = {
    "DecoderLM": (gpt, (ids,)),
    "DecoderLM with a mask": (gpt, (ids, mask)),
    "LlamaLM": (llama, (ids,)),
    "LlamaLM with a mask": (llama, (ids, mask)),
    "Encoder": (Encoder(9, stack), (ids,)),
    "EncoderDecoder": (EncoderDecoder(both), (ids, ids)),
    "Classifier of texts": (Classifier(classes), (ids,)),
    "Classifier of words": (Classifier(classes), (ids, places)),
}
for score in (None, "additive"):
    model = RecurrentSeq2Seq(9, 9, 8, score=score)
    calls[f"RecurrentSeq2Seq, {score}"] = model, (ids, ids)


def distance(one, other):
    return (one - other).abs().max().item()


for name, (model, inputs) in calls.items():
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    answers[name] = distance(compiled(*inputs), model(*inputs))
    compiled(*inputs).sum().backward()  # training compiles, too
for model in (gpt, llama):
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    cache = model.new_cache()
    with torch.no_grad():
        parts = [compiled(part, cache=cache) for part in ids.split([4, 1, 2], dim=1)]
        name = f"{type(model).__name__} with a cache"
        answers[name] = distance(torch.cat(parts, 1), model(ids))
"""


@pytest.mark.long
def test_each_model_compiles_into_one_graph_with_the_same_answer():
    distances = answers_of(PROGRAM)
    assert len(distances) == 12
    assert max(distances.values()) < 1e-5, distances
