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
    name="inside.hook",
    statement="Gives three tensors for a model, a module's name, a change and x: what "
    "the module returned, what the model gives for x when change(…) goes on in its "
    "place, and what it gives afterwards, when the hook is gone.",
    takes=("model", "name", "change", "x"),
    reference=hooked,
    cases=_cases,
    mistakes=(
        Mistake(
            name="the hook still acts in the last pass",
            function=_never_removed,
            hint="Your third tensor is still the changed one: the hook is still in "
            "place.",
            more="register_forward_hook returns a handle. Keep it, and call its "
            "remove() before you run the model again.",
        ),
        Mistake(
            name="all hooks of the module are removed",
            function=_removes_all,
            hint="Your hook is gone, and so is one that the module already had. The "
            "model is not as it was.",
            more="register_forward_hook returns a handle. Its remove() takes away this "
            "one hook and no other.",
        ),
        Mistake(
            name="the hook returns nothing",
            function=_returns_nothing,
            hint="You recorded, but the model went on with the old output.",
            more="What a hook returns takes the output's place. None changes nothing.",
        ),
        Mistake(
            name="what is recorded is already changed",
            function=_records_the_change,
            hint="The first tensor is what is passed on, not what the module itself "
            "returned.",
            more="Keep the output before you call change.",
        ),
        Mistake(
            name="the input is recorded",
            function=_records_the_input,
            hint="The first tensor is what the module was given. What did it return?",
            more="A hook gets (module, inputs, output), in this order.",
        ),
        Mistake(
            name="the input is changed, by a pre-hook",
            function=_changes_the_input,
            hint="A pre-hook acts before the module runs, so you changed what it was "
            "given.",
            more="register_forward_hook acts after it.",
        ),
        Mistake(
            name="the change is made of the input",
            function=_change_of_the_input,
            hint="After the module, a changed version of what came into it is passed "
            "on.",
            more="A hook gets (module, inputs, output). Which of them goes into "
            "change?",
        ),
        Mistake(
            name="the hook sits on the whole model",
            function=_full_model,
            hint="You recorded and changed what the model returns, not the named "
            "module.",
            more="model.get_submodule(name) finds a module by its name.",
        ),
        Mistake(
            name="the module runs alone, on x",
            function=_outside,
            hint="Inside the model, this module is not given x, but what the part "
            "before it returned.",
            more="Record during the actual forward pass: keep the output in the hook.",
        ),
        Mistake(
            name="the change acts twice",
            function=_changes_twice,
            hint="The output went through change two times.",
            more="One hook, and one call of change in it.",
        ),
        Mistake(
            name="the last two are swapped",
            function=_two_places,
            hint="The right three tensors, but two of them have traded places.",
            more="First the recorded output, then with the hook, then without it.",
        ),
    ),
    hint=(
        "Write a function hook(module, inputs, output) inside your own; it can append "
        "to a list of yours.",
        "Find the module with model.get_submodule(name), give it the hook with "
        "register_forward_hook, and keep the handle that this returns.",
        "Run the model; handle.remove(); run the model once more.",
    ),
)


EXERCISES = (HOOK,)
