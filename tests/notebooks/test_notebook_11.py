"""The backbone that notebook 11 builds is the package's DecoderLM."""

import torch
from torch import nn

from course_utils.config import DecoderConfig, StackConfig
from course_utils.models import DecoderLM
from tests.support.bank import BANK
from tests.support.notebook_code import built


def test_the_backbone_is_the_packages():
    sizes = {"d_model": 24, "num_heads": 4, "num_layers": 3, "d_ff": 40}
    kinds = {"activation": "gelu", "positions": "learned"}
    stack = StackConfig(**sizes, **kinds, max_length=9)
    ours = built("11", "Backbone")["Backbone"](31, stack)
    theirs = DecoderLM(DecoderConfig(vocab_size=31, stack=stack))
    for weight in ours.parameters():
        nn.init.normal_(weight, std=0.3)
    state = ours.state_dict()
    state["positions.table"] = state.pop("positions")
    state["head.weight"] = state["tokens.weight"]
    theirs.load_state_dict(state)
    ids = torch.randint(0, 31, (2, 7))
    torch.testing.assert_close(ours(ids), theirs(ids), atol=1e-4, rtol=1e-4)


def test_the_dictionary_has_as_many_weights_as_the_exercise_wants():
    names = built("11", "new_weights", m=6, f=10, T=7, fresh=torch.zeros)
    weights = names["new_weights"](50, blocks=3)
    count = sum(weight.numel() for weight in weights.values())
    assert count == BANK["backbone.count_weights"].reference(50, 7, 6, 3, 10)
