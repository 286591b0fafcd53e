"""What each public function does on another device: the same as on the CPU, there.

A case is an expression in which `D` moves tensors and modules to the device. It is
evaluated on the CPU and on the pretended accelerator: the results must be equal, and
its tensors must lie where `D` moved things, unless the case is one of ON_CPU.
"""

PREPARE = """
import copy
import tempfile
from pathlib import Path

import torch
from torch import nn

from course_utils.text import bpe
from course_utils import pretrained
from course_utils.attention import *
from course_utils.looking.attentions import *
from course_utils.blocks import *
from course_utils.training.checkpoints import *
from course_utils.config import *
from course_utils.data.batches import *
from course_utils.decoding import *
from course_utils.fast_step import *
from course_utils.looking.diagnostics import *
from course_utils.looking.heads import *
from course_utils.looking.intervening import *
from course_utils.export import *
from course_utils.llama_folder import *
from course_utils.feedforward import *
from course_utils.training.machine import *
from course_utils.masks import *
from course_utils.looking.metrics import *
from course_utils.models import *
from course_utils.training.optimizers import *
from course_utils.looking import plots
from course_utils.looking.plots import *
from course_utils.positions import *
from course_utils.training.processes import *
from course_utils.looking.recording import *
from course_utils.recurrent import *
from course_utils import shapes
from course_utils.looking.views.story_page import *
from course_utils.text.tokenizer import *
from course_utils.norms import *
from course_utils.training.losses import *
from course_utils.training.evaluation import *
from course_utils.training.loop import *
from course_utils.looking.views import bertviz_offline, comparison, explorer
from course_utils.looking.views import neurons, page, pieces

for module in (plots, page):
    module.display = lambda *_, **__: None
torch.manual_seed(0)
ids = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 3, 2]])
x, q = torch.randn(2, 5, 8), torch.randn(2, 2, 5, 4)
true = torch.ones(5, 5, dtype=torch.bool).tril()
stack = StackConfig(d_model=8, num_heads=2, num_layers=2, d_ff=16, max_length=12)
learned = StackConfig(d_model=8, num_heads=2, d_ff=16, positions="learned", dropout=0.1)
sizes = dict(d_model=8, num_heads=2, num_kv_heads=1, num_layers=2, d_ff=16)
gpt = DecoderLM(DecoderConfig(vocab_size=9, stack=learned)).eval()
llama = LlamaLM(LlamaConfig(vocab_size=9, **sizes, max_length=12)).eval()
pair = dict(source_vocab_size=9, target_vocab_size=9)
both = EncoderDecoder(EncoderDecoderConfig(**pair, encoder=stack, decoder=stack)).eval()
classes = ClassifierConfig(vocab_size=9, num_classes=3, stack=stack)
clf = Classifier(classes).eval()
chain = RecurrentSeq2Seq(9, 9, 8)
layer = MultiHeadAttention(8, 2)
table = rotary_table(5, 4)
words = list("abcde")
labels = torch.tensor([[2, 3, 4, 5, -100], [7, 8, 3, 2, 2]])
plan = TrainConfig(steps=3, precision="float32", seed=3)
tokens = train_words(["a b c d e f g h"])


def batches(step):
    return ids, ids.roll(-1, dims=1)


def translations(step):
    return ids, ids, ids.roll(-1, dims=1)


def classified(step):
    return ids, torch.tensor([0, 2])


def cached(model, ids):
    cache = model.new_cache()
    return torch.cat([model(part, cache=cache) for part in ids.split([3, 2], 1)], 1)


def recorded(model, *inputs):
    with record(model) as seen:
        model(*inputs)
    return seen


def changed(model, ids, changes):
    with intervene(model, changes):
        return model(ids)


class Foreign(nn.Module):  # what `transformers` does after its attention
    def __init__(self):
        super().__init__()
        self.num_heads = 2
        self.c_proj = nn.Linear(8, 8)

    def forward(self, x):
        return self.c_proj(x)


foreign = Foreign()


def stepped(weight, momentum):
    weight = nn.Parameter(weight.clone())
    weight.grad = momentum
    optimizer = Muon([weight])
    optimizer.step()
    return weight.detach()


def trained(model, data=batches, config=plan, **more):
    history = train(model, data, config, **more)
    same = {str(x.device.type) for x in model.parameters()}
    assert len(same) == 1, same
    return history.losses, [x.detach() for x in model.parameters()]


def saved_and_loaded(model):
    alone = Processes(next(model.parameters()).device)
    parts = (model, build_optimizers(model, plan))
    with tempfile.TemporaryDirectory() as folder:
        save_checkpoint(Path(folder), 1, parts, {"identity": {}}, alone)
        for weight in model.parameters():
            weight.data.zero_()
        load_checkpoint(Path(folder), parts, {}, alone)
    return [x.detach() for x in model.parameters()]


def resumed(model):
    config = TrainConfig(steps=4, precision="float32", checkpoint_every=2)

    def stopped(step):
        if step == 3:
            raise KeyboardInterrupt
        return batches(step)

    with tempfile.TemporaryDirectory() as folder:
        try:
            train(model, stopped, config, checkpoints=folder)
        except KeyboardInterrupt:
            pass
        return train(model, batches, config, checkpoints=folder).losses


def exported(model):
    with tempfile.TemporaryDirectory() as folder:
        export_llama(model, folder)
        return import_llama(folder)[0](ids)


def kept(model):
    with tempfile.TemporaryDirectory() as folder:
        pretrained.save(model, tokens, folder)
        return pretrained.load(folder)[0](ids)


def drawn(model, ids):
    draw = torch.Generator().manual_seed(5)  # a CPU generator, on any device
    step = CachedStep(model)
    return sample(step, ids, 4, top_k=5, top_p=0.9, temperature=0.8, generator=draw)


def paged(weights):
    with tempfile.TemporaryDirectory() as folder:
        save_page(Path(folder) / "a.html", "t", story_panel("t", words, weights, 4))
        return (Path(folder) / "a.html").read_text()


def fresh():
    return LlamaLM(llama.config)


def attention_rows(weights):
    return weights.tril() / weights.tril().sum(-1, keepdim=True)
"""

