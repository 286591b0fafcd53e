"""Calls with wrong arguments: metrics, plots, pages, views, export, exercises."""

PREPARE = """
import json, math, shutil, tempfile
from pathlib import Path
import numpy as np, torch
from torch import nn
from safetensors.torch import load_file, save_file
import course_utils.looking.plots as pl
from course_utils import export as ex, llama_folder as lf, pretrained as pr, workshop
from course_utils.looking import metrics as me
from course_utils.looking.views import story_page as sp
from course_utils.config import EncoderDecoderConfig, LlamaConfig, StackConfig
from course_utils.config import TrainConfig
from course_utils.exercises import session
from course_utils.models import EncoderDecoder, LlamaLM
from course_utils.looking.heads import find_heads
from course_utils.looking.intervening import activation_patch, intervene
from course_utils.looking.intervening import mean_ablation, zero_ablation
from course_utils.looking.recording import Recording, record
from course_utils.text import tokenizer_folder as tf
from course_utils.text.tokenizer import train_words
from course_utils.looking.views import bertviz_offline, page, pieces
from course_utils.looking.views.bertviz_offline import show_bertviz
from course_utils.looking.views.comparison import show_comparison
from course_utils.looking.views.explorer import show_attention, show_map
from course_utils.looking.views.neurons import show_neurons
pl.display = page.display = bertviz_offline.display = lambda *a, **k: None
nan, inf = math.nan, math.inf
eye, ones = torch.eye(2), torch.ones(2, 3)
axes, words = ("x", "y"), ["a", "b"]
links = [{(0, 0)}]
w = {"blocks.0": torch.eye(2)[None, None]}
tok = train_words(["the cat sat"])
sizes = dict(d_model=8, num_heads=2, num_layers=1, d_ff=8, max_length=4)
llama = LlamaLM(LlamaConfig(vocab_size=tok.vocab_size, **sizes))
other = LlamaLM(LlamaConfig(vocab_size=9, **sizes))
translator = EncoderDecoder(EncoderDecoderConfig(
    source_vocab_size=tok.vocab_size, target_vocab_size=tok.vocab_size,
    encoder=StackConfig(**sizes), decoder=StackConfig(**sizes)))
nan_llama = LlamaLM(llama.config)
nan_llama.norm.weight.data[0] = nan
D = Path(tempfile.mkdtemp())
(D / "file").write_text("x")
(D / "empty").mkdir()
ex.export_llama(llama, D / "hf", tok)
pr.save(llama, tok, D / "own")
with torch.no_grad(), record(llama) as seen:
    llama(torch.ones(1, 2, dtype=torch.int64))
linear = nn.Linear(2, 2)
with record(linear) as bare:
    linear(eye)

class Batch:
    def __init__(self, encodings):
        self.encodings = encodings

def ran_with(changes):
    with intervene(llama, changes):
        return llama(torch.ones(1, 2, dtype=torch.int64))

def changed(source, name, file="config.json", **changes):
    folder = D / name
    shutil.copytree(D / source, folder, dirs_exist_ok=True)
    content = json.loads((folder / file).read_text()) | changes
    content = {k: v for k, v in content.items() if v is not ...}
    (folder / file).write_text(json.dumps(content))
    return folder

def hf(name, **changes):
    return ex.import_llama(changed("hf", name, **changes))

def own(name, **changes):
    return pr.load(changed("own", name, **changes))

def without(source, name, file):
    folder = D / name
    shutil.copytree(D / source, folder, dirs_exist_ok=True)
    (folder / file).unlink()
    return folder

def torch_file(name, content):
    folder = without("hf", name, "model.safetensors")
    (folder / "pytorch_model.bin").write_bytes(content)
    return folder

def in_parts(name, index):
    folder = without("hf", name, "model.safetensors")
    (folder / "model.safetensors.index.json").write_text(index)
    return folder

def weights(source, name, **tensors):
    folder = D / name
    shutil.copytree(D / source, folder, dirs_exist_ok=True)
    save_file(load_file(D / source / "model.safetensors") | tensors,
              folder / "model.safetensors")
    return folder

def written(name, file, content, source="hf"):
    folder = D / name
    shutil.copytree(D / source, folder, dirs_exist_ok=True)
    (folder / file).write_bytes(content)
    return folder

"""

