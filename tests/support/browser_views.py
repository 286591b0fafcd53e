"""What each kind of view owes a reader: it draws, follows mouse and keyboard, is named.

Knows the views. Knows nothing of where a page comes from.
"""

import pytest

from tests.support.view_data import GLOWS, changes, decoded, payload

OURS, BERTVIZ = ".course-view", "div[id^=bertviz-]"
CONTROLS = "select, input:not([type=radio]), :checked, summary, button"


def use_all(page):
    """Use every view of a page. How many there were of each kind: {kind: count}."""
    page.locator(f"{OURS}, {BERTVIZ}").first.wait_for(state="attached")
    used = {}
    for view in page.locator(OURS).all():
        view.locator(".title").wait_for()
        kind = view_kind(view)
        USES[kind](page, view)
        used[kind] = used.get(kind, 0) + 1
    for view in page.locator(BERTVIZ).all():
        kind = "bertviz " + ("head" if view.locator("#layer").count() else "model")
        use_bertviz(page, view)
        used[kind] = used.get(kind, 0) + 1
    return used


def nudge(page, control):
    """Change a list, a slider or a choice by one key."""
    control.focus()
    first = control.evaluate(
        "one => one.value === (one.options ? one.options[0].value : one.min)"
    )
    is_list = control.evaluate("one => one.tagName === 'SELECT'")
    page.keyboard.press("ArrowDown" if first == is_list else "ArrowUp")


def view_kind(view):
    data = data_of(view)
    if "piece" in data:
        return data["piece"]
    if "captions" in data:
        return "frames"
    return "comparison" if "names" in data else "explorer"


def data_of(view):
    """The numbers of the view, from the script that drew it."""
    return payload(
        view.evaluate(
            """(root) => [...document.scripts].map((one) => one.textContent).findLast(
                (text) => text.includes(`push(["${root.classList[2]}"`))"""
        )
    )


def use_explorer(page, view):
    data = data_of(view)
    now, layer, head = data["at"]
    part = data["parts"][now]
    maps = changes(part) if "names" in data else decoded(part)[0] - 1
    shown, chosen = maps[layer, head].abs() / 240, view.locator(".chosen")
    chips, status = view.locator(".chips").first.locator("button"), status_of(view)
    chips.last.hover()
    assert status().startswith("“") and glowing(view) == int((shown[-1] >= GLOWS).sum())
    view.locator(".title").hover()
    chips.first.focus()
    page.keyboard.press("ArrowRight")
    row = min(1, len(shown) - 1)
    assert glowing(view) == int((shown[row] >= GLOWS).sum()) and chosen.count() == 1
    page.keyboard.press("Escape")
    assert chosen.count() == glowing(view) == 0
    small = view.locator(".wall button")
    assert small.count() == len(maps) * len(maps[0])
    small.first.focus()
    assert f"Layer {part['layers'][0]}, head 0" in status()
    page.keyboard.press("Enter")
    assert small.first.get_attribute("aria-pressed") == "true"
    if "names" in data:
        before = view.locator(".scale").inner_text()
        nudge(page, view.locator(".choice :checked").nth(int(len(data["parts"]) > 1)))
        assert view.locator(".scale").inner_text() != before


def glowing(view):
    return view.locator(".chip small:not(:empty)").count()


def status_of(view):
    return lambda: plain(view.get_by_role("status").inner_text())


def plain(text):
    return text.replace("\u2068", "").replace("\u2069", "")


def use_piece(page, view):
    status = view.get_by_role("status")
    for slider in view.locator("input").all():
        before = status.inner_text(), view.inner_html()
        nudge(page, slider)
        assert (status.inner_text(), view.inner_html()) != before
        page.keyboard.press("Home")
    assert view.locator("td i, path").count() > 0


def use_bill(page, view):
    status = view.get_by_role("status")
    for option in ("405B", "its part", "computed again"):
        before = status.inner_text()
        view.get_by_label(option, exact=True).check()
        assert status.inner_text() != before, option
    assert status.inner_text().endswith("it fits.")
    for slider in view.locator("input[type=range]").all():
        before = status.inner_text(), view.inner_html()
        nudge(page, slider)
        assert (status.inner_text(), view.inner_html()) != before


def use_frames(page, view):
    captions, shown = data_of(view)["captions"], view.get_by_role("status")
    slider, play = view.locator("input"), view.get_by_role("button")
    seen = [view.locator(".stage").screenshot()]
    for key, place in (("ArrowRight", 1), ("End", -1), ("Home", 0)):
        slider.press(key)
        assert shown.inner_text() == captions[place]
        page.wait_for_timeout(600)  # it glides there
        seen.append(view.locator(".stage").screenshot())
    first, second, last, again = seen
    assert first != second and last != again  # second and last are alike in 05
    slider.press("End")
    play.click()
    assert shown.inner_text() == captions[0], "from the beginning again"
    view.get_by_text(captions[1], exact=True).wait_for()
    play.click()
    assert play.get_attribute("aria-label") == "play"
    slider.press("Home")


def use_bertviz(page, view):
    lines = view.locator("line")
    assert lines.count() > 0
    before = view.inner_html()
    for select in view.locator("select").all():
        if select.locator("option").count() > 1:
            nudge(page, select)
            assert view.inner_html() != before
            before = view.inner_html()
    before = lines.count(), view.inner_html()
    words = view.locator("#left text")
    if words.count():
        words.last.hover()
        assert view.inner_html() != before[1]
    else:
        view.locator("rect[style*=pointer], g > rect:last-child").first.click()
        assert lines.count() > before[0]


USES = dict.fromkeys(("explorer", "comparison"), use_explorer)
USES["frames"] = use_frames
USES |= dict.fromkeys(("sampling", "rotation", "query"), use_piece)
USES["bill"] = use_bill


def walk_by_tab(page, view):
    """Tab through the controls of a view: each is a stop, the next of a row by arrows.

    Returns how many there are. Inside a row of buttons one is the stop.
    """
    stops = view.evaluate(
        """(root, controls) => {
            const all = [...root.querySelectorAll(controls)].filter(
                (one) => one.tabIndex >= 0);
            all.forEach((one, i) => one.dataset.stop = i);
            return all.length; }""",
        CONTROLS,
    )
    view.locator("[data-stop='0']").focus()
    for key in ("Tab", "Shift+Tab"):  # by a key, so that the focus is to be seen
        page.keyboard.press(key)
    visited = []
    for _ in range(stops):
        visited.append(page.evaluate("document.activeElement.dataset.stop"))
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert page.evaluate(outline) != "none", "the focus can be seen"
        page.keyboard.press("Tab")
    assert visited == [str(i) for i in range(stops)]
    return stops


# Without a preload axe does not fetch style sheets, which a page in a folder may not.
AXE = {"resultTypes": ["violations"], "preload": False}


def serious(page, places=f"{OURS}, {BERTVIZ}"):
    """What axe calls serious or critical inside the views: "rule: where", sorted."""
    return found(page, places, ("serious", "critical"))


def found(page, places, impacts=("minor", "moderate", "serious", "critical")):
    """What axe finds in these places: "rule: where", sorted."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    response = axe.Axe().run(page, places, AXE).response
    return sorted(
        f"{one['id']}: {node['target']} {node['html'][:120]}"
        for one in response["violations"]
        if one["impact"] in impacts
        for node in one["nodes"]
    )
