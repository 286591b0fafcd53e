import json
P='/work/main/notebooks/18_after_training.ipynb'
cells=[]; n=[1]
def md(text):
    text=text.strip('\n'); id=f'18-{n[0]:03d}'; n[0]+=1
    cells.append({'cell_type':'markdown','id':id,'metadata':{},'source':text.splitlines(keepends=True)})
def code(text,alt=None,tags=None,hidden=False):
    text=text.strip('\n'); id=f'18-{n[0]:03d}'; n[0]+=1
    meta={}
    if alt: meta['alt']=[alt]
    t=(['hide-input'] if hidden else [])+list(tags or [])
    if t: meta['tags']=t
    if hidden: meta['jupyter']={'source_hidden':True}
    cells.append({'cell_type':'code','id':id,'metadata':meta,'execution_count':None,'outputs':[],'source':text.splitlines(keepends=True)})

md(r"""
# 18 · After training

A model that has read stories can only go on with a story. Ask it for one, and it is lost. This notebook makes an assistant of it, in
three steps that every large one has gone through: it is shown answers, then it is rewarded for good ones, then it finds the hole in
the reward and cheats: *Once Hugo was Hugo was Hugo.*

**You will be able to** tune a model on instructions and say which tokens count; write LoRA in ten lines and GRPO in fifteen; see reward hacking
happen; say what preference models and DPO do in its place.

**You need** [13 · A decoder that writes stories](13_tinystories_decoder.ipynb) and [14 · From scores to stories](14_generation.ipynb).
**It takes** about @@MIN minutes with the exercises.

<details><summary>Warm-up: what does cross-entropy do to the probability of a token that is a label?</summary>

It pushes it up, and all others at that place down. Labels of −100 count for nothing.
</details>
""")
code(r"""
import math
import random

import torch
import torch.nn.functional as F
from torch import nn

from course_utils.pretrained import load
from course_utils.training.records import load_record, load_script
from lesson_plots import plots
from named_mistakes import check, hint, solution

torch.set_num_threads(1)
after = load_script("nb18_after_training")  # requests, answers and what they are worth
record = load_record("nb18_after_training")
plain, tokenizer = load("stories")


def show(model, names=("Anna", "Tim", "Maya", "Hugo"), seed=2):
    for name, row in zip(names, after.answers(model, names, seed)):
        print(f"{name:5} … {tokenizer.decode(row).strip()}")


show(plain)
""",tags=["trained"])
md(r"""
## 1 · Ask the storyteller

This is the model of the story world (1.2 million weights). Four times it read *tell me about* with a name, and a `<bos>` that means "your turn". Nothing of the sort
stood in its stories, so it stumbles, and hardly ever says the name.

There is a trick without any training: put the opening into its mouth.

*Predict.* We begin the answer ourselves, "There once was a kind girl called Anna.", and let it go on. Will it stay with Anna?
""")
code(r"""
from course_utils.decoding import CachedStep, sample

opening = "There once was a kind girl called Anna."
prompt = torch.tensor([[tokenizer.bos_id, *tokenizer.encode(opening)]])
with torch.no_grad():
    chance = torch.Generator().manual_seed(0)
    told = sample(CachedStep(plain.eval()), prompt, 40, generator=chance)
print(tokenizer.decode(told[0]))
""",tags=["trained"])
md(r"""
*Look.* It does. What a model can do, and what it does when asked, are two things: the story was there, the request did not reach it. Before 2022 people wrote
such openings by hand. Now let the model learn to make them.

## 2 · Show it answers

**Instruction tuning**, or *supervised fine-tuning* (SFT), is ordinary training on requests with answers (Ouyang et al. 2022, section 3). Somebody has to write the answers. Ours are the
openings of 3,000 stories, each with a request for its hero in front.
""")
code(r"""
for asked, told in after.examples()[:4]:
    print(tokenizer.decode(asked[1:-1]).strip(), "→", tokenizer.decode(told[:16]).strip())
""")
md(r"""
One question decides what is learned: which tokens count? The model should answer requests, not learn to write them. So the labels of the request are −100.

### Your turn: the labels

From a request and its answer, two lists of ids, make inputs and labels of equal length.
""")
code(r"""
def my_labels(prompt, answer):
    "(inputs, labels): −100 where the next token belongs to the prompt."


check("after.answer_labels", my_labels)
""")
md(r"""
Our requests all have six tokens, so the training loop can simply cut. It sees 150 batches of sixteen pairs.

*Predict.* How often will it obey afterwards? Also for names that no request ever had, such as Maya? And will Tim be a girl?
""")
code(r"""
def log_probs(model, ids):
    "log p of each token after the first, “b t-1”."
    return -F.cross_entropy(model(ids[:, :-1]).mT, ids[:, 1:], reduction="none")


def tune(model, steps=150, rate=1e-3):
    "Show requests with answers; only the answers count."
    settings = {"betas": (0.9, 0.95), "weight_decay": 0}
    optimizer = torch.optim.AdamW(model.parameters(), rate, **settings)
    chosen = random.Random(0)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 10) * (1 - step / steps)
        pairs = chosen.sample(after.examples(), 16)
        ids = torch.tensor([asked + told for asked, told in pairs])
        loss = -log_probs(model, ids)[:, 5:].mean()  # the six tokens of the request are out
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


tuned = load("stories")[0]
tune(tuned)
show(tuned)
""",tags=["trained"])
code(r"""
base = record.numbers(kind="tune", size=0, steps=0, kl=0.0, seed=0)
now = after.measure(tuned)
for what in ("obeyed", "new", "right", "bits"):
    print(f"{what:7} before {base[what]:.2f}, after {now[what]:.2f}")
""",tags=["nbval-ignore-output"])
code(r"""
assert now["obeyed"] > 0.9 and now["new"] > 0.7 and 0.3 < now["right"] < 0.6
print("it obeys, new names included; about half of its sentences are right ✓")
""")
md(r"""
*Look.* *Obeyed* is the share of 256 answers whose first sentence has the asked name: from next to nothing to nearly all, and hardly less for names that no request had (*new*). The model could copy names all
along. Now it knows from where. And *bits*, the loss on plain stories, went up a little: what is tuned forgets.

*Right* is stricter. The sentence must be one that the grammar can write, and half are not. Read the answers again: *a girl called Tim*, *a boy called Anna*. In the stories the child came first, and a name was
chosen that fits. Now the name is given, and the child is still drawn like a coin.

## 3 · LoRA: tune two thin matrices

A large model has a copy of each of its weights in every assistant that is made of it, unless the change is kept apart. **LoRA** (Hu et al. 2021, section 4.1) freezes each
matrix $W$ and adds a product of two thin ones,

$$y = W x + B A x$$

with $A$ of $r$ rows and $B$ of $r$ columns. $B$ begins at zero, so the model begins as it was. Afterwards $W + BA$ is one matrix again, and costs nothing.

### Your turn: the low road

`down` is $A$, `up` is $B$, and `scale` a number that many implementations have before the product.
""")
code(r"""
def my_lora(x, weight, down, up, scale):
    "x “b t m”, weight “n m”, down “r m”, up “n r” → “b t n”."


check("after.lora", my_lora)
""")
md(r"""
*Predict.* With rank 8 it trains a fifteenth of the weights. Does it obey as well? And does it forget more, or less?
""")
code(r"""
def mean(what, **point):
    seeds = after.SEEDS
    return sum(record.numbers(**point, seed=s)[what] for s in seeds) / len(seeds)


ways = {"all weights": 0, "LoRA, rank 8": 8, "LoRA, rank 4": 4}
for way, size in ways.items():
    point = {"kind": "tune", "size": size, "steps": 40, "kl": 0.0}
    print(f"{way:13} obeyed {mean('obeyed', **point):.2f}", end="  ")
    print(f"plain stories {mean('bits', **point):.3f} bits, before {base['bits']:.3f}")
""")
md(r"""
*Look.* Nearly as well, and it forgets less. A few thin matrices are enough to say "copy the name from the request".

## 4 · Reward it

The tuned model writes *a girl called Tim* as often as *a boy called Tim*. Suppose that we have no more answers to show. A right one is still easy to *recognize*: the grammar of the world
knows. So let the model answer, judge each answer with a number, and make good ones likelier. That is **reinforcement learning**, and from the judgments of people it is called **RLHF**.

The oldest rule is REINFORCE (Williams 1992): raise the log-probability of what was drawn, in proportion to its reward. If all rewards are positive, everything is raised, the worse answers too. So compare: **GRPO** (Shao et
al. 2024, section 4.1) draws a *group* of answers to one request, and gives each its **advantage** within the group,

$$A_i = \frac{r_i - \text{mean}(r)}{\text{std}(r)}$$

Read: how much better than its brothers. Above the mean an answer becomes likelier, below it less likely.

### Your turn: the advantages
""")
code(r"""
def my_advantages(rewards):
    "rewards “requests answers” → advantages, with 1e-4 added to each standard deviation."


check("after.advantages", my_advantages)
""")
code(r"""
def grpo_step(model, optimizer, reward, names, seed, reference=None, kl=0.0):
    "Eight answers to each request; the better ones become likelier. The mean reward."
    asked = [name for name in names for _ in range(8)]
    told = after.answers(model, asked, seed)
    rewards = torch.tensor([reward(row, name) for row, name in zip(told, asked)])
    groups = rewards.view(len(names), 8)
    spread = groups.std(dim=1, keepdim=True, correction=0)
    advantages = (groups - groups.mean(dim=1, keepdim=True)) / (spread + 1e-4)
    requests = torch.tensor([after.request(name) for name in asked])
    ids = torch.cat([requests, told], dim=1)
    drawn = log_probs(model, ids)[:, -told.shape[1] :]  # of the answers alone
    loss = -(advantages.view(-1, 1) * drawn).mean()
    if kl:
        loss = loss + kl * penalty(drawn, reference, ids)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return rewards.mean().item()
""")
md(r"""
`penalty` comes in section 5. The reward here is `after.is_right`: 1 for a first sentence that the grammar can write and that has the asked name, else 0. Eighty steps, eight requests each.

*Predict.* It only ever hears 0 or 1. What will become of Tim?
""")
code(r"""
def reinforce(model, reward, steps=80, **settings):
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, betas=(0.9, 0.95))
    chosen = random.Random(0)
    for step in range(steps):
        names = chosen.sample(after.KNOWN, 8)
        yield grpo_step(model, optimizer, reward, names, step, **settings)


rewarded = load("stories")[0]
rewarded.load_state_dict(tuned.state_dict())
rewards = list(reinforce(rewarded, after.is_right))
show(rewarded)
""",tags=["trained"])
code(r"""
now = after.measure(rewarded)
boys = {"asked for a girl": "boy for a girl", "asked for a boy": "boy for a boy"}
point = {"kind": "tune", "size": 0, "steps": 150, "kl": 0.0}
stages = {
    "plain": [base[key] for key in boys.values()],
    "tuned": [mean(key, **point) for key in boys.values()],
    "rewarded": [mean(key, **point | {"kind": "right", "steps": 80}) for key in boys.values()],
}
plots.bars(list(boys), stages, ("", "share of answers that say boy"))
print(f"here: right {now['right']:.2f}, plain stories {now['bits']:.2f} bits", end=", ")
print(f"{now['openings']} different first sentences of 256")
""",tags=["nbval-ignore-output"],alt="ALT4")
code(r"""
assert now["right"] > 0.75 and now["boy for a girl"] < 0.25 < 0.75 < now["boy for a boy"]
assert now["openings"] > 150
print("Tim is a boy, Anna a girl, and the sentences are still varied ✓")
""")
md(r"""
*Look.* No answer was shown in these eighty steps. It tried girls and boys, and one of the two was paid. What it needed was inside: its stories had always called Tim a boy.

Would more showing have done it, too? The record has 150 further steps of tuning, about as many seconds:
""")
code(r"""
tuned_point = {"kind": "tune", "size": 0, "steps": 150, "kl": 0.0}
right = {
    "tuned": mean("right", **tuned_point),
    "… and tuned on": mean("right", **tuned_point | {"kind": "more", "steps": 150}),
    "… or rewarded": mean("right", **tuned_point | {"kind": "right", "steps": 80}),
}
plots.bars(list(right), {"right": list(right.values())}, ("", "right first sentences"))
""",alt="ALT5")
md(r"""
*Look.* Yes: every answer that we show happens to be right, and in the end the model sees what they have in common. Showing is as good as rewarding, where somebody can show. A reward needs only a judge, and in a moment you will see how much depends on the judge.

<details><summary>How sure is this?</summary>

Three seeds each, in the record. Rewards cost something: plain stories rise by @@BITS bits per token. When half of the shown answers are wrong on purpose, neither way mends the child. Tables, and what did not work: [lab notes](book/lab_notes.md#18--shown-rewarded-cheating).
</details>

## 5 · The cheat

Knowing the grammar is a luxury. Suppose that we had only a rough idea of obedience: *an answer is the better the more often it says the asked name*. It even holds for the answers so far.

*Predict.* What will an answer look like after forty steps?
""")
code(r"""
cheat = load("stories")[0]
cheat.load_state_dict(tuned.state_dict())
names_said = list(reinforce(cheat, after.count_names, steps=40))
show(cheat)
print([round(number, 1) for number in names_said[::8]], "names in an answer")
""",tags=["trained"])
code(r"""
now = after.measure(cheat)
assert now["names"] > 5 and now["possible"] < 0.05
print("more than five names in 24 tokens, and no answer could begin a story ✓")
""")
md(r"""
*Look.* It is paid for names, so it says names. It does what was rewarded and not what was meant: **reward hacking**. The number that we optimize rises all the while. With large models it is
the same: a preference model pays for long, flattering, confident answers, and gets them (Gao et al. 2022 measure it).

The usual brake is a price for leaving the model from which one came: the **KL divergence** between the two, estimated on the drawn tokens. With $r = \log p_\text{before} - \log p$ each token
costs $e^r - r - 1$, which is 0 where nothing changed and positive everywhere else (Shao et al. 2024, section 4.1).

### Your turn: the penalty
""")
code(r"""
def my_penalty(log_probs, reference):
    "Log-probabilities “n t” of the drawn tokens, now and before → the mean penalty."


check("after.penalty", my_penalty)
""")
code(r"""
def penalty(drawn, reference, ids):
    "The mean penalty of the drawn tokens."
    with torch.no_grad():
        before = log_probs(reference, ids)[:, -drawn.shape[1] :]
    ratio = before - drawn
    return (ratio.exp() - ratio - 1).mean()


places = list(range(10, 41, 10))
said, readable = {}, {"tuned": mean("possible", **tuned_point)}
for name, kl in {"no penalty": 0.0, "KL penalty": 0.5}.items():
    point = {"kind": "names", "size": 0, "steps": 40, "kl": kl}
    said[name] = (places, [mean(f"names {place}", **point) for place in places])
    readable[name] = mean("possible", **point)
plots.curves(said, ("step", "names in an answer"))
""",alt="ALT6")
code(r"""
plots.bars(
    list(readable),
    {"possible": list(readable.values())},
    ("", "answers that could begin a story"),
)
""",alt="ALT7")
md(r"""
*Look.* Without the penalty what is paid rises, and what was meant falls to nothing. That is what reward hacking looks like, if somebody happens to measure what was meant. The penalty slows the cheat down. It does not close the hole.

### Your turn: close it

Write a reward that pays for obedience and that repetition does not raise: 1.0 where the first sentence, up to the first full stop, has the name exactly once and at least six words; else 0.0.
""")
code(r"""
def my_reward(words, name):
    "words of an answer, such as ['Once', 'upon', …, '.']; the asked name → 1.0 or 0.0."


check("after.reward", my_reward)
""")
md(r"""
## 6 · Your own reward

What should this storyteller do more of? Write it as a number, let it run, and read. The example pays for different words.
""")
code(r"""
def wish(row, name):
    "What you pay for. `words` are the tokens of an answer."
    words = tokenizer.tokens(row.tolist())
    return float(len(set(words)))


yours = load("stories")[0]
yours.load_state_dict(rewarded.state_dict())
paid = list(reinforce(yours, wish, steps=20))
show(yours)
print(f"reward {sum(paid[:5]) / 5:.1f} at first, {sum(paid[-5:]) / 5:.1f} at last")
""",tags=["trained"])
md(r"""
*Try.* Pay for *happy*, for *mom*, for short sentences, for the letter *k*. Write down what you expect before you run. Then read ten answers: did you get what you meant, or what you said?

### What large models do differently

- **A reward that is learned.** Nobody has a grammar of good answers. People compare two answers, and a *preference model* learns to say which one they would choose (Ouyang et al. 2022, section 3). It has holes, as ours had.
- **No reward at all.** DPO (Rafailov et al. 2023, section 4) shows that the preferences can train the model directly. With a chosen answer $y$ and a rejected one $y'$,

$$L = -\log \sigma\left(\beta \log \frac{p(y)}{p_\text{before}(y)} - \beta \log \frac{p(y')}{p_\text{before}(y')}\right)$$

  Read: make the chosen answer likelier than the rejected one, measured against the model from before. No drawing, no groups; but it learns only from answers that somebody has compared.
- **Rewards that can be checked.** Mathematics and programs have answers that a machine can verify, as ours. There GRPO is used much as here (Shao et al. 2024), with answers of thousands of tokens in place of 24.

### The same for your own storyteller

With real stories the request can be made from the story's own words, or taken from `roneneldan/TinyStoriesInstruct` on the hub. The calls are the same; this one needs the network, and we have not tried it:

```python
from course_utils.data.hub import load_texts

told = load_texts("roneneldan/TinyStoriesInstruct", limit=2000)  # request, then story
model, tokenizer = load("runs/my_storyteller")  # your own, from notebook 13
tune(model)  # with pairs of your own in place of after.examples()
```

`share_page(model, tokenizer, "assistant.html")` puts it into a page, where a reader can type a request as the opening.

## What you have now

Tuning shows a model where to look for its answer. LoRA does the same with a fraction of the weights. A reward needs no demonstration, only a judge, and it gets exactly what the judge pays for. Whoever builds an assistant spends
most of the time on the judge.

Before: [17 · Scaling out](17_scaling_out.ipynb). Back to the start: [00 · Start here](00_start_here.ipynb).
""")
def save(subs):
    w=sum(len(''.join(c['source']).split()) for c in cells if c['cell_type']=='markdown'); l=sum(''.join(c['source']).count('\n')+1 for c in cells if c['cell_type']=='code')
    mins=w/58+l/12; subs={**subs,'@@MIN':str(5*round(mins/5))}
    for c in cells:
        s=''.join(c['source'])
        for a,b in subs.items(): s=s.replace(a,b)
        c['source']=s.splitlines(keepends=True)
        if 'alt' in c['metadata']: c['metadata']['alt']=[subs.get(x,x) for x in c['metadata']['alt']]
    print(w,l,round(mins,1))
    meta=json.load(open('/work/main/notebooks/16_bug_clinic.ipynb'))['metadata']; meta={k:v for k,v in meta.items() if k in('kernelspec','language_info')}
    json.dump({'cells':cells,'metadata':meta,'nbformat':4,'nbformat_minor':5},open(P,'w'),indent=1,ensure_ascii=False); open(P,'a').write('\n')
if __name__=='__main__':
    import sys
    save(json.loads(sys.argv[1]))
