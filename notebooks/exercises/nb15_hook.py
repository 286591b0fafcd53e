"""The exercise of notebook 15 on hooks: record and replace inside a forward pass.

Knows small models and their modules. Knows nothing of how an answer is run or shown.
"""

import contextlib
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from named_mistakes import Exercise, Mistake
from named_mistakes.drawing import normal

Results = tuple[Float[Tensor, "b m"], Float[Tensor, "b m"], Float[Tensor, "b m"]]


def hooked(
    model: nn.Module, name: str, change: Callable[[Tensor], Tensor], x: Tensor
) -> Results:
    """What the module returned, what the model then gave, and what it gives after."""
    recorded = []

    def hook(module, given, output):
        recorded.append(output)
        return change(output)

    handle = model.get_submodule(name).register_forward_hook(hook)
    try:
        changed = model(x)
    finally:
        handle.remove()
    return recorded[0], changed, model(x)


# --- models ------------------------------------------------------------------------


def _linear(generator, width):
    layer = nn.Linear(width, width, device="meta").to_empty(device="cpu")
    layer.requires_grad_(False)
    for parameter in layer.parameters():
        parameter.copy_(normal(generator, *parameter.shape))
    return layer


def _twice(output):
    return 2 * output + 1


def _first_is_zero(output):
    keep = torch.ones(output.shape[-1], dtype=output.dtype)
    keep[0] = 0
    return output * keep


def _with_a_hook_of_its_own(model):
    """What goes into `inner` is added behind it, by a hook that was there before.

    This hook only listens, so its order and that of another hook do not matter.
    """
    heard = {}

    def listen(module, given, output):
        heard["given"] = given[0]

    def add(module, given):
        return given[0] + heard.pop("given", 0.0)

    model.inner.register_forward_hook(listen)
    model.norm.register_forward_pre_hook(add)


def _cases(generator):
    cases = []
    for rows, width, name, change in (
        (3, 5, "inner.first", _twice),
        (1, 4, "inner", _first_is_zero),
    ):
        inner = nn.Sequential()
        inner.add_module("first", _linear(generator, width))
        inner.add_module("bend", nn.Tanh())
        inner.add_module("second", _linear(generator, width))
        model = nn.Sequential()
        model.add_module("before", _linear(generator, width))
        model.add_module("inner", inner)
        model.add_module("norm", nn.Tanh())
        model.add_module("after", _linear(generator, width))
        cases.append((model, name, change, normal(generator, rows, width)))
    _with_a_hook_of_its_own(model)
    return cases


# --- mistakes ----------------------------------------------------------------------


@contextlib.contextmanager
def _with(module, function):
    handle = module.register_forward_hook(function)
    try:
        yield
    finally:
        handle.remove()


def _run(model, module, x, function):
    """What the hook captured, the model's output under it, and after it."""
    captured = []
    with _with(
        module, lambda part, given, output: function(captured, given[0], output)
    ):
        changed = model(x)
    return captured[0], changed, model(x)


def _never_removed(model, name, change, x):
    recorded, changed, _ = hooked(model, name, change, x)
    return recorded, changed, changed


def _removes_all(model, name, change, x):
    """The hooks that the module had before are gone in the last pass."""
    recorded, changed, _ = hooked(model, name, change, x)
    module = model.get_submodule(name)
    before = dict(module._forward_hooks)
    module._forward_hooks.clear()
    after = model(x)
    module._forward_hooks.update(before)
    return recorded, changed, after


def _returns_nothing(model, name, change, x):
    def function(captured, given, output):
        captured.append(output)

    return _run(model, model.get_submodule(name), x, function)


def _records_the_change(model, name, change, x):
    def function(captured, given, output):
        captured.append(change(output))
        return captured[-1]

    return _run(model, model.get_submodule(name), x, function)


def _records_the_input(model, name, change, x):
    def function(captured, given, output):
        captured.append(given)
        return change(output)

    return _run(model, model.get_submodule(name), x, function)


