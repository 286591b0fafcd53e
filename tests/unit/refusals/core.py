"""Bad calls of what the course teaches: layers, models, training, decoding, checks."""

PREPARE = """
import math
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

from course_utils import shapes
from course_utils.attention import *
from course_utils.blocks import *
from course_utils.training.checkpoints import *
from course_utils.config import *
from course_utils.decoding import *
from course_utils.fast_step import *
from course_utils.looking.diagnostics import *
from course_utils.feedforward import *
from course_utils.training.machine import *
from course_utils.masks import *
from course_utils.models import *
from course_utils.training.optimizers import *
from course_utils.positions import *
from course_utils.training.processes import *
from course_utils.looking.recording import *
from course_utils.recurrent import *
from course_utils.norms import *
from course_utils.training.losses import *
from course_utils.training.evaluation import *
from course_utils.training.loop import *

torch.manual_seed(0)
x, ids = torch.randn(2, 3, 8), torch.tensor([[1, 2, 3], [4, 5, 6]])
stack = StackConfig(d_model=8, num_heads=2, num_layers=1, d_ff=16, max_length=5)
sizes = dict(d_model=8, num_heads=2, num_kv_heads=1, num_layers=1, d_ff=16)
gpt = DecoderLM(DecoderConfig(vocab_size=9, stack=stack)).eval()
llama = LlamaLM(LlamaConfig(vocab_size=9, **sizes, max_length=5)).eval()
wide, flat = torch.ones(4, 4, dtype=torch.bool), torch.ones(2, 3, dtype=torch.bool)
true = torch.ones(3, 3, dtype=torch.bool)
full, used = llama.new_cache(), gpt.new_cache()
pair = dict(source_vocab_size=9, target_vocab_size=7)
both = EncoderDecoder(EncoderDecoderConfig(**pair, encoder=stack, decoder=stack)).eval()
memory, read = both.encode(ids), both.new_cache()
classes = ClassifierConfig(vocab_size=9, num_classes=3, stack=stack)
clf, layer = Classifier(classes).eval(), MultiHeadAttention(8, 2)
grouped, norm = GroupedQueryAttention(8, 2, 2), RMSNorm(8)
chain = RecurrentSeq2Seq(9, 7, 8)
table = rotary_table(3, 4)
q = torch.randn(2, 2, 3, 4)
cache = LayerCache()
cache.append(q, q)
plan, line = TrainConfig(steps=2), nn.Linear(2, 2)
three = [torch.ones(2, 3)] * 2
scores = torch.randn(2, 9)


def batches(step):
    return ids, ids


def uniform(ids):
    return torch.zeros(len(ids), 9)


def returning(answer):
    return lambda *_, **__: answer


def fit(model=None, data=batches, config=plan, **more):
    return train(model or llama, data, config, **more)
"""