CALLS = {
    # metrics, as in the readings
    "me.bleu('ab', [['a'], ['b']])": "TypeError hypotheses list strings 'ab'",
    "me.exact_match('ab', [['a'], ['b']])": "TypeError hypotheses list 'ab'",
    "me.alignment_error_rate(links, [{(0, 0, 0)}])": "TypeError sure[0] pair length 3",
    # metrics
    "me.bleu(['a'], ['a'])": "TypeError references[0] list strings 'a'",
    "me.bleu(['a'], 'a')": "TypeError references list lists 'a'",
    "me.bleu(None, [['a']])": "TypeError hypotheses list None",
    "me.bleu(['a'], None)": "TypeError references list None",
    "me.bleu(['a'], [None])": "TypeError references[0] list None",
    "me.bleu([3], [['a']])": "TypeError hypotheses[0] str 3",
    "me.bleu(['a'], [['a', None]])": "TypeError references[0][1] str None",
    "me.bleu([], [])": "ValueError hypotheses references empty",
    "me.bleu(['a'], [['a'], ['b']])": "ValueError hypotheses references 1 2",
    "me.bleu(['a'], [[]])": "ValueError references[0] at least one none",
    "me.exact_match(['a'], ['a'])": "TypeError references[0] list 'a'",
    "me.exact_match([['a']], [['a']])": "TypeError hypotheses[0] str list",
    "me.exact_match({'a': 1}, [['a']])": "TypeError hypotheses list dict",
    "me.exact_match(['a'], [['b'], ['c']])": "ValueError hypotheses references 1 2",
    "me.exact_match(7, [['a']])": "TypeError hypotheses list 7",
    "me.alignment_error_rate({(0, 0)}, links)": "TypeError predicted list set",
    "me.alignment_error_rate([[(0, 0)]], links)": "TypeError predicted[0] set list",
    "me.alignment_error_rate(links, [{0}])": "TypeError sure[0] pair integers 0",
    "me.alignment_error_rate([{(0.0, 0)}], links)": "TypeError predicted[0] pair tuple",
    "me.alignment_error_rate([{('a', 'b')}], links)": "TypeError predicted[0] pair",
    "me.alignment_error_rate([{(True, 0)}], links)": "TypeError predicted[0] pair",
    "me.alignment_error_rate([{(0, -1)}], links)": "ValueError predicted[0] >= 0 -1",
    "me.alignment_error_rate(links, [{(-1, 0)}])": "ValueError sure[0] >= 0 (-1,",
    "me.alignment_error_rate(links, links, [{(-1, 0), (0, 0)}])": (
        "ValueError possible[0] >= 0 (-1,"
    ),
    "me.alignment_error_rate(links, links, [set()])": "ValueError possible[0] sure[0]",
    "me.alignment_error_rate(links, links * 2)": "ValueError predicted sure 1 2",
    "me.alignment_error_rate(links, links, links * 2)": "ValueError sure possible 1 2",
    "me.alignment_error_rate(links, [set()])": "ValueError sure at least one link",
    "me.alignment_error_rate([], [])": "ValueError sure at least one link",
    "me.alignment_error_rate(None, links)": "TypeError predicted list None",
    "me.alignment_error_rate(links, None)": "TypeError sure list None",
    "me.alignment_error_rate(links, links, 'p')": "TypeError possible list 'p'",
    "me.strongest_links(torch.ones(1, 2, 2))": "ValueError weights (query, key) (1, 2,",
    "me.strongest_links(torch.ones(2))": "ValueError weights (query, key) (2,)",
    "me.strongest_links(torch.zeros(0, 3))": "ValueError weights (query, key) (0, 3)",
    "me.strongest_links(eye * nan)": "ValueError weights finite NaN",
    "me.strongest_links(eye / 0)": "ValueError weights finite infinity",
    "me.strongest_links(eye.bool())": "TypeError weights floating torch.bool",
    "me.strongest_links([[1.0]])": "TypeError weights torch.Tensor list",
    "me.strongest_links(eye.numpy())": "TypeError weights torch.Tensor ndarray",
    "me.strongest_links(None)": "TypeError weights torch.Tensor None",
    "me.bits_per_byte('1', 2, 3)": "TypeError nats_per_token number '1'",
    "me.bits_per_byte(torch.ones(2), 2, 3)": "TypeError nats_per_token number tensor",
    "me.bits_per_byte(None, 2, 3)": "TypeError nats_per_token number None",
    "me.bits_per_byte(True, 2, 3)": "TypeError nats_per_token number True",
    "me.bits_per_byte(-0.1, 2, 3)": "ValueError nats_per_token >= 0 -0.1",
    "me.bits_per_byte(nan, 2, 3)": "ValueError nats_per_token number nan",
    "me.bits_per_byte(inf, 2, 3)": "ValueError nats_per_token finite inf",
    "me.bits_per_byte(1.0, 0, 3)": "ValueError num_tokens integer >= 1 got 0",
    "me.bits_per_byte(1.0, 2, -3)": "ValueError num_bytes integer >= 1 got -3",
    "me.bits_per_byte(1.0, 2.5, 3)": "TypeError num_tokens integer 2.5",
    "me.bits_per_byte(1.0, 2, 'abc')": "TypeError num_bytes integer 'abc'",
    # plots: heatmap
    "pl.heatmap(eye, alt='')": "ValueError alt must not be empty",
    "pl.heatmap(eye, alt=3)": "TypeError alt str 3",
    "pl.heatmap(None)": "TypeError values numbers None",
    "pl.heatmap('12')": "TypeError values numbers '12'",
    "pl.heatmap([[1, 2], [3]])": "TypeError values numbers list",
    "pl.heatmap({})": "ValueError values at least one none",
    "pl.heatmap([])": "ValueError values 2 axes (1, 0)",
    "pl.heatmap(torch.ones(2, 2, 2))": "ValueError values 2 axes (2, 2, 2)",
    "pl.heatmap(torch.ones(()))": "ValueError values 2 axes ()",
    "pl.heatmap(eye * nan)": "ValueError values finite nan",
    "pl.heatmap(eye / 0, signed=True)": "ValueError values finite",
    "pl.heatmap(-eye)": "ValueError values >= 0 signed=True -1",
    "pl.heatmap(eye * 1j)": "TypeError values real complex64",
    "pl.heatmap({'a': eye, 'b': ones.T})": "ValueError values rows 2 'b' 3",
    "pl.heatmap({'a': eye, 'b': eye * nan})": "ValueError values['b'] finite nan",
    "pl.heatmap({'a': eye, 'b': None})": "TypeError values['b'] numbers None",
    "pl.heatmap(eye, 'xy')": "TypeError axes tuple list 'xy'",
    "pl.heatmap(eye, ('x',))": "ValueError axes two 1",
    "pl.heatmap(eye, ('x', 3))": "TypeError axes[1] str 3",
    "pl.heatmap(eye, None)": "TypeError axes tuple None",
    "pl.heatmap(eye, rows=['a'])": "ValueError rows 2 cells got 1",
    "pl.heatmap(eye, columns='abc')": "ValueError columns 2 cells got 3",
    "pl.heatmap({'a': eye, 'b': ones}, columns='ab')": "ValueError columns 3 got 2",
    "pl.heatmap(eye, rows=3)": "TypeError rows list 3",
    "pl.heatmap(eye, signed='yes')": "TypeError signed bool 'yes'",
    # plots: attention_map
    "pl.attention_map(None, words, words)": "TypeError weights numbers None",
    "pl.attention_map(torch.ones(2), words, words)": "ValueError weights shape (2,)",
    "pl.attention_map(torch.ones(1, 1, 2, 2), words, words)": (
        "ValueError weights shape (1, 1, 2, 2)"
    ),
    "pl.attention_map(-eye, words, words)": "ValueError weights >= 0 -1",
    "pl.attention_map(eye * nan, words, words)": "ValueError weights finite nan",
    "pl.attention_map(eye, ['a'], words)": "ValueError queries 2 cells got 1",
    "pl.attention_map(eye, words, list('abc'))": "ValueError keys 2 cells got 3",
    "pl.attention_map(eye, None, words)": "TypeError queries list None",
    "pl.attention_map(eye, words, 7)": "TypeError keys list 7",
    "pl.attention_map(eye, words, words, alt=' ')": "ValueError alt empty",
    "pl.attention_map(eye, words, words, ['t'])": "TypeError title str list",
    "pl.attention_map(eye, words, words, None)": "TypeError title str None",
    "pl.attention_map(eye[None], words, words, 't')": "TypeError title list 't'",
    "pl.attention_map(eye[None], words, words, ['t', 'u'])": "ValueError title 1 2",
    "pl.attention_map(eye[None], words, words, [3])": "TypeError title[0] str 3",
    "pl.attention_map(eye, words, words, mask=eye)": (
        "TypeError mask bool torch.float32"
    ),
    "pl.attention_map(eye, words, words, mask='m')": "TypeError mask bool 'm'",
    "pl.attention_map(eye, words, words, mask=torch.ones(3, 3).bool())": (
        "ValueError mask (2, 2) (3, 3)"
    ),
    "pl.attention_map(eye, words, words, mask=eye.bool()[None])": (
        "ValueError mask (2, 2) (1, 2, 2)"
    ),
    "pl.attention_map(eye, words, words, marks=[(0, 2)])": "ValueError marks[0] 2",
    "pl.attention_map(eye, words, words, marks=[(-1, 0)])": "ValueError marks[0] -1",
    "pl.attention_map(eye, words, words, marks=(0, 1))": "TypeError marks[0] list 0",
    "pl.attention_map(eye, words, words, marks=[(0, 1, 1)])": (
        "TypeError marks[0] pair length 3"
    ),
    "pl.attention_map(eye, words, words, marks=['ab'])": "TypeError marks[0] pair",
    "pl.attention_map(eye, words, words, marks=None)": "TypeError marks list None",
    # plots: equation
    "pl.equation([])": "ValueError parts at least one none",
    "pl.equation(None)": "TypeError parts list None",
    "pl.equation(['='])": "ValueError parts at least one none",
    "pl.equation([('Q', eye)])": "TypeError parts[0] (name, array, role) length 2",
    "pl.equation([('Q', eye, 'quary')])": "ValueError role one of 'quary'",
    "pl.equation([('Q', eye, None)])": "ValueError role one of None",
    "pl.equation([(1, eye, 'query')])": "TypeError parts[0][0] str 1",
    "pl.equation([('Q', eye, 'key')], columns={'K': 'ab'})": "ValueError columns 'K'",
    "pl.equation([('Q', eye, 'key')], columns={'Q': ['a']})": "ValueError columns['Q']",
    "pl.equation([('Q', eye, 'key')], columns=['a'])": "TypeError columns Mapping list",
    "pl.equation([('Q', eye * nan, 'query')])": "ValueError parts['Q'] finite nan",
    "pl.equation([('Q', None, 'query')])": "TypeError parts['Q'] numbers None",
    "pl.equation([('Q', eye[None], 'query')])": "ValueError parts['Q'] (1, 2, 2)",
    "pl.equation([('Q', eye, 'query')], ['a'])": "ValueError rows 2 got 1",
    "pl.equation([('Q', eye, 'query')], 5)": "TypeError rows list 5",
    "pl.equation([('Q', eye, 'query')], alt='')": "ValueError alt empty",
    # plots: curves
    "pl.curves({}, axes)": "ValueError series at least one none",
    "pl.curves([1, 2], axes)": "TypeError series Mapping list",
    "pl.curves(None, axes)": "TypeError series Mapping None",
    "pl.curves({'a': []}, axes)": "ValueError series['a'] y shape (0,)",
    "pl.curves({'a': None}, axes)": "TypeError series['a'] y numbers None",
    "pl.curves({'a': 3}, axes)": "ValueError series['a'] y shape ()",
    "pl.curves({'a': ones}, axes)": "ValueError series['a'] y shape (2, 3)",
    "pl.curves({'a': [nan, nan]}, axes)": "ValueError series['a'] y NaN",
    "pl.curves({'a': [1, inf]}, axes)": "ValueError series['a'] y finite infinity",
    "pl.curves({'a': ([1, nan], [1, 2])}, axes)": "ValueError series['a'] x nan",
    "pl.curves({'a': ([1], [1, 2])}, axes)": "ValueError series['a'] x y 1 2",
    "pl.curves({'a': (1, 2, 3)}, axes)": "ValueError series['a'] tuple length 3",
    "pl.curves({'a': (1, 2)}, axes)": "TypeError series['a'] x list 1",
    "pl.curves({'a': ['1', '2']}, axes)": "TypeError series['a'] y numbers",
    "pl.curves({'a': [1, 2]}, axes, log='z')": "ValueError log one of 'z'",
    "pl.curves({'a': [1, 2]}, axes, log=True)": "ValueError log one of True",
    "pl.curves({'a': [1, 2]}, axes, log='x')": "ValueError series['a'] x > 0 got 0",
    "pl.curves({'a': [1, 0]}, axes, log='y')": "ValueError series['a'] y > 0 got 0",
    "pl.curves({'a': [1, -2]}, axes, log='xy')": "ValueError series['a'] > 0",
    "pl.curves({'a': [1]}, axes, log='y', lines={'l': 0})": (
        "ValueError lines['l'] > 0 got 0"
    ),
    "pl.curves({'a': [1]}, axes, lines={'l': nan})": "ValueError lines['l'] nan",
    "pl.curves({'a': [1]}, axes, lines={'l': None})": "TypeError lines['l'] None",
    "pl.curves({'a': [1]}, axes, lines=[3])": "TypeError lines Mapping list",
    "pl.curves({'a': [1]}, axes, roles={'a': 'red'})": (
        "ValueError roles['a'] one of 'red'"
    ),
    "pl.curves({'a': [1]}, axes, roles={'b': None})": "ValueError roles['b'] None",
    "pl.curves({'a': [1]}, axes, roles='mistake')": "TypeError roles Mapping",
    "pl.curves({'a': [1]}, 'xy')": "TypeError axes tuple 'xy'",
    "pl.curves({'a': [1]}, axes, None)": "TypeError title str None",
    # plots: points
    "pl.points({}, axes)": "ValueError series at least one none",
    "pl.points({'a': [1, inf]}, axes)": "ValueError series['a'] y finite infinity",
    "pl.points({'a': [1]}, axes, texts={'b': ['x']})": "ValueError texts 'a' 'b'",
    "pl.points({'a': [1]}, axes, texts={'a': ['x', 'y']})": "ValueError texts['a'] 1 2",
    "pl.points({'a': [1]}, axes, texts=['x'])": "TypeError texts Mapping list",
    "pl.heatmap(eye, axes, numbers=1)": "TypeError numbers bool 1",
    # plots: bars, histograms, arrows, show
    "pl.bars([], {}, axes)": "ValueError series at least one none",
    "pl.bars([], {'a': []}, axes)": "ValueError series['a'] 1 axes (0,)",
    "pl.bars(words, {'a': [1]}, axes)": "ValueError series['a'] 2 labels got 1",
    "pl.bars(words, {'a': [1, nan]}, axes)": "ValueError series['a'] finite nan",
    "pl.bars(words, {'a': [1, inf]}, axes)": "ValueError series['a'] finite inf",
    "pl.bars(words, {'a': eye}, axes)": "ValueError series['a'] 1 axes (2, 2)",
    "pl.bars(words, {'a': None}, axes)": "TypeError series['a'] numbers None",
    "pl.bars(words, [1, 2], axes)": "TypeError series Mapping list",
    "pl.bars(None, {'a': [1]}, axes)": "TypeError labels list None",
    "pl.bars(2, {'a': [1, 2]}, axes)": "TypeError labels list 2",
    "pl.bars(words, {'a': [1, 2]}, ('x', 'y', 'z'))": "ValueError axes two 3",
    "pl.bars(words, {'a': [1, 2]}, axes, title=3)": "TypeError title str 3",
    "pl.bars(words, {'a': [1, 2]}, axes, lines={'l': 'x'})": (
        "TypeError lines['l'] number 'x'"
    ),
    "pl.bars(words, {'a': [1, 2]}, axes, roles={'a': 'blue'})": (
        "ValueError roles['a'] 'blue'"
    ),
    "pl.histograms({}, 'x', (0, 1))": "ValueError samples at least one none",
    "pl.histograms(eye, 'x', (0, 1))": "TypeError samples Mapping tensor",
    "pl.histograms({'a': []}, 'x', (0, 1))": "ValueError samples['a'] (0,)",
    "pl.histograms({'a': eye * nan}, 'x', (0, 1))": "ValueError samples['a'] NaN",
    "pl.histograms({'a': eye}, 'x', (1, 0))": "ValueError limits low < high 1 0",
    "pl.histograms({'a': eye}, 'x', (0, inf))": "ValueError limits finite inf",
    "pl.histograms({'a': eye}, 'x', 3)": "TypeError limits tuple 3",
    "pl.histograms({'a': eye}, 'x', (0, 1, 2))": "ValueError limits (low, high) 3",
    "pl.histograms({'a': eye}, 'x', ('0', 1))": "TypeError limits[0] number '0'",
    "pl.histograms({'a': eye}, ('x', 'y'), (0, 1))": "TypeError axis str tuple",
    "pl.histograms({'a': eye}, 'x', (0, 1), 'red')": "ValueError role one of 'red'",
    "pl.arrows({})": "ValueError vectors at least one none",
    "pl.arrows([(1, 2)])": "TypeError vectors Mapping list",
    "pl.arrows({'a': (1, 2, 3)})": "ValueError vectors['a'] (x, y) 3",
    "pl.arrows({'a': (1, nan)})": "ValueError vectors['a'] finite nan",
    "pl.arrows({'a': eye})": "ValueError vectors['a'] 1 axes (2, 2)",
    "pl.arrows({'a': 'xy'})": "TypeError vectors['a'] numbers 'xy'",
    "pl.arrows({'a': (1, 2)}, roles={'a': 'red'})": "ValueError roles['a'] 'red'",
    "pl.arrows({'a': (1, 2)}, title=None)": "TypeError title str None",
    "pl.show(None)": "TypeError figure Figure None",
    "pl.show(pl.Figure(), alt='')": "ValueError alt empty",
    # story_page
    "sp.story_panel('t', 'ab', eye, 0)": "TypeError words list 'ab'",
    "sp.story_panel('t', None, eye, 0)": "TypeError words list None",
    "sp.story_panel('t', ['a', 3], eye, 0)": "TypeError words[1] str 3",
    "sp.story_panel('t', [], eye[:0, :0], 0)": "ValueError weights at least one (0, 0)",
    "sp.story_panel('t', words, ones, 0)": "ValueError weights 2 of each (2, 3)",
    "sp.story_panel('t', words, None, 0)": "TypeError weights numbers None",
    "sp.story_panel('t', words, eye * nan, 0)": "ValueError weights finite",
    "sp.story_panel('t', words, -eye, 0)": "ValueError weights negative",
    "sp.story_panel('t', words, ones[:, :2], 0)": "ValueError weights later ahead",
    "sp.story_panel('t', words, eye, 2)": "ValueError chosen [0, words=2) got 2",
    "sp.story_panel('t', words, eye, -1)": "ValueError chosen [0, words=2) got -1",
    "sp.story_panel('t', words, eye, 1.0)": "TypeError chosen integer 1.0",
    "sp.story_panel('t', words, eye, None)": "TypeError chosen integer None",
    "sp.story_panel(None, words, eye, 0)": "TypeError title str None",
    "sp.story_panel('t', words, eye, 0, None)": "TypeError footer str None",
    "sp.save_page(D / 'a.html', None, '')": "TypeError title str None",
    "sp.save_page(D / 'a.html', 't', None)": "TypeError panel str None",
    "sp.save_page(3, 't', '')": "TypeError path str Path 3",
    # views: attention
    "show_attention(3, words, title='t')": "TypeError recording record 3 (int)",
    "show_attention('ab', words, title='t')": "TypeError recording record 'ab'",
    "show_attention(None, words, title='t')": (
        'ValueError recording attn_implementation="eager" output_attentions=True'
    ),
    "show_attention((), words, title='t')": (
        'ValueError recording attn_implementation="eager" output_attentions=True'
    ),
    "show_attention((None, None), words, title='t')": (
        'ValueError recording attn_implementation="eager" output_attentions=True'
    ),
    "show_attention((eye,), words, title='t')": "ValueError 'layer.0' (2, 2)",
    "show_attention([eye], words, title='t')": "ValueError 'layer.0' (2, 2)",
    "show_attention(eye, words, title='t')": "ValueError 'layer.0' (2, 2)",
    "show_attention([[eye]], words, title='t')": (
        "ValueError recording step generate outputs.sequences"
    ),
    "show_attention([['a']], words, title='t')": "TypeError 'layer.0' Tensor list",
    "show_attention({}, words, title='t')": "ValueError recording output_attentions",
    "show_attention(Recording(), words, title='t')": (
        "ValueError recording record(model)"
    ),
    "show_attention(bare, words, title='t')": (
        'ValueError recording attn_implementation="eager" output_attentions=True'
    ),
    "show_attention({'a': eye[None, None] * 1j}, words, title='t')": (
        "TypeError 'a' real complex64"
    ),
    "show_attention({'a': np.array([['x']])}, words, title='t')": (
        "TypeError 'a' real <U1"
    ),
    "show_attention({'a': eye[None, None].numpy() * 1j}, words, title='t')": (
        "TypeError 'a' real complex64"
    ),
    "show_attention({'a.0': eye[None], 'a': [eye[None]]}, words, title='t')": (
        "ValueError recording two 'a.0'"
    ),
    "show_attention({'cross.0': eye[None]}, words, title='t')": (
        "ValueError source tokens None"
    ),
    "show_attention({0: w['blocks.0']}, words, title='t')": "TypeError recording str 0",
    "show_attention({'a': None}, words, title='t')": (
        "ValueError recording output_attentions=True"
    ),
    "show_attention({'a': [[1.0]]}, words, title='t')": "TypeError 'a.0' Tensor list",
    "show_attention({'a': eye}, words, title='t')": "ValueError recording 'a' (2, 2)",
    "show_attention({'a': torch.ones(2, 1, 2, 2) / 2}, words, title='t')": (
        "ValueError recording 'a' one text (2, 1, 2, 2)"
    ),
    "show_attention({'a': torch.ones(1, 0, 2, 2)}, words, title='t')": (
        "ValueError recording 'a' (1, 0, 2, 2)"
    ),
    "show_attention({'a': eye[None, None] * 2}, words, title='t')": (
        "ValueError recording 'a' from 0 to 1 2"
    ),
    "show_attention({'a': eye[None, None] * nan}, words, title='t')": (
        "ValueError recording 'a' nan"
    ),
    "show_attention(w | {'c.0': w['blocks.0']}, words, title='t')": (
        "ValueError recording blocks.# c.# cannot share"
    ),
    "show_attention(w | {'blocks.1': ones[None, None] / 3}, words, title='t')": (
        "ValueError recording 'blocks.#' differ shape"
    ),
    "show_attention(w, 'ab', title='t')": "TypeError tokens list 'ab'",
    "show_attention(w, {'a': 1, 'b': 2}, title='t')": "TypeError tokens list dict",
    "show_attention(w, torch.tensor([1, 2]), title='t')": "TypeError tokens[0] str",
    "show_attention(w, Batch(None), title='t')": (
        "TypeError tokens ids convert_ids_to_tokens"
    ),
    "show_attention(w, Batch([1, 2]), title='t')": (
        "ValueError tokens one batch 2 encoding[0]"
    ),
    "show_attention(w, None, title='t')": "TypeError tokens list None",
    "show_attention(w, [1, 2], title='t')": "TypeError tokens[0] str 1",
    "show_attention(w, ['a'], title='t')": "ValueError tokens 2 queries got 1",
    "show_attention(w, words, 'ab', title='t')": "TypeError source list 'ab'",
    "show_attention(w, words, ['a'], title='t')": "ValueError source tokens 2 1",
    "show_attention(w, words, title='')": "ValueError title empty",
    "show_attention(w, words, title=None)": "TypeError title str None",
    "show_attention(w, words, title='t', layer=1)": "ValueError layer [0, layers=1) 1",
    "show_attention(w, words, title='t', layer=None)": "TypeError layer integer None",
    "show_attention(w, words, title='t', head=-1)": "ValueError head [0, heads=1) -1",
    "show_attention(w, words, title='t', head='0')": "TypeError head integer '0'",
    "show_attention(w, words, title='t', part='x')": "ValueError part 'self' 'x'",
    "show_attention(w, words, title='t', part=3)": "ValueError part 'self' 3",
    "show_bertviz(w, words, title='t', view='neuron')": (
        "ValueError view 'head' 'neuron'"
    ),
    "show_bertviz(w, words, title='t', view=None)": "ValueError view 'model' None",
    "show_bertviz((eye,), words, title='t')": "ValueError 'layer.0' (2, 2)",
    "show_bertviz(w, words, title='t', layer=1)": "ValueError layer [0, layers=1) 1",
    "show_bertviz(w, words, title='t', head=-1)": "ValueError head [0, heads=1) -1",
    "show_map(w, words, title=' ')": "ValueError title empty",
    "show_map(None, words, title='t')": "ValueError recording output_attentions=True",
    # views: comparison
    "show_comparison(w, w, words, title='')": "ValueError title empty",
    "show_comparison(3, w, words, title='t')": "TypeError before record 3",
    "show_comparison(w, 3, words, title='t')": "TypeError after record 3",
    "show_comparison(w, None, words, title='t')": "ValueError after output_attentions",
    "show_comparison(w, {'a': eye[None] * 2}, words, title='t')": (
        "ValueError after: 'a' from 0 to 1 2"
    ),
    "show_comparison(w, [eye[None]] * 2, words, title='t')": (
        "ValueError before after shapes (1, 1, 2, 2) (2, 1, 2, 2)"
    ),
    "show_comparison(w, w, 'ab', title='t')": "TypeError tokens list 'ab'",
    "show_comparison(w, w, words, title='t', tokens_after=3)": (
        "TypeError tokens_after list 3"
    ),
    "show_comparison(w, w, words, title='t', tokens_after=['a'])": (
        "ValueError tokens_after 2 1"
    ),
    "show_comparison(w, w, words, title='t', source_after=3)": (
        "TypeError source_after list 3"
    ),
    "show_comparison(w, w, words, title='t', names='ab')": "TypeError names 'ab'",
    "show_comparison(w, w, words, title='t', names=['a'])": "ValueError names two 1",
    "show_comparison(w, w, words, title='t', names=['a', 3])": (
        "TypeError names[1] str 3"
    ),
    "show_comparison(w, w, words, title='t', names=['a', ''])": (
        "ValueError names[1] empty"
    ),
    "show_comparison(w, w, words, title='t', layer=(0, 0, 0))": (
        "ValueError layer two 3"
    ),
    "show_comparison(w, w, words, title='t', layer=1)": "ValueError layer layers=1 1",
    "show_comparison(w, w, words, title='t', head=(0, 1))": "ValueError heads=1 1",
    "show_comparison(w, w, words, title='t', head=(0, 'a'))": "TypeError head 'a'",
    "show_comparison(w, w, words, title='t', part='x')": "ValueError part 'self' 'x'",
    "show_bertviz({'a': eye[None, None] * 2}, words, title='t')": (
        "ValueError recording 'a' from 0 to 1 2"
    ),
    "show_bertviz(w, words, title=' ')": "ValueError title empty",
    "show_bertviz(w, list('abc'), title='t')": "ValueError tokens 2 queries 3",
    "bertviz_offline.offline('<p>', 's')": "ValueError html bertviz 1.4",
    "bertviz_offline.offline(None, 's')": "TypeError html str None",
    # views: neurons
    "show_neurons(w, words, title='t')": "ValueError recording queries show_attention",
    "show_neurons(None, words, title='t')": "ValueError output_attentions=True",
    "show_neurons(3, words, title='t')": "TypeError recording record 3",
    "show_neurons((eye[None],), words, title='t')": (
        "ValueError recording queries show_attention"
    ),
    "show_neurons({'cross.0': eye[None]}, words, title='t')": (
        "ValueError recording self-attention cross"
    ),
    "show_neurons(seen, words, title='t', query=2)": "ValueError query [-2, 2) got 2",
    "show_neurons(seen, words, title='t', query=-3)": "ValueError query >= -2 got -3",
    "show_neurons(seen, words, title='t', query='last')": "TypeError query 'last'",
    "show_neurons(seen, words, title='t', layer=1)": "ValueError layer layers=1 got 1",
    "show_neurons(seen, words, title='t', head=2)": "ValueError head heads=2 got 2",
    "show_neurons(seen, ['a'], title='t')": "ValueError tokens 2 queries 1",
    # views: pieces and the page
    "pieces.show_sampling(eye, words, title='t')": "ValueError scores (vocabulary,) 2",
    "pieces.show_sampling([1.0], ['a'], title='t')": "TypeError scores Tensor list",
    "pieces.show_sampling(None, ['a'], title='t')": "TypeError scores Tensor None",
    "pieces.show_sampling(torch.ones(3), words, title='t')": (
        "ValueError scores 2 got 3"
    ),
    "pieces.show_sampling(torch.ones(2) * nan, words, title='t')": (
        "ValueError scores finite NaN"
    ),
    "pieces.show_sampling(torch.ones(2), 'ab', title='t')": (
        "TypeError tokens list 'ab'"
    ),
    "pieces.show_sampling(torch.ones(2), words, title='')": "ValueError title empty",
    "pieces.show_scale(title='t', num_keys=0)": "ValueError num_keys >= 1 got 0",
    "pieces.show_scale(title='t', num_keys=2.5)": "TypeError num_keys integer 2.5",
    "pieces.show_scale(title='t', seed=-1)": "ValueError seed >= 0 got -1",
    "pieces.show_scale(title='')": "ValueError title empty",
    "pieces.show_rotation(title='')": "ValueError title empty",
    "pieces.show_rotation(title='t', d_model='8')": "TypeError d_model integer '8'",
    "pieces.show_rotation(title='t', d_model=5)": "ValueError d_model=5 pair",
    "pieces.show_rotation(title='t', d_model=0)": "ValueError d_model >= 1 got 0",
    "pieces.show_rotation(title='t', base=1.0)": "ValueError base > 1 got 1.0",
    "pieces.show_rotation(title='t', base='e')": "TypeError base number 'e'",
    "pieces.show_query({'a': (1, 0)}, title=None)": "TypeError title str None",
    "pieces.show_query({}, title='t')": "ValueError keys at least one none",
    "pieces.show_query([(1, 0)], title='t')": "TypeError keys Mapping list",
    "pieces.show_query({'a': (1,)}, title='t')": "ValueError keys['a'] two [1.0]",
    "pieces.show_query({'a': (1, nan)}, title='t')": "ValueError keys['a'] finite nan",
    "pieces.show_query({'a': 'xy'}, title='t')": "TypeError keys['a'] two 'xy'",
    "pieces.show_query({'a': None}, title='t')": "TypeError keys['a'] two None",
    "pieces.show_query({3: (1, 0)}, title='t')": "TypeError keys[0] str 3",
    "page.weight_codes(eye * 2)": "ValueError weights from 0 to 1 2",
    "page.weight_codes(-eye)": "ValueError weights from 0 to 1 -1",
    "page.compressed(np.array([256]))": "ValueError codes 0 255 256",
    "page.compressed(np.array([-1]))": "ValueError codes 0 255 -1",
    "page.show_view('other', {}, 's')": "ValueError name 'explorer' 'other'",
    "page.view_html('pieces', {}, None)": "TypeError sentence str None",
    "page.short(None)": "TypeError token str None",
    "page.short('word', 0)": "ValueError length >= 2 got 0",
    # recording
    "record(None).__enter__()": "TypeError model Module None",
    "record(llama.forward).__enter__()": "TypeError model Module method",
    "seen['blocks.0.atention']": "KeyError 'blocks.0.atention' 'blocks.0.attention'",
    "Recording()['x']": "KeyError 'x' nothing recorded",
    # intervening
    "intervene(None, {}).__enter__()": "TypeError model Module None",
    "intervene(llama.forward, {}).__enter__()": "TypeError model Module method",
    "intervene(llama, None).__enter__()": "TypeError changes Mapping None",
    "intervene(llama, [abs]).__enter__()": "TypeError changes Mapping list",
    "ran_with({0: abs})": "TypeError name in changes str 0",
    "ran_with({'blocks.0': None})": "TypeError changes['blocks.0'] callable None",
    "ran_with({'blocks.0': eye})": "TypeError changes['blocks.0'] callable tensor",
    "ran_with({'block.0': abs})": "KeyError 'block.0' 'blocks.0'",
    "ran_with({'blocks.0.attend': abs})": "KeyError 'blocks.0.attention.attend'",
    "ran_with({'blocks': abs})": "KeyError 'blocks' ran inside `with` record",
    "ran_with({'blocks.0': lambda x: None})": (
        "TypeError changes['blocks.0'] torch.Tensor None"
    ),
    "ran_with({'blocks.0': lambda x: x[0]})": (
        "ValueError changes['blocks.0'] (1, 2, 8) (2, 8)"
    ),
    "ran_with({'blocks.0': lambda x: x.double()})": (
        "TypeError changes['blocks.0'] torch.float32 torch.float64"
    ),
    "ran_with({'blocks.0': zero_ablation(heads=1)})": (
        "ValueError heads (batch, heads, query, width) (1, 2, 8) attend"
    ),
    "ran_with({'blocks.0.attention.attend': zero_ablation(heads=2)})": (
        "ValueError heads [0, 2) got 2"
    ),
    "ran_with({'blocks.0': zero_ablation(positions=-3)})": (
        "ValueError positions [-2, 2) got -3"
    ),
    "ran_with({'blocks.0': activation_patch(torch.ones(1, 3, 8))})": (
        "ValueError recorded (1, 2, 8) (1, 3, 8)"
    ),
    "ran_with({'blocks.0': mean_ablation(torch.ones(1, 3, 4))})": (
        "ValueError recorded (1, 2, 8) (1, 1, 4)"
    ),
    "ran_with({'blocks.0': mean_ablation(torch.ones(1, 2, 8).double())})": (
        "ValueError recorded dtype torch.float64 torch.float32"
    ),
    "zero_ablation(heads='0')": "TypeError heads integer '0'",
    "zero_ablation(heads=1.5)": "TypeError heads integer 1.5",
    "zero_ablation(heads=True)": "TypeError heads integer True",
    "zero_ablation(positions=[0, None])": "TypeError positions integers None",
    "mean_ablation(None)": "TypeError recorded torch.Tensor None",
    "mean_ablation(eye)": "ValueError recorded (..., batch, position, width) (2, 2)",
    "mean_ablation(eye[None], real=eye.bool())": "ValueError real (batch=1, (2, 2)",
    "mean_ablation(eye[None], real=eye[:1])": "TypeError real bool torch.float32",
    "mean_ablation(eye[None], real=eye[:1] > 1)": "ValueError real one position none",
    "mean_ablation(eye[None].long())": "TypeError recorded floating torch.int64",
    "activation_patch(None)": "TypeError recorded torch.Tensor None",
    "activation_patch(eye, heads=1.0)": "TypeError heads integer 1.0",
    "activation_patch(eye, positions='all')": "TypeError positions integer 'all'",
    "find_heads(None, '')": "TypeError model Module None",
    "find_heads(llama, 'blocks.9')": "KeyError 'blocks.9'",
    "find_heads(llama, 'blocks.0')": "ValueError 'blocks.0' how many num_heads",
    "find_heads(llama, 'blocks.0.attention')": "ValueError output projection c_proj",
    "find_heads(nn.MultiheadAttention(4, 2), '')": "ValueError nn.MultiheadAttention",
    # export
    "ex.export_llama(other, D / 'x', tok)": "ValueError tokenizer vocab_size=9 got 7",
    "ex.export_llama(translator, D / 'x')": "TypeError model LlamaLM EncoderDecoder",
    "ex.export_llama(None, D / 'x')": "TypeError model LlamaLM None",
    "ex.export_llama(llama.state_dict(), D / 'x')": "TypeError model LlamaLM",
    "ex.export_llama(llama, D / 'x', 'tok')": "TypeError tokenizer Tokenizer 'tok'",
    "ex.export_llama(llama, None)": "TypeError folder str Path None",
    "ex.export_llama(llama, D / 'file')": "ValueError folder file",
    "ex.export_llama(llama, D / 'own')": "ValueError folder new empty 'config.json'",
    "ex.export_llama(llama, D / 'x', tok, begin_id=7)": (
        "ValueError begin_id vocab_size=7 got 7"
    ),
    "ex.export_llama(llama, D / 'x', tok, begin_id='<eos>')": (
        "TypeError begin_id integer '<eos>'"
    ),
    "ex.export_llama(llama, D / 'x', begin_id=2)": "ValueError begin_id tokenizer 2",
    "ex.export_llama(llama, D / 'x', tok, trained_on=' ')": "ValueError trained_on ' '",
    "ex.export_llama(llama, D / 'x', tok, trained_on=3)": "TypeError trained_on str 3",
    "ex.export_llama(nan_llama, D / 'x')": "ValueError model finite 'norm.weight'",
    "ex.import_llama(None)": "TypeError folder str Path None",
    "ex.import_llama(D / 'none')": "ValueError folder config.json",
    "ex.import_llama(D / 'empty')": "ValueError folder config.json",
    "ex.import_llama(D / 'file')": "ValueError folder config.json",
    "ex.import_llama(D / 'own')": "ValueError model_type 'llama' None",
    "ex.import_llama(without('hf', 'h1', 'model.safetensors'))": (
        "ValueError folder model.safetensors"
    ),
    "ex.import_llama(written('h2', 'config.json', b'{'))": (
        "ValueError config.json JSON"
    ),
    "ex.import_llama(written('h3', 'config.json', b'[]'))": "ValueError object list",
    "ex.import_llama(written('h4', 'config.json', b'\\xff'))": "ValueError config.json",
    "ex.import_llama(written('h5', 'model.safetensors', b'x'))": (
        "ValueError model.safetensors valid"
    ),
    "hf('r1', rope_scaling={'rope_type': 'llama3', 'factor': 8.0})": (
        "ValueError rope_scaling 'default' 'llama3'"
    ),
    "hf('r2', rope_scaling={'type': 'linear', 'factor': 2.0})": (
        "ValueError rope_scaling 'default' 'linear'"
    ),
    "hf('r3', rope_parameters={'rope_type': 'yarn'})": (
        "ValueError rope_parameters 'default' 'yarn'"
    ),
    "hf('r4', rope_scaling=2.0)": "ValueError rope_scaling object null 2.0",
    "hf('r5', hidden_act='gelu')": "ValueError hidden_act silu 'gelu'",
    "hf('r6', head_dim=16)": "ValueError head_dim 4 16",
    "hf('r7', attention_bias=True)": "ValueError attention_bias false True",
    "hf('r8', mlp_bias=True)": "ValueError mlp_bias false True",
    "hf('r9', model_type='mistral')": "ValueError model_type 'llama' 'mistral'",
    "hf('r10', model_type=...)": "ValueError model_type 'llama' None",
    "hf('r11', hidden_size=...)": "ValueError hidden_size missing",
    "hf('r12', vocab_size=...)": "ValueError vocab_size missing",
    "hf('r13', num_hidden_layers=2)": "ValueError model.layers.1 missing",
    "hf('r14', vocab_size=8)": "ValueError embed_tokens (8, 8) (7, 8)",
    "hf('r15', num_attention_heads=3)": (
        "ValueError hidden_size=8 num_attention_heads=3"
    ),
    "hf('r16', rms_norm_eps=-1.0)": "ValueError rms_norm_eps > 0 -1.0",
    "hf('r17', tie_word_embeddings=1)": "ValueError tie_word_embeddings bool 1",
    "hf('r18', rope_parameters={'rope_theta': 0.5})": "ValueError rope_theta > 1 0.5",
    "hf('r19', num_key_value_heads='2')": "ValueError num_key_value_heads integer '2'",
    "ex.import_llama(weights('hf', 'w1', more=eye))": "ValueError unexpected 'more'",
    "ex.import_llama(changed('hf', 'w2', 'tokenizer_config.json', eos_token=5,"
    " bos_token='<s>'))": "ValueError '<s>' vocabulary",
    "ex.import_llama(written('w3', 'tokenizer.json', b'no'))": (
        "ValueError tokenizer.json tokenizers library"
    ),
    "hf('w4', vocab_size=6)": "ValueError tokenizer.json ids 6 vocab_size=6",
    "ex.import_llama(torch_file('w5', b'no'))": (
        "ValueError pytorch_model.bin torch.load weights_only"
    ),
    "ex.import_llama(in_parts('w6', '{}'))": "ValueError index.json weight_map None",
    'ex.import_llama(in_parts(\'w7\', \'{"weight_map": {"a": "../b"}}\'))': (
        "ValueError index.json weight_map folder '../b'"
    ),
    # the names of a LLaMA folder
    "lf.settings_of(None)": "TypeError config LlamaConfig None",
    "lf.config_of(None)": "TypeError settings dict None",
    "lf.config_of({})": "ValueError model_type 'llama' None",
    "lf.tensors_of(None)": "TypeError model LlamaLM None",
    "lf.tensors_of(translator)": "TypeError model LlamaLM EncoderDecoder",
    "lf.read_state(None, llama.config)": "TypeError folder str Path None",
    "lf.read_state(D / 'hf', None)": "TypeError config LlamaConfig None",
    "lf.read_state(D / 'empty', llama.config)": "ValueError folder model.safetensors",
    "lf.read_state(D / 'hf', other.config)": "ValueError embed_tokens (9, 8) (7, 8)",
    # the files of a tokenizer
    "tf.write_tokenizer(None, D / 'empty', 4)": "TypeError tokenizer Tokenizer None",
    "tf.write_tokenizer(tok, None, 4)": "TypeError folder str Path None",
    "tf.write_tokenizer(tok, D / 'none', 4)": "ValueError folder exist",
    "tf.write_tokenizer(tok, D / 'empty', 0)": "ValueError max_length >= 1 got 0",
    "tf.read_tokenizer(None)": "TypeError folder str Path None",
    "tf.read_tokenizer(D / 'none')": "ValueError folder exist",
    "tf.read_tokenizer(D / 'empty')": "ValueError folder tokenizer.json",
    "tf.has_tokenizer(None)": "TypeError folder str Path None",
    "tf.has_tokenizer(D / 'file')": "ValueError folder exist",
    "tf.read_settings(None)": "TypeError path str Path None",
    "tf.read_settings(D / 'file')": "ValueError file JSON",
    "tf.write_settings([], D / 'x')": "TypeError settings dict list",
    "tf.write_settings({}, None)": "TypeError path str Path None",
    # pretrained
    "pr.load('gpt2')": "ValueError name tinystories 'gpt2' config.json",
    "pr.load(None)": "TypeError name str Path None",
    "pr.load(D / 'empty')": "ValueError name tinystories config.json",
    "pr.load(D / 'hf')": "ValueError config.json 'kind' import_llama",
    "pr.load(without('own', 'o1', 'tokenizer.json'))": "ValueError tokenizer.json",
    "pr.load(without('own', 'o2', 'model.safetensors'))": (
        "ValueError model.safetensors"
    ),
    "own('o3', kind='Mamba')": "ValueError kind LlamaLM 'Mamba'",
    "own('o4', kind=...)": "ValueError 'kind' import_llama",
    "own('o5', config={})": "ValueError config fit kind",
    "own('o6', config=3)": "ValueError config object 3",
    "pr.load(written('o7', 'config.json', b'no', 'own'))": (
        "ValueError config.json JSON"
    ),
    "pr.load(written('o8', 'model.safetensors', b'no', 'own'))": (
        "ValueError model.safetensors valid"
    ),
    "pr.load(written('o9', 'tokenizer.json', b'no', 'own'))": "ValueError tokenizer",
    "pr.load(weights('own', 'o10', more=eye))": "ValueError unexpected 'more'",
    "pr.load(weights('own', 'o11', **{'norm.weight': torch.ones(9)}))": (
        "ValueError 'norm.weight' (8,) (9,)"
    ),
    "pr.save(nn.Linear(2, 2), tok, D / 'x')": "TypeError model LlamaLM Linear",
    "pr.save(llama, None, D / 'x')": "TypeError tokenizer Tokenizer None",
    "pr.save(other, tok, D / 'x')": "ValueError tokenizer vocab_size=9 7",
    "pr.save(llama, tok, None)": "TypeError folder str Path None",
    "pr.save(llama, tok, D / 'file')": "ValueError folder file",
    "pr.save(llama, tok, D / 'x', 'bfloat16')": (
        "TypeError dtype torch.dtype 'bfloat16'"
    ),
    "pr.save(llama, tok, D / 'x', torch.int8)": (
        "TypeError dtype floating-point torch.int8"
    ),
    "pr.tinystories('no data', steps=0)": "ValueError steps >= 1 got 0",
    "pr.tinystories('stories', limit=0)": "ValueError limit >= 1 got 0",
    "pr.tinystories('stories', limit=2.5)": "TypeError limit integer 2.5",
    "pr.stories('no data', steps=None)": "TypeError steps integer None",
    "pr.stories(limit='all')": "TypeError limit integer 'all'",
    "pr.translator('no data', steps=1.5)": "TypeError steps integer 1.5",
    "pr.senses('no data', steps=0)": "ValueError steps >= 1 got 0",
    "pr.Recipe(llama, tok, print, TrainConfig(steps=1)).run(3)": (
        "TypeError checkpoints str Path 3"
    ),
    "pr.translator(limit=-1)": "ValueError limit >= 1 got -1",
    "pr.senses('stories')": "ValueError data 'senses' 'stories'",
    "pr.senses(limit=None)": "TypeError limit integer None",
    "pr.senses(limit=3)": "ValueError limit >= 64 got 3",
    # exercises and the workshop
    "session.check('attention.weigths', None)": (
        "ValueError 'attention.weigths' mean attention.weights"
    ),
    "session.check('', None)": "ValueError unknown exercise ''",
    "session.check('§§§§', None)": "ValueError unknown exercise progress()",
    "session.check(len, 'attention.weights')": (
        "TypeError name first check('attention.weights', your_answer)"
    ),
    "session.check('attention.weights')": "TypeError answer missing check(",
    "session.case('attention')": "ValueError unknown 'attention' attention.",
    "session.check(None, None)": "TypeError name str None",
    "session.hint('masks')": "ValueError unknown 'masks' masks.",
    "session.hint(3)": "TypeError name str 3",
    "session.solution('attention')": "ValueError unknown 'attention' attention.",
    "session.solution(['attention.weights'])": "TypeError name str list",
    "session.find('x' * 500)": "ValueError unknown exercise",
    "session.progress('99')": "ValueError notebook 01 17 '99'",
    "session.progress(99)": "ValueError notebook 01 17 99",
    "session.progress(['01'])": "TypeError notebook str list",
    "session.progress('')": "ValueError notebook ''",
    "workshop.find_notebook(1, D)": "TypeError number string 1 (int)",
    "workshop.find_notebook('01', D)": "ValueError '01' exactly none",
    "workshop.reset_copy(None)": "TypeError number string None",
}