def _changes_the_input(model, name, change, x):
    """A pre-hook: the module gets something else, and its own output is kept."""
    captured = []
    module = model.get_submodule(name)
    handle = module.register_forward_pre_hook(lambda part, given: change(given[0]))
    with _with(module, lambda part, given, output: captured.append(output)):
        changed = model(x)
    handle.remove()
    return captured[0], changed, model(x)


def _change_of_the_input(model, name, change, x):
    def function(captured, given, output):
        captured.append(output)
        return change(given)

    return _run(model, model.get_submodule(name), x, function)


def _full_model(model, name, change, x):
    def function(captured, given, output):
        captured.append(output)
        return change(output)

    return _run(model, model, x, function)


def _outside(model, name, change, x):
    """The module is called alone, with the model's input."""
    return model.get_submodule(name)(x), hooked(model, name, change, x)[1], model(x)


def _changes_twice(model, name, change, x):
    def function(captured, given, output):
        captured.append(output)
        return change(change(output))

    return _run(model, model.get_submodule(name), x, function)


def _two_places(model, name, change, x):
    recorded, changed, after = hooked(model, name, change, x)
    return recorded, after, changed


HOOK = Exercise(
    "inside.hook",
    "Gives three tensors for a model, a module's name, a change and x: what the "
    "module returned, what the model gives for x when change(…) goes on in its place, "
    "and what it gives afterwards, when the hook is gone.",
    ("model", "name", "change", "x"),
    hooked,
    _cases,
    (
        Mistake(
            "the hook still acts in the last pass",
            _never_removed,
            "Your third tensor is still the changed one: the hook is still in place.",
            "register_forward_hook returns a handle. Keep it, and call its remove() "
            "before you run the model again.",
        ),
        Mistake(
            "all hooks of the module are removed",
            _removes_all,
            "Your hook is gone, and so is one that the module already had. The model "
            "is not as it was.",
            "register_forward_hook returns a handle. Its remove() takes away this one "
            "hook and no other.",
        ),
        Mistake(
            "the hook returns nothing",
            _returns_nothing,
            "You recorded, but the model went on with the old output.",
            "What a hook returns takes the output's place. None changes nothing.",
        ),
        Mistake(
            "what is recorded is already changed",
            _records_the_change,
            "The first tensor is what is passed on, not what the module itself "
            "returned.",
            "Keep the output before you call change.",
        ),
        Mistake(
            "the input is recorded",
            _records_the_input,
            "The first tensor is what the module was given. What did it return?",
            "A hook gets (module, inputs, output), in this order.",
        ),
        Mistake(
            "the input is changed, by a pre-hook",
            _changes_the_input,
            "A pre-hook acts before the module runs, so you changed what it was given.",
            "register_forward_hook acts after it.",
        ),
        Mistake(
            "the change is made of the input",
            _change_of_the_input,
            "After the module, a changed version of what came into it is passed on.",
            "A hook gets (module, inputs, output). Which of them goes into change?",
        ),
        Mistake(
            "the hook sits on the whole model",
            _full_model,
            "You recorded and changed what the model returns, not the named module.",
            "model.get_submodule(name) finds a module by its name.",
        ),
        Mistake(
            "the module runs alone, on x",
            _outside,
            "Inside the model, this module is not given x, but what the part before "
            "it returned.",
            "Record during the actual forward pass: keep the output in the hook.",
        ),
        Mistake(
            "the change acts twice",
            _changes_twice,
            "The output went through change two times.",
            "One hook, and one call of change in it.",
        ),
        Mistake(
            "the last two are swapped",
            _two_places,
            "The right three tensors, but two of them have traded places.",
            "First the recorded output, then with the hook, then without it.",
        ),
    ),
    (
        "Write a function hook(module, inputs, output) inside your own; it can append "
        "to a list of yours.",
        "Find the module with model.get_submodule(name), give it the hook with "
        "register_forward_hook, and keep the handle that this returns.",
        "Run the model; handle.remove(); run the model once more.",
    ),
)


EXERCISES = (HOOK,)