CALLS = {
    # --- configs ----------------------------------------------------------------------
    "StackConfig(8, 2)": "TypeError StackConfig positional",
    "StackConfig(d_model=100, num_heads=8)": (
        "ValueError d_model=100 divisible num_heads=8"
    ),
    "StackConfig(d_model=0)": "ValueError d_model >= 1 0",
    "StackConfig(d_model='8')": "TypeError d_model integer '8'",
    "StackConfig(d_model=8.0)": "TypeError d_model integer 8.0",
    "StackConfig(d_model=None)": "TypeError d_model integer None",
    "StackConfig(d_model=True)": "TypeError d_model integer True",
    "StackConfig(num_heads=-2)": "ValueError num_heads >= 1 -2",
    "StackConfig(num_layers=2.5)": "TypeError num_layers integer 2.5",
    "StackConfig(num_layers=[2])": "TypeError num_layers integer list",
    "StackConfig(d_ff=0)": "ValueError d_ff >= 1",
    "StackConfig(max_length=math.inf)": "TypeError max_length integer inf",
    "StackConfig(dropout=1.5)": "ValueError dropout [0, 1) 1.5",
    "StackConfig(dropout=1.0)": "ValueError dropout [0, 1) 1.0",
    "StackConfig(dropout='0.1')": "TypeError dropout number '0.1'",
    "StackConfig(dropout=math.nan)": "ValueError dropout nan",
    "StackConfig(dropout=True)": "TypeError dropout number True",
    "StackConfig(norm='after')": "ValueError norm 'pre' 'post' 'after'",
    "StackConfig(norm=None)": "ValueError norm 'pre' None",
    "StackConfig(activation='swish')": "ValueError activation 'gelu' 'swish'",
    "StackConfig(positions='rotary')": "ValueError positions 'learned' 'rotary'",
    "ClassifierConfig(vocab_size=9, num_classes=3, pad_id=9)": (
        "ValueError pad_id vocab_size=9 got 9"
    ),
    "ClassifierConfig(vocab_size=9, num_classes=0)": "ValueError num_classes >= 1",
    "ClassifierConfig(vocab_size=9, num_classes=3, stack=None)": (
        "TypeError stack StackConfig None"
    ),
    "ClassifierConfig(vocab_size=9, num_classes=3, pad_id=-1)": (
        "ValueError pad_id >= 0 -1"
    ),
    "DecoderConfig(vocab_size=9, stack={'d_model': 8})": (
        "TypeError stack StackConfig dict"
    ),
    "DecoderConfig(vocab_size=9, stack=None)": "TypeError stack StackConfig None",
    "DecoderConfig(vocab_size=9, tied=None)": "TypeError tied bool None",
    "DecoderConfig(vocab_size=9, tied=1)": "TypeError tied bool 1",
    "DecoderConfig(vocab_size=9.0)": "TypeError vocab_size integer 9.0",
    "DecoderConfig()": "TypeError vocab_size",
    "LlamaConfig(vocab_size=9, tied='no')": "TypeError tied bool 'no'",
    "LlamaConfig(vocab_size=9, d_model=12, num_heads=4)": (
        "ValueError d_model num_heads even 3"
    ),
    "LlamaConfig(vocab_size=9, num_heads=8, num_kv_heads=3)": (
        "ValueError num_heads=8 divisible num_kv_heads=3"
    ),
    "LlamaConfig(vocab_size=9, num_kv_heads=0)": "ValueError num_kv_heads >= 1",
    "LlamaConfig(vocab_size=9, rope_base=1.0)": "ValueError rope_base > 1 1.0",
    "LlamaConfig(vocab_size=9, rope_base=math.nan)": "ValueError rope_base nan",
    "LlamaConfig(vocab_size=9, norm_eps=0.0)": "ValueError norm_eps > 0",
    "LlamaConfig(vocab_size=9, norm_eps='1e-5')": "TypeError norm_eps number",
    "EncoderDecoderConfig(**pair, encoder=LlamaConfig(vocab_size=9))": (
        "TypeError encoder StackConfig LlamaConfig"
    ),
    "EncoderDecoderConfig(**pair, share_weights='yes')": (
        "TypeError share_weights bool 'yes'"
    ),
    "EncoderDecoderConfig(**pair, share_weights=True)": "ValueError share_weights 9 7",
    "EncoderDecoderConfig(**pair, pad_id=8)": (
        "ValueError pad_id target_vocab_size=7 got 8"
    ),
    "TrainConfig(steps=0)": "ValueError steps >= 1 got 0",
    "TrainConfig(steps=10, warmup_steps=10**6)": (
        "ValueError warmup_steps=1000000 steps=10"
    ),
    "TrainConfig(steps=10, warmup_steps=-1)": "ValueError warmup_steps >= 0 -1",
    "TrainConfig(steps=10, warmup_steps=2.0)": "TypeError warmup_steps integer 2.0",
    "TrainConfig(steps=5, optimizer='sgd')": "ValueError optimizer 'adamw' 'sgd'",
    "TrainConfig(steps=5, schedule='steep')": "ValueError schedule linear steep",
    "TrainConfig(steps=5, precision='float16')": (
        "ValueError precision 'auto' 'float16'"
    ),
    "TrainConfig(steps=5, learning_rate=-1.0)": "ValueError learning_rate > 0 -1.0",
    "TrainConfig(steps=5, learning_rate=math.inf)": (
        "ValueError learning_rate finite inf"
    ),
    "TrainConfig(steps=5, learning_rate='1e-3')": "TypeError learning_rate number",
    "TrainConfig(steps=5, weight_decay=-0.1)": "ValueError weight_decay [0, -0.1",
    "TrainConfig(steps=5, clip_norm=0.0)": "ValueError clip_norm > 0",
    "TrainConfig(steps=5, clip_norm=math.nan)": "ValueError clip_norm nan",
    "TrainConfig(steps=5, momentum=1.0)": "ValueError momentum [0, 1)",
    "TrainConfig(steps=5, label_smoothing=1.0)": "ValueError label_smoothing [0, 1)",
    "TrainConfig(steps=5, seed=-1)": "ValueError seed >= 0 -1",
    "TrainConfig(steps=5, checkpoint_every=-1)": "ValueError checkpoint_every >= 0",
    # --- masks and positions ----------------------------------------------------------
    "causal_mask(0)": "ValueError query_length >= 1 got 0",
    "causal_mask(4, 2)": "ValueError key_length >= 4 got 2",
    "causal_mask(2.0)": "TypeError query_length integer 2.0",
    "padding_mask(ids, -5)": "ValueError pad_id >= 0 -5",
    "padding_mask(ids, 0.0)": "TypeError pad_id integer 0.0",
    "padding_mask(ids, None)": "TypeError pad_id integer None",
    "padding_mask(ids[0], 0)": "ValueError ids (batch, length) (3,)",
    "padding_mask(x, 0)": "ValueError ids (batch, length) (2, 3, 8)",
    "padding_mask(ids.float(), 0)": "TypeError ids int64 float32",
    "padding_mask([[1, 2]], 0)": "TypeError ids Tensor list",
    "combine_masks(torch.ones(3, 3), None)": "TypeError masks bool float32",
    "combine_masks(true, wide)": "ValueError masks broadcast (3, 3) (4, 4)",
    "combine_masks([True])": "TypeError masks bool list",
    "sinusoidal_positions(4, 8, base=0)": "ValueError base > 1 got 0",
    "sinusoidal_positions(4, 8, base=-2.0)": "ValueError base > 1 got -2.0",
    "sinusoidal_positions(0, 8)": "ValueError length >= 1",
    "sinusoidal_positions(4, 8.0)": "TypeError d_model integer 8.0",
    "rotary_table(4, 8, base=math.nan)": "ValueError base nan",
    "rotary_table(4, 8, base=-5)": "ValueError base > 1 -5",
    "rotary_table(4, 5)": "ValueError head_dim=5 divisible",
    "rotary_table(-1, 4)": "ValueError length >= 1",
    "rotate(q, *rotary_table(1, 4))": "ValueError cos (length=3, head_dim=4) (1, 4)",
    "rotate(q, *rotary_table(4, 4))": "ValueError cos length=3 (4, 4)",
    "rotate(q, *rotary_table(3, 2))": "ValueError cos head_dim=4 (3, 2)",
    "rotate(q, table[0], None)": "TypeError sin Tensor None",
    "rotate(q[0, 0, 0], *table)": "ValueError x (..., length, head_dim) (4,)",
    "RotaryPositions(4, 5)(3, 4)": "ValueError position 6 max_length=5",
    "SinusoidalPositions(8, 5)(torch.zeros(2, 3, 1))": (
        "ValueError x d_model=8 (2, 3, 1)"
    ),
    "SinusoidalPositions(8, 5)(x[0])": "ValueError x (batch, length, d_model=8) (3, 8)",
    "SinusoidalPositions(8, 5)(x, start=3)": "ValueError position 5 max_length=5",
    "SinusoidalPositions(8, 5)(x, start=-1)": "ValueError start >= 0 -1",
    "LearnedPositions(8, 5)(x, start='0')": "TypeError start integer '0'",
    "LearnedPositions(0, 5)": "ValueError d_model >= 1",
    "make_positions('odd', 8, 5)": "ValueError kind 'sinusoidal' 'odd'",
    "make_positions('none', 8, 5)(x.repeat(1, 2, 1))": (
        "ValueError position 5 max_length=5"
    ),
    "alibi_bias(2, 5, 3)": "ValueError key_length >= 5 got 3",
    "alibi_bias(0, 3, 3)": "ValueError num_heads >= 1",
    "alibi_bias(2, 3.0, 3)": "TypeError query_length integer 3.0",
    # --- attention --------------------------------------------------------------------
    "attend(q, torch.zeros(2, 2, 3, 5), q)": "ValueError queries keys head_dim 4 5",
    "attend(q, q, torch.zeros(2, 2, 4, 4))": "ValueError keys values length",
    "attend(q, q[:1], q[:1])": "ValueError queries keys batch",
    "attend(q, q, q, true[0])": "ValueError mask (query, key) (3,)",
    "attend(q, q, q, torch.ones(2, 3, 3).bool())": (
        "ValueError mask (2, 2, 3, 3) (2, 3, 3)"
    ),
    "attend(q, q, q, wide)": "ValueError mask (2, 2, 3, 3) got (4, 4)",
    "attend(q, q, q, true.float())": "TypeError mask bool float32",
    "attend(q, q, q, [[True]])": "TypeError mask Tensor list",
    "attend(q, q, q, bias=torch.zeros(5, 5))": "ValueError bias (2, 2, 3, 3) (5, 5)",
    "attend(q, q, q, bias=torch.zeros(3))": "ValueError bias (3,)",
    "attend(q, q, q, bias=true)": "TypeError bias floating torch.bool",
    "attend(q, q, q, bias=0.5)": "TypeError bias Tensor 0.5",
    "attend(q, q, q, scale=0.0)": "ValueError scale > 0",
    "attend(q, q, q, scale='1')": "TypeError scale number",
    "attend(q, q, q, dropout=1.0)": "ValueError dropout [0, 1)",
    "attend(q, q, None)": "TypeError values Tensor None",
    "attend(ids, ids, ids)": "TypeError queries floating int64",
    "attend(q[..., :2, :], q[..., :1, :], q[..., :1, :], causal=True)": (
        "ValueError key_length >= 2 got 1"
    ),
    "attention_scores(q, q[..., :3])": "ValueError queries keys head_dim 4 3",
    "attention_scores(q, None)": "TypeError keys Tensor None",
    "attention_scores(q, q, scale=math.nan)": "ValueError scale nan",
    "attention_weights(q @ q.mT, true[0])": "ValueError mask (query, key) (3,)",
    "attention_weights(ids)": "TypeError scores floating int64",
    "attention_weights(q @ q.mT, mask=True)": "TypeError mask Tensor True",
    "attention_weights(x[0, 0])": "ValueError scores (..., query, key) (8,)",
    "Attend(dropout=2.0)": "ValueError dropout [0, 1) 2.0",
    "LayerCache().append(x[:, None], None)": "TypeError values Tensor None",
    "LayerCache().append(x, x)": (
        "ValueError keys (batch, heads, length, head_dim) (2, 3, 8)"
    ),
    "LayerCache().append(q, q[:, :1])": "ValueError keys values shape",
    "cache.append(q[:1], q[:1])": "ValueError keys batch=2 (1, 2, 3, 4)",
    "cache.append(q[..., :2], q[..., :2])": "ValueError keys head_dim=4",
    "LayerCache().select(0)": "TypeError rows Tensor 0",
    "LayerCache().select(ids[0])": "ValueError rows",
    "cache.select(ids[0].float())": "TypeError rows int64 float32",
    "cache.select(ids)": "ValueError rows (2, 3)",
    "cache.select(torch.tensor([9]))": "ValueError rows 9",
    "KeyValueCache(2).select(ids[0])": "ValueError rows",
    "KeyValueCache(0)": "ValueError num_layers >= 1",
    "split_heads(x, 3)": "ValueError width=8 divisible num_heads=3",
    "split_heads(x, 0)": "ValueError num_heads >= 1",
    "split_heads(x[0], 2)": "ValueError x (batch, length, width) (3, 8)",
    "MultiHeadAttention(10, 4)": "ValueError d_model=10 divisible num_heads=4",
    "MultiHeadAttention(8, 2, head_dim=0)": "ValueError head_dim >= 1",
    "MultiHeadAttention(8, 2, d_memory=-1)": "ValueError d_memory >= 1",
    "MultiHeadAttention(8, 2, dropout=1.2)": "ValueError dropout [0, 1)",
    "MultiHeadAttention(8, 2, bias='no')": "TypeError bias bool 'no'",
    "MultiHeadAttention('8', 2)": "TypeError d_model integer '8'",
    "layer(torch.zeros(2, 3, 9))": "ValueError x d_model=8 (2, 3, 9)",
    "layer(x[0])": "ValueError x (batch, query, d_model=8) (3, 8)",
    "layer(None)": "TypeError x Tensor None",
    "layer(x, x[:, :, :4])": "ValueError memory d_memory=8 (2, 3, 4)",
    "layer(x, x[:1])": "ValueError memory batch=2 (1, 3, 8)",
    "layer(x, x[:, :2], cache=cache)": "ValueError cache memory batch length",
    "layer(x, mask=true.float())": "TypeError mask bool float32",
    "layer(x, mask=[[True]])": "TypeError mask Tensor list",
    "layer(x, mask=wide)": "ValueError mask (2, 2, 3, 3) got (4, 4)",
    "layer(x, mask=true[0])": "ValueError mask (query, key) (3,)",
    "layer(x, mask=torch.ones(2, 3, 3).bool())": "ValueError mask got (2, 3, 3)",
    "layer(x, bias=torch.zeros(4, 3, 3))": "ValueError bias (2, 2, 3, 3) (4, 3, 3)",
    "GroupedQueryAttention(12, 4, 3)": (
        "ValueError num_heads=4 divisible num_kv_heads=3"
    ),
    "GroupedQueryAttention(8, 2, 0)": "ValueError num_kv_heads >= 1",
    "grouped(x, rotary_table(1, 4))": "ValueError cos (length=3, head_dim=4) (1, 4)",
    "grouped(x, rotary_table(3, 8))": "ValueError cos head_dim=4 (3, 8)",
    "grouped(x, None)": "TypeError rotary (cos, sin) None",
    "grouped(x, table[0])": "TypeError rotary (cos, sin) tensor",
    "grouped(x[..., :4], table)": "ValueError x d_model=8 (2, 3, 4)",
    # --- feed-forward, norms, blocks --------------------------------------------------
    "FeedForward(8, 16, 'tanh')": "ValueError activation 'relu' 'tanh'",
    "FeedForward(8, 0)": "ValueError d_ff >= 1",
    "FeedForward(8, 16)(x[..., :4])": "ValueError x d_model=8 (2, 3, 4)",
    "FeedForward(8, 16, dropout=-0.1)": "ValueError dropout [0, 1) -0.1",
    "SwiGLU(8, 2.5)": "TypeError d_ff integer 2.5",
    "SwiGLU(8, 16)(x[..., :1])": "ValueError x d_model=8 (2, 3, 1)",
    "RMSNorm(8, eps=-1.0)": "ValueError eps > 0 -1.0",
    "RMSNorm(8, eps=0)": "ValueError eps > 0",
    "RMSNorm(0)": "ValueError d_model >= 1",
    "norm(torch.zeros(2, 3, 1))": "ValueError x d_model=8 (2, 3, 1)",
    "norm(3.0)": "TypeError x Tensor 3.0",
    "Residual(8, 0.0, 'after')": "ValueError norm 'pre' 'post' 'after'",
    "Residual(0, 0.0, 'pre')": "ValueError d_model >= 1 got 0",
    "Residual(8, 1.0, 'pre')": "ValueError dropout [0, 1)",
    "Residual(8, 0.0, 'pre')(x[..., :1], nn.Identity())": "ValueError x d_model=8",
    "EncoderBlock(None)": "TypeError config StackConfig None",
    "EncoderBlock({'d_model': 8})": "TypeError config StackConfig dict",
    "EncoderBlock(stack)(x[..., :4])": "ValueError x d_model=8 (2, 3, 4)",
    "EncoderBlock(stack)(x, wide)": "ValueError mask (2, 2, 3, 3) (4, 4)",
    "DecoderBlock(stack)(x, None)": "TypeError memory Tensor None",
    "DecoderBlock(stack, 4)(x, x)": "ValueError memory d_memory=4 (2, 3, 8)",
    "DecoderBlock(stack)(x, x, memory_mask=wide)": "ValueError mask (4, 4)",
    "LlamaBlock(stack)": "TypeError config LlamaConfig StackConfig",
    "LlamaBlock(llama.config)(x, rotary_table(1, 4))": "ValueError cos length=3 (1, 4)",
    # --- models -----------------------------------------------------------------------
    "Encoder(9, stack, pad_id=99)": "ValueError pad_id vocab_size=9 got 99",
    "Encoder(9, stack, pad_id=-1)": "ValueError pad_id vocab_size=9 got -1",
    "Encoder(9, None)": "TypeError config StackConfig None",
    "Encoder(0, stack)": "ValueError vocab_size >= 1",
    "Encoder(9, stack)(ids, true[0])": "ValueError mask (query, key) (3,)",
    "Encoder(9, stack)(ids + 3)": "ValueError ids vocab_size=9 got 9",
    "Classifier(stack)": "TypeError config ClassifierConfig StackConfig",
    "clf(ids, torch.tensor([-1, 0]))": "ValueError positions length=3 got -1",
    "clf(ids, torch.tensor([0, 3]))": "ValueError positions length=3 got 3",
    "clf(ids, torch.tensor([0]))": "ValueError positions (batch=2,) (1,)",
    "clf(ids, torch.tensor([0.0, 1.0]))": "TypeError positions int64 float32",
    "clf(ids, [0, 1])": "TypeError positions Tensor list",
    "gpt(ids, flat)": "ValueError mask (2, 2, 3, 3) got (2, 3)",
    "gpt(ids, true[0])": "ValueError mask (query, key) (3,)",
    "gpt(ids, torch.ones(2, 3, 3).bool())": "ValueError mask got (2, 3, 3)",
    "gpt(ids + 8)": "ValueError ids vocab_size=9 got 14",
    "gpt(-ids)": "ValueError ids [0, got -6",
    "gpt([[1, 2]])": "TypeError ids Tensor list",
    "gpt(ids.repeat(1, 2))": "ValueError position 5 max_length=5",
    "gpt(ids, cache=3)": "TypeError cache KeyValueCache 3",
    "gpt(ids, cache=KeyValueCache(2))": "ValueError cache model layers 2 1",
    "[gpt(ids[:n, :2], cache=used) for n in (2, 1)]": "ValueError keys batch=2",
    "DecoderLM(stack)": "TypeError config DecoderConfig StackConfig",
    "DecoderLM(llama.config)": "TypeError config DecoderConfig LlamaConfig",
    "llama(ids.float())": "TypeError ids int64 float32",
    "llama(ids.int())": "TypeError ids int64 int32",
    "llama(ids[0])": "ValueError ids (batch, length) got (3,)",
    "llama(ids[:0])": "ValueError ids (batch, length) got (0, 3)",
    "llama(ids.repeat(1, 2))": "ValueError position 5 max_length=5",
    "[llama(ids, cache=full) for _ in range(2)]": "ValueError position 5 max_length=5",
    "llama(ids, mask=wide)": "ValueError mask (2, 2, 3, 3) (4, 4)",
    "LlamaLM(gpt.config)": "TypeError config LlamaConfig DecoderConfig",
    "both(ids, ids[:1])": "ValueError source target batch 2 1",
    "both(ids, ids + 6)": "ValueError target vocab_size=7 got 12",
    "both(ids + 8, ids % 7)": "ValueError source vocab_size=9 got 14",
    "both(ids.repeat(1, 2), ids)": "ValueError position 5 max_length=5",
    "both.decode(ids, None, ids)": "TypeError memory Tensor None",
    "both.decode(ids, memory[:, :2], ids)": "ValueError memory source=3 (2, 2, 8)",
    "both.decode(ids, memory[..., :4], ids)": "ValueError memory d_memory=8 (2, 3, 4)",
    "both.decode(ids, memory, ids, 3)": "TypeError cache KeyValueCache 3",
    "both.decode(ids, memory, ids, KeyValueCache(3))": (
        "ValueError cache model layers 3 2"
    ),
    "[both.decode(ids, memory, ids, read) for _ in range(2)]": (
        "ValueError target go on behind 3 positions cache 3"
    ),
    "both.decode(ids[:1], memory, ids)": "ValueError source target batch 2 1",
    "both.decode(ids, memory, ids.float())": "TypeError source int64",
    "EncoderDecoder(gpt.config)": "TypeError config EncoderDecoderConfig DecoderConfig",
    # --- recurrent models -------------------------------------------------------------
    "RecurrentSeq2Seq(9, 7, 0)": "ValueError d_model >= 1",
    "RecurrentSeq2Seq(9, 7, pad_id=8)": "ValueError pad_id target_vocab_size=7 got 8",
    "RecurrentSeq2Seq(9, 7, cell='lstm')": "ValueError cell 'gru' 'lstm'",
    "RecurrentSeq2Seq(9, 7, score='scaled')": "ValueError score 'dot' 'scaled'",
    "RecurrentSeq2Seq('9', 7)": "TypeError source_vocab_size integer '9'",
    "chain(ids, ids[:1])": "ValueError source target batch 2 1",
    "chain(ids * 0, ids % 7)": "ValueError source begin row 0",
    "chain(ids * torch.tensor([1, 0, 1]), ids % 7)": "ValueError source pad_id=0 row 0",
    "chain(ids + 9, ids % 7)": "ValueError source vocab_size=9",
    "chain.decode(ids % 7, None, ids)": "TypeError memory Tensor None",
    "chain.decode(ids % 7, x[:1], ids)": "ValueError memory batch=2",
    "ScoredAttend(8, 'cosines')": "ValueError score 'cosine' 'cosines'",
    "ScoredAttend(8, 'dot')(x, x[:1])": "ValueError memory batch=2",
    "ScoredAttend(8, 'dot')(x, x[..., :4])": "ValueError memory d_model=8",
    "ScoredAttend(8, 'dot')(x, x, flat)": "ValueError mask (2, 3)",
    "DotScore(0)": "ValueError d_model >= 1",
    "AdditiveScore(2.0)": "TypeError d_model integer 2.0",
    # --- decoding ---------------------------------------------------------------------
    "next_token_probabilities(scores * math.nan)": "ValueError scores finite nan",
    "next_token_probabilities(torch.full((1, 9), -math.inf))": (
        "ValueError scores finite -inf"
    ),
    "next_token_probabilities(scores[0])": "ValueError scores (batch, vocab_size) (9,)",
    "next_token_probabilities(ids)": "TypeError scores floating int64",
    "next_token_probabilities([[0.0]])": "TypeError scores Tensor list",
    "next_token_probabilities(scores, 0.0)": "ValueError temperature > 0 0.0",
    "next_token_probabilities(scores, math.inf)": "ValueError temperature finite inf",
    "next_token_probabilities(scores, '1')": "TypeError temperature number '1'",
    "next_token_probabilities(scores, None)": "TypeError temperature number None",
    "next_token_probabilities(scores, top_k=0)": "ValueError top_k >= 1",
    "next_token_probabilities(scores, top_k=10)": "ValueError top_k=10 vocabulary 9",
    "next_token_probabilities(scores, top_k=2.0)": "TypeError top_k integer 2.0",
    "next_token_probabilities(scores, top_p=0.0)": "ValueError top_p > 0",
    "next_token_probabilities(scores, top_p=1.5)": "ValueError top_p [0, 1] 1.5",
    "next_token_probabilities(scores, top_p=True)": "TypeError top_p number True",
    "greedy(uniform, ids[:1], 3, stop_id=2.5)": "TypeError stop_id integer 2.5",
    "greedy(uniform, ids[:1], 3, stop_id=9)": "ValueError stop_id vocab_size=9 got 9",
    "greedy(uniform, ids, 3, stop_id=0, pad_id=10**9)": (
        "ValueError pad_id vocab_size=9"
    ),
    "greedy(uniform, ids, 3, stop_id=0, pad_id=-1)": "ValueError pad_id >= 0",
    "greedy(uniform, ids, 3, stop_id=0)": "ValueError pad_id 2 stop_id",
    "greedy(uniform, ids, 0)": "ValueError max_new_tokens >= 1",
    "greedy(uniform, ids, 2.0)": "TypeError max_new_tokens integer 2.0",
    "greedy(uniform, ids.float(), 3)": "TypeError prompt int64 float32",
    "greedy(uniform, [1, 2], 3)": "TypeError prompt Tensor list",
    "greedy(uniform, ids[0], 3)": "ValueError prompt (batch, length) (3,)",
    "greedy(None, ids, 3)": "TypeError step callable None",
    "greedy(gpt, ids, 1)": "ValueError step (2, vocab_size) (2, 3, 9)",
    "greedy(returning([0.0]), ids, 3)": "TypeError step tensor list",
    "greedy(returning(ids), ids, 3)": "TypeError scores floating int64",
    "sample(uniform, ids, 3, temperature=-1)": "ValueError temperature > 0 -1",
    "sample(uniform, ids, 3, topk=2)": "TypeError topk",
    "sample(uniform, ids, 3, top_k=2.5)": "TypeError top_k integer 2.5",
    "sample(uniform, ids, 3, top_k=50)": "ValueError top_k=50 vocabulary 9",
    "sample(uniform, ids, 3, generator=0)": "TypeError generator Generator 0",
    "length_rule(0, 0.6)": "ValueError length >= 1",
    "length_rule(3, -1.0)": "ValueError length_penalty [0, -1.0",
    "beam_search(uniform, ids, 3, beams=0, stop_id=0, pad_id=1)": (
        "ValueError beams >= 1"
    ),
    "beam_search(uniform, ids, 3, beams=2, stop_id=None)": (
        "TypeError stop_id integer None"
    ),
    "beam_search(uniform, ids, 3, beams=2, stop_id=0)": "ValueError pad_id 2",
    "beam_search(uniform, ids[:1], 3, beams=2, stop_id=0, length_penalty=math.inf)": (
        "ValueError length_penalty finite inf"
    ),
    "CachedStep(None)": "TypeError model Module None",
    "CachedStep(nn.Linear(2, 2).eval())": "TypeError model new_cache Linear",
    "CachedStep(LlamaLM(llama.config))": "ValueError model eval()",
    "CachedStep(llama)(ids.float())": "TypeError ids int64",
    "FastStep(None)": "TypeError model LlamaLM None",
    "FastStep(nn.Linear(2, 2).eval())": "TypeError model LlamaLM Linear",
    "FastStep(LlamaLM(llama.config))": "ValueError model eval()",
    "FastStep(llama)(ids.float())": "TypeError ids int64",
    "TranslationStep(llama, ids)": "TypeError model encode decode LlamaLM",
    "TranslationStep(both, ids[0])": "ValueError source (batch, length)",
    "TranslationStep(both, ids)(ids[:1])": "ValueError ids multiple 2 rows 1",
    # --- training ---------------------------------------------------------------------
    "fit(config={'steps': 2})": "TypeError config TrainConfig dict",
    "fit(model='gpt')": "TypeError model Module 'gpt'",
    "fit(data=[(ids, ids)])": "TypeError batches callable list",
    "fit(data=returning((ids, ids + 5)))": "ValueError labels vocab_size=9 got 11",
    "fit(data=returning((ids, -ids)))": "ValueError labels got -6",
    "fit(data=returning((ids, ids.float())))": "TypeError labels int64 float32",
    "fit(data=returning(ids))": "TypeError batches(0) tuple tensor",
    "fit(data=returning((ids, None)))": "TypeError batches(0)[1] Tensor None",
    "fit(data=returning((ids, ids[:1])))": "ValueError batches(0) rows",
    "fit(data=returning((ids, ids[:, :2])))": "ValueError logits labels length",
    "fit(data=returning((ids, ids, ids)))": "ValueError batch (inputs, labels) 3",
    "fit(data=returning((ids, ids * 0 - 100)))": "ValueError batches(0) -100",
    "fit(loss=None)": "TypeError loss callable None",
    "fit(loss=returning(1.0))": "TypeError loss tensor 1.0",
    "fit(loss=returning(torch.ones(2)))": "ValueError loss (2,)",
    "fit(evaluate=3)": "TypeError evaluate callable 3",
    "fit(evaluate=returning('low'))": "TypeError evaluate number 'low'",
    "fit(evaluate_every=2)": "ValueError evaluate_every=2 evaluate None",
    "fit(evaluate=returning(1.0), evaluate_every=-1)": "ValueError evaluate_every >= 0",
    "fit(checkpoints=3)": "TypeError checkpoints str 3",
    "fit(checkpoints='x')": "ValueError checkpoints=x checkpoint_every=0",
    "fit(LlamaLM(llama.config).requires_grad_(False))": "ValueError model trainable",
    "fit(LlamaLM(llama.config).half())": "ValueError model float16",
    "fit(nn.Identity())": "ValueError model parameters",
    "mean_loss(llama, batches, 0)": "ValueError count >= 1",
    "mean_loss(llama, batches, None)": "TypeError count integer None",
    "mean_loss(llama, (ids, ids), 1)": "TypeError batches callable tuple",
    "mean_loss(None, batches, 1)": "TypeError model Module None",
    "mean_loss(llama, batches, 1, returning(torch.ones(2)))": "ValueError loss (2,)",
    "label_loss(torch.zeros(2, 3, 9), ids * 0 - 100, 0.0)": "ValueError labels -100",
    "label_loss(torch.zeros(2, 3, 9), ids + 5, 0.0)": "ValueError labels vocab_size=9",
    "label_loss(torch.zeros(2, 3, 9), ids[:1], 0.0)": "ValueError logits labels batch",
    "label_loss(torch.zeros(2, 3, 9), ids.int(), 0.0)": "TypeError labels int64 int32",
    "label_loss(torch.zeros(2, 3), ids, 0.0)": "ValueError logits (batch, (2, 3)",
    "label_loss(torch.zeros(2, 3, 9), ids, 1.0)": "ValueError label_smoothing [0, 1)",
    "next_token_loss(llama, ids)": "TypeError batch (inputs, labels) tensor",
    "translation_loss(both, (ids, ids))": (
        "ValueError batch (source, target_in, labels) 2"
    ),
    "class_loss(clf, (ids, ids))": "ValueError labels (batch,) (2, 3)",
    "class_loss(clf, (ids, torch.tensor([0, 3])))": (
        "ValueError labels vocab_size=3 got 3"
    ),
    # --- optimizers, checkpoints, machine ---------------------------------------------
    "learning_rate_at(3, plan)": "ValueError step=3 steps=2",
    "learning_rate_at(0, plan)": "ValueError step >= 1",
    "learning_rate_at(1.0, plan)": "TypeError step integer 1.0",
    "learning_rate_at(1, {'steps': 2})": "TypeError config TrainConfig dict",
    "parameter_groups(None)": "TypeError model Module None",
    "parameter_groups(nn.Identity())": "ValueError model trainable",
    "build_optimizers(gpt, plan, 'half')": "ValueError precision 'float32' 'half'",
    "build_optimizers(gpt, None)": "TypeError config TrainConfig None",
    "Muon(three, momentum=5.0)": "ValueError momentum [0, 1) 5.0",
    "Muon(three, weight_decay=-1.0)": "ValueError weight_decay [0, -1.0",
    "Muon([torch.ones(3)])": "ValueError params[0] (rows, columns) (3,)",
    "Muon([None])": "TypeError params[0] Tensor None",
    "orthogonalize(torch.ones(3))": "ValueError matrix (..., rows, columns) (3,)",
    "orthogonalize(three[0], steps=0)": "ValueError steps >= 1",
    "set_learning_rate([], -1.0)": "ValueError rate [0, -1.0",
    "set_learning_rate([], math.nan)": "ValueError rate nan",
    "find_precision('cuda')": "TypeError device 'cuda'",
    "record(7).__enter__()": "TypeError model Module 7",
    "record('gpt').__enter__()": "TypeError model Module 'gpt'",
    # --- diagnostics ------------------------------------------------------------------
    "leaks_future(returning(torch.zeros(2, 3)), ids, 9)": (
        "ValueError logits (2, 3, width)"
    ),
    "leaks_future(lambda i: gpt(i)[:, -1], ids, 9)": "ValueError logits (2, 9)",
    "leaks_future(gpt, ids[:, :1], 9)": "ValueError ids 2 positions got 1",
    "leaks_future(gpt, ids % 2, 2)": "ValueError vocab_size >= 3 got 2",
    "leaks_future(gpt, ids, 5)": "ValueError ids vocab_size=5",
    "leaks_future(None, ids, 9)": "TypeError logits callable None",
    "leaks_future(gpt, ids, 9, tolerance=-1.0)": "ValueError tolerance > 0",
    "leaks_future(returning(ids), ids, 9)": "ValueError logits (2, 3, width) (2, 3)",
    "leaks_future(returning(x * math.nan), ids, 9)": "ValueError logits finite NaN",
    "mixes_rows(gpt, ids[:1])": "ValueError rows two (1, 3)",
    "mixes_rows(gpt, ids[:1].repeat(2, 1))": "ValueError rows two different",
    "mixes_rows(gpt, None)": "TypeError rows Tensor None",
    "mixes_rows(returning(x[:1]), ids)": "ValueError rows outputs batch 2 1",
    "collapses(returning(torch.zeros(2, 3, 8)), ids)": "ValueError states zeros",
    "collapses(gpt, ids[:, :1])": "ValueError ids two different",
    "collapses(gpt, ids * 0 + 3)": "ValueError ids two different",
    "collapses(returning(x[:, 0]), ids)": "ValueError states (2, 3, width) (2, 8)",
    "hides_end(ids.float() * math.nan, 2)": "TypeError labels int64 float32",
    "hides_end(ids, -1)": "ValueError eos_id >= 0 -1",
    "hides_end(ids, None)": "TypeError eos_id integer None",
    "repeats_embedding([], returning(None))": "ValueError run two blocks 0",
    "repeats_embedding(gpt.blocks, returning(None))": "ValueError run two blocks",
    "repeats_embedding([1, 2], returning(None))": "TypeError blocks[0] Module 1",
    "repeats_embedding([line, line], None)": "TypeError run callable None",
    "forgets_when_saved(lambda: gpt, ids)": "ValueError build new",
    "forgets_when_saved(returning(3), ids)": "TypeError build() Module 3",
    "forgets_when_saved(gpt, ids)": "TypeError build function DecoderLM",
    "dead_heads(line, lambda: line(torch.ones(2)).sum())": (
        "ValueError model attention layer"
    ),
    "dead_heads(None, returning(None))": "TypeError model Module None",
    "dead_parameters(gpt, lambda: torch.zeros(()))": "ValueError loss constant",
    "dead_parameters(gpt, lambda: gpt(ids))": "ValueError loss one number (2, 3, 9)",
    "dead_parameters(gpt, lambda: 3.0)": "TypeError loss() Tensor 3.0",
    "dead_parameters(nn.Identity(), lambda: x.sum())": "ValueError model trainable",
    "nan_gradients(gpt, None)": "TypeError loss callable None",
    "sees_padding(gpt, ids, 1)": "ValueError ids pad_id=1",
    "sees_padding(gpt, ids, None)": "TypeError pad_id integer None",
    "sees_padding(lambda i: gpt(i)[:, -1], ids[:, :2], 0)": (
        "ValueError outputs (2, 2, width)"
    ),
    "ignores_source(both, ids, ids[:1], 9)": "ValueError source target batch 2 1",
    "ignores_source(both, ids + 5, ids, 9)": "ValueError source vocab_size=9",
    "order_blind(gpt, ids[:, :2])": "ValueError ids reversed",
    "order_blind(gpt, ids.float())": "TypeError ids int64",
    "cache_disagrees(gpt, ids[:, :1])": "ValueError ids 2 positions",
    "misscaled(returning(x))": "ValueError scores (2, 3, 8)",
    "misscaled(None)": "TypeError scores callable None",
    "misjudges(None, ids, 0, 9)": "TypeError loss callable None",
    "misjudges(returning(x.sum()), ids * 0 - 100, -100, 9)": "ValueError labels -100",
    "misjudges(returning(x.sum()), ids + 5, 0, 9)": "ValueError labels vocab_size=9",
    "misjudges(returning(x.sum()), ids, 0, 1)": "ValueError vocab_size >= 2",
    "changes_when_repeated(None, ids)": "TypeError outputs callable None",
    "changes_when_repeated(returning(3.0), ids)": "TypeError outputs Tensor 3.0",
}