CASES = {
    # --- masks, positions, layers -----------------------------------------------------
    "causal_mask": "causal_mask(3, 5, device=DEVICE)",
    "padding_mask": "padding_mask(D(ids), 3)",
    "combine_masks": "combine_masks(D(true), None, padding_mask(D(ids), 3))",
    "sinusoidal_positions": "sinusoidal_positions(5, 7, device=DEVICE)",
    "rotary_table": "rotary_table(5, 4, device=DEVICE)",
    "alibi_bias": "alibi_bias(2, 3, 5, device=DEVICE)",
    "rotate": "rotate(D(q), *D(table))",
    "rotate_checked": "rotate_checked(D(q), *D(table))",
    "check_rotary": "check_rotary(*D(table), 5, 4)",
    "TablePositions": "D(LearnedPositions(8, 12))(D(x), start=2)",
    "SinusoidalPositions": "D(SinusoidalPositions(8, 12))(D(x), start=2)",
    "LearnedPositions": "D(LearnedPositions(8, 12))(D(x))",
    "NoPositions": "D(NoPositions(8, 12))(D(x))",
    "RotaryPositions": "D(RotaryPositions(4, 12))(2, 5)",
    "make_positions": "D(make_positions('sinusoidal', 8, 12))(D(x))",
    "FeedForward": "D(FeedForward(8, 16, 'gelu'))(D(x))",
    "SwiGLU": "D(SwiGLU(8, 16))(D(x))",
    "RMSNorm": "D(RMSNorm(8))(D(x))",
    "attention_scores": "attention_scores(D(q), D(q))",
    "attention_weights": "attention_weights(D(q) @ D(q).mT, D(true))",
    "attend": (
        "attend(D(q), D(q), D(q), D(true), bias=alibi_bias(2, 5, 5, device=DEVICE))"
    ),
    "attend, causal": "attend(D(q), D(q), D(q), causal=True)",
    "attend, causal, last queries": "attend(D(q)[:, :, :2], D(q), D(q), causal=True)",
    "Attend": "recorded(D(layer), D(x))['attend.weights']",
    "LayerCache": "(c := LayerCache(), c.append(D(q), D(q)), c.append(D(q), D(q)))[2]",
    "LayerCache.select": (
        "(c := LayerCache(), c.append(D(q), D(q)), c.select(D(torch.tensor([0, 0]))), "
        "c.keys)[3]"
    ),
    "KeyValueCache": "cached(D(llama), D(ids))",
    "split_heads": "split_heads(D(x), 2)",
    "MultiHeadAttention": "D(layer)(D(x), D(x), mask=D(true))",
    "MultiHeadAttention, causal": "D(layer)(D(x), causal=True)",
    "GroupedQueryAttention": "D(GroupedQueryAttention(8, 2, 1))(D(x), D(table))",
    "Residual": "D(Residual(8, 0.0, 'pre'))(D(x), torch.tanh)",
    "EncoderBlock": "D(EncoderBlock(stack))(D(x), D(true))",
    "DecoderBlock": "D(DecoderBlock(stack))(D(x), D(x), D(true))",
    "LlamaBlock": "D(LlamaBlock(llama.config))(D(x), D(table), causal=True)",
    # --- models -----------------------------------------------------------------------
    "Embedding": "D(Embedding(9, stack))(D(ids))",
    "Encoder": "D(Encoder(9, stack))(D(ids), D(true))",
    "Classifier": "D(clf)(D(ids))",
    "Classifier of words": "D(clf)(D(ids), D(torch.tensor([0, 4])))",
    "EncoderDecoder": "D(both)(D(ids), D(ids))",
    "LanguageModel": "D(llama)(D(ids), D(true))",
    "DecoderLM": "D(gpt)(D(ids))",
    "DecoderLM, with a cache": "cached(D(gpt), D(ids))",
    "LlamaLM": "D(llama)(D(ids), causal=False)",
    "LlamaLM, cast to bfloat16 there": "D(llama).bfloat16()(D(ids)).float()",
    "DotScore": "D(DotScore(8))(D(x), D(x))",
    "GeneralScore": "D(GeneralScore(8))(D(x), D(x))",
    "AdditiveScore": "D(AdditiveScore(8))(D(x), D(x))",
    "CosineScore": "D(CosineScore(8))(D(x), D(x))",
    "ScoredAttend": "D(ScoredAttend(8, 'dot'))(D(x), D(x))",
    "RecurrentAttention": "D(RecurrentAttention(8, 'dot'))(D(x), D(x))",
    "RecurrentSeq2Seq": "D(chain)(D(ids), D(ids))",
    "RecurrentSeq2Seq, plain": (
        "D(RecurrentSeq2Seq(9, 9, 8, cell='rnn'))(D(ids), D(ids))"
    ),
    "record": "recorded(D(both), D(ids), D(ids))['blocks.1.cross_attention']",
    "Recording": "list(recorded(D(llama), D(ids)).weights().values())",
    "record, a foreign layer": "recorded(D(foreign), D(x))['attend']",
    "Heads": "find_heads(D(foreign), '').split(D(x))",
    "find_heads": "find_heads(D(foreign), '').merge(D(q))",
    "find_all_heads": "list(find_all_heads(D(foreign)))",
    "says_it_has_heads": "float(says_it_has_heads(D(foreign)))",
    "intervene": "changed(D(llama), D(ids), {'blocks.0': torch.tanh})",
    "intervene, a foreign layer": (
        "changed(D(foreign), D(x), {'attend': zero_ablation(heads=[1])})"
    ),
    "zero_ablation": (
        "changed(D(llama), D(ids), {'blocks.1.attention.attend': "
        "zero_ablation(heads=1, positions=[0, -1])})"
    ),
    "mean_ablation": (
        "changed(D(llama), D(ids), {'blocks.1.attention.attend': "
        "mean_ablation(D(q), heads=0, real=D(ids) != 3)})"
    ),
    "activation_patch": (
        "changed(D(llama), D(ids), {'blocks.0': activation_patch(D(x), positions=2)})"
    ),
    # --- decoding ---------------------------------------------------------------------
    "next_token_probabilities": "next_token_probabilities(D(x[:, 0]), 0.7, 5, 0.8)",
    "greedy": "greedy(CachedStep(D(llama)), D(ids), 4)",
    "greedy, stopped": "greedy(CachedStep(D(llama)), D(ids), 4, 7, 0)",
    "greedy, a prompt on the CPU": "greedy(CachedStep(D(llama)), ids, 4)",
    "sample": "drawn(D(llama), D(ids))",
    "sample, a prompt on the CPU": "drawn(D(llama), ids)",
    "beam_search": (
        "beam_search(lambda i, m=D(llama): m(i)[:, -1], D(ids), 4, beams=3, stop_id=2, "
        "pad_id=0)"
    ),
    "beam_search, a translation": (
        "beam_search(TranslationStep(D(both), D(ids)), D(ids[:, :1]), 4, beams=3, "
        "stop_id=2, pad_id=0)"
    ),
    "beam_search, a prompt on the CPU": (
        "beam_search(TranslationStep(D(both), ids), ids[:, :1], 4, beams=3, stop_id=2, "
        "pad_id=0)"
    ),
    "CachedStep": "CachedStep(D(gpt))(D(ids))",
    "FastStep": "greedy(FastStep(D(llama)), D(ids), 4)",
    "FastStep, a prompt on the CPU": "greedy(FastStep(D(llama)), ids, 4)",
    "TranslationStep": "TranslationStep(D(chain).eval(), D(ids))(D(ids))",
    # --- training ---------------------------------------------------------------------
    "label_loss": "label_loss(D(torch.randn(2, 5, 9)), D(labels), 0.1)",
    "next_token_loss": "next_token_loss(D(llama), D((ids, labels)))",
    "translation_loss": "translation_loss(D(both), D((ids, ids, labels)))",
    "class_loss": "class_loss(D(clf), D(classified(0)))",
    "mean_loss": "mean_loss(D(llama), batches, 2)",
    "placed": "placed(batches(0), torch.device(DEVICE), torch.float32)",
    "placed, from there": "placed(D(batches(0)), torch.device(DEVICE), torch.float32)",
    "device_and_dtype": "[str(x)[:5] for x in device_and_dtype(D(llama))][1]",
    "counted_batch": "counted_batch((D(ids), D(labels)), 0)",
    "scalar": "scalar(D(x).sum()[None])",
    "train": "trained(D(llama))",
    "train, with dropout": (
        "trained(D(gpt), config=TrainConfig(steps=2, precision='float32'))"
    ),
    "train, with Muon": (
        "trained(D(llama), config=TrainConfig(steps=3, optimizer='muon', "
        "precision='float32'))"
    ),
    "train, a translator": (
        "trained(D(both), translations, loss=translation_loss, "
        "evaluate=lambda m: mean_loss(m, translations, 1, translation_loss))"
    ),
    "train, a classifier": "trained(D(clf), classified, loss=class_loss)",
    "train, a recurrent model": (
        "trained(D(chain), translations, loss=translation_loss)"
    ),
    "train, batches on the device": (
        "trained(D(llama), lambda step: tuple(D(batches(step))))"
    ),
    "train, resumed": "resumed(D(llama))",
    "parameter_groups": "{k: [x.detach() for x in v] for k, v in "
    "parameter_groups(D(gpt)).items()}",
    "build_optimizers": "len(build_optimizers(D(gpt), plan))",
    "Muon": "stepped(D(x[0]), D(x[1]))",
    "orthogonalize": "orthogonalize(D(x[0]))",
    "save_checkpoint": "saved_and_loaded(D(llama))",
    "load_checkpoint": "saved_and_loaded(D(gpt))",
    "Processes": "Processes(torch.device(DEVICE)).mean(D(torch.tensor(2.0)))",
    "whole": "whole(D(torch.tensor(2.0)))",
    # --- diagnostics ------------------------------------------------------------------
    "changes_when_repeated": "changes_when_repeated(D(llama), D(ids))",
    "leaks_future": "leaks_future(D(llama), D(ids), 9)",
    "sees_padding": "sees_padding(D(Encoder(9, stack)), D(ids), 0)",
    "ignores_source": "ignores_source(D(both), D(ids), D(ids), 9)",
    "order_blind": "order_blind(D(llama), D(ids))",
    "mixes_rows": "mixes_rows(D(llama), D(ids))",
    "collapses": "collapses(D(Encoder(9, stack)), D(ids))",
    "cache_disagrees": "cache_disagrees(D(llama), D(ids))",
    "forgets_when_saved": "forgets_when_saved(lambda: D(fresh()), D(ids))",
    "misscaled": "misscaled(attention_scores, DEVICE)",
    "misjudges": ("misjudges(lambda l, y: label_loss(l, y, 0.0), D(labels), -100, 9)"),
    "hides_end": "hides_end(D(labels), 2)",
    "repeats_embedding": (
        "(lambda m: repeats_embedding(m.blocks, lambda: m(D(ids))))(D(llama))"
    ),
    "dead_parameters": (
        "(lambda m: dead_parameters(m, lambda: m(D(ids)).square().mean()))(D(gpt))"
    ),
    "nan_gradients": (
        "(lambda m: nan_gradients(m, lambda: m(D(ids)).square().mean()))(D(gpt))"
    ),
    "dead_heads": (
        "(lambda m: dead_heads(m, lambda: m(D(ids)).square().mean()))(D(gpt))"
    ),
    # --- looking, saving, text --------------------------------------------------------
    "strongest_links": "sorted(strongest_links(D(x[0])))",
    "heatmap": "heatmap(D(x[0]), signed=True)",
    "attention_map": "attention_map(D(q[0]).softmax(-1), range(5), range(4))",
    "equation": ("equation([('a', D(x[0]), 'query'), '=', ('b', D(x[1]), 'key')])"),
    "curves": "curves({'a': D(x[0, 0])}, ('x', 'y'))",
    "bars": "bars(words, {'a': D(x[0, :, 0])}, ('x', 'y'))",
    "points": "points({'a': D(x[0, :, 0])}, ('x', 'y'))",
    "histograms": "histograms({'a': D(x)}, 'x', (-3, 3))",
    "arrows": "arrows({'a': D(x[0, 0, :2])})",
    "story_panel": "paged(attention_rows(D(x[0, :, :5]).abs()))",
    "layer_weights": "layer_weights(recorded(D(llama), D(ids[:1])))",
    "layer_weights, a tensor": "layer_weights(D(q).softmax(-1)[:1])",
    "show_attention": (
        "explorer.show_attention(recorded(D(llama), D(ids[:1])), words, title='T.')"
    ),
    "show_map": "explorer.show_map(D(q).softmax(-1)[:1], words, words[:4], title='T.')",
    "show_comparison": (
        "comparison.show_comparison(D(q).softmax(-1)[:1], D(q).softmax(-1)[1:], words, "
        "words[:4], title='T.')"
    ),
    "show_bertviz": (
        "bertviz_offline.show_bertviz(recorded(D(llama), D(ids[:1])), words, "
        "title='T.')"
    ),
    "show_neurons": (
        "neurons.show_neurons(recorded(D(llama), D(ids[:1])), words, title='T.')"
    ),
    "show_sampling": "pieces.show_sampling(D(x[0, 0]), list('abcdefgh'), title='T.')",
    "weight_codes": "page.weight_codes(D(q[0]).softmax(-1)).tolist()",
    "export_llama": "exported(D(llama))",
    "tensors_of": "tensors_of(D(llama))",
    "save": "kept(D(DecoderLM(DecoderConfig(vocab_size=12, stack=learned))))",
    "Tokenizer": "tokens.decode(D(torch.tensor([4, 5, 6])))",
    "packed_batches": (
        "packed_batches([D(ids[0]), D(ids[1])], batch_size=1, length=3, "
        "special=tokens)(0)"
    ),
}
# Results that come back to the CPU: what is saved, and batches for any device.
ON_CPU = {
    "layer_weights",
    "layer_weights, a tensor",
    "export_llama",
    "tensors_of",
    "save",
    "packed_batches",
    "greedy, a prompt on the CPU",
    "sample, a prompt on the CPU",
    "beam_search, a prompt on the CPU",
    "FastStep, a prompt on the CPU",
}
# Public names that take neither a tensor nor a module (or are no function).
NEITHER = {
    "attention": (),
    "config": [
        "StackConfig",
        "ClassifierConfig",
        "EncoderDecoderConfig",
        "DecoderConfig",
        "LlamaConfig",
        "TrainConfig",
    ],
    "checkpoints": ["list_checkpoints"],
    "machine": ["find_device", "find_precision", "is_watched"],
    "metrics": ["bits_per_byte", "bleu", "exact_match", "alignment_error_rate"],
    "decoding": ["length_rule"],
    "optimizers": ["learning_rate_at", "set_learning_rate"],
    "records": ["Record", "load_script", "load_record", "check_record", "make_record"],
    "plots": ["show"],
    "descriptions": ["cell_alt", "drawn_words"],
    "token_texts": ["token_texts"],
    "story_page": ["save_page"],
    "evaluation": ["evaluating", "check_parts"],
    "loop": ["History"],
    "export": ["import_llama"],
    "llama_folder": ["settings_of", "config_of", "read_state"],
    "pretrained": ["Recipe", "tinystories", "stories", "translator", "senses", "load"],
    "tokenizer": ["train_bpe", "train_words", "from_transformers"],
}
