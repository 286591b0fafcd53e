"""Nonsense gets one clear sentence: the argument, what was expected, what came.

The suite runs with executed annotations, which would catch some of it first. So the
cases run in a plain Python, as a reader's notebook does.
"""

import json
import subprocess
import sys
import textwrap

import pytest

PREPARE = """
import torch
from course_utils.attention import *
from course_utils.blocks import *
from course_utils.config import *
from course_utils.diagnostics import *
from course_utils.feedforward import *
from course_utils.masks import *
from course_utils.models import *
from course_utils.positions import *
from course_utils.recording import *
x, ids = torch.zeros(2, 3, 8), torch.ones(2, 3, dtype=torch.int64)
stack = StackConfig(8, 2, 1, 16, max_length=5)
gpt = DecoderLM(DecoderConfig(9, stack))
llama = LlamaLM(LlamaConfig(9, 8, 2, 1, 1, 16, 5))
wide, flat = torch.ones(4, 4, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
full, used = llama.new_cache(), gpt.new_cache()
both = EncoderDecoder(EncoderDecoderConfig(9, 7, stack, stack))
layer = MultiHeadAttention(8, 2)
"""

CASES = {
    # widths that do not divide
    "StackConfig(d_model=100, num_heads=8)": "ValueError d_model=100 num_heads=8",
    "MultiHeadAttention(10, 4)": "ValueError d_model=10 num_heads=4",
    "GroupedQueryAttention(12, 4, 3)": "ValueError num_heads=4 num_kv_heads=3",
    "LlamaConfig(9, 12, 4, 4)": "ValueError head_dim=3 halves",
    "rotary_table(4, 5)": "ValueError head_dim=5",
    # sizes, rates and names
    "StackConfig(d_model=0)": "ValueError d_model at least 1 got 0",
    "StackConfig(num_layers=2.5)": "ValueError num_layers got 2.5",
    "StackConfig(dropout=1.5)": "ValueError dropout below 1 got 1.5",
    "StackConfig(norm='after')": "ValueError norm pre, post 'after'",
    "TrainConfig(steps=0)": "ValueError steps at least 1 got 0",
    "TrainConfig(5, optimizer='sgd')": "ValueError optimizer adamw 'sgd'",
    "TrainConfig(5, learning_rate=-1.0)": "ValueError learning_rate exceed 0 got -1.0",
    "FeedForward(8, 16, 'tanh')": "ValueError activation relu, gelu 'tanh'",
    "make_positions('odd', 8, 5)": "ValueError kind sinusoidal 'odd'",
    "EncoderDecoderConfig(9, 7, share_weights=True)": "ValueError share_weights 9 7",
    "EncoderDecoderConfig(9, 7, pad_id=8)": "ValueError pad_id both got 8",
    # masks of the wrong shape or type
    "layer(x, mask=torch.ones(3, 3))": "TypeError mask bool got torch.float32",
    "layer(x, mask=[[True]])": "TypeError mask Tensor got list",
    "layer(x, mask=wide)": "ValueError mask (2, 2, 3, 3) got (4, 4)",
    "gpt(ids, flat)": "ValueError mask (2, 2, 3, 3) got (2, 3)",
    "combine_masks(torch.ones(3, 3), None)": "TypeError bool got torch.float32",
    "causal_mask(0)": "ValueError query_length got 0",
    "causal_mask(4, 2)": "ValueError key_length at least 4 got 2",
    # tensors that do not fit together
    "attend(x, torch.zeros(2, 3, 5), x)": "ValueError queries keys head_dim 8 5",
    "attend(x, x, torch.zeros(2, 4, 8))": "ValueError keys values 3 4",
    "both(ids, ids[:1])": "ValueError source target rows 2 1",
    # ids outside the vocabulary, or no ids at all
    "gpt(ids + 8)": "ValueError ids vocab_size - 1 = 8 got 9",
    "gpt(-ids)": "ValueError ids between 0 got -1",
    "llama(ids.float())": "TypeError ids int64 got torch.float32",
    "llama(ids.int())": "TypeError ids int64 got torch.int32",
    "llama(ids[0])": "ValueError ids (batch, positions) got (3,)",
    "llama(ids[:0])": "ValueError ids at least one got (0, 3)",
    "gpt([[1, 2]])": "TypeError ids Tensor got list",
    "both(ids, ids + 6)": "ValueError target = 6 got 7",
    "both(ids + 8, ids)": "ValueError source = 8 got 9",
    # sequences longer than the positions
    "gpt(ids.repeat(1, 2))": "ValueError max_length=5 positions 0 to 5",
    "llama(ids.repeat(1, 2))": "ValueError max_length=5 positions 0 to 5",
    "both(ids.repeat(1, 2), ids)": "ValueError max_length=5 positions 0 to 5",
    "[llama(ids, cache=full) for _ in range(2)]": "ValueError max_length=5 3 to 5",
    "[gpt(ids[:n, :2], cache=used) for n in (2, 1)]": "ValueError cache 2 1",
    # diagnostics and recording
    "leaks_future(gpt, ids[:, :1], 9)": "ValueError ids at least 2 got 1",
    "leaks_future(gpt, ids, 2)": "ValueError vocab_size at least 3 got 2",
    "sees_padding(gpt, ids, 1)": "ValueError ids pad_id=1",
    "dead_parameters(gpt, lambda: torch.zeros(()))": "ValueError loss constant",
    "record(7).__enter__()": "TypeError model nn.Module got int",
}


@pytest.fixture(scope="module")
def answers():
    """What each case raises, in one plain Python."""
    program = PREPARE + textwrap.dedent(
        """
        import json, sys
        answers = {}
        for case in json.load(sys.stdin):
            try:
                answers[case] = "nothing: " + str(eval(case))
            except Exception as error:
                answers[case] = f"{type(error).__name__} {error}"
        json.dump(answers, sys.stdout)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(list(CASES)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", CASES)
def test_one_clear_sentence(case, answers):
    answer = answers[case]
    kind, *fragments = CASES[case].split()
    assert answer.startswith(kind), answer
    for fragment in fragments:
        assert fragment in answer, f"{fragment!r} is not named in: {answer}"
    assert answer.count("\n") == 0 and len(answer) < 240
