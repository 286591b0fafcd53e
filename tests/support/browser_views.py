"""What each kind of view owes a reader: it draws, follows mouse and keyboard, is named.

Knows the views. Knows nothing of where a page comes from.
"""

import pytest

from tests.support.view_data import changes, decoded, payload, strong, strong_changes

OURS, BERTVIZ = ".course-view", "div[id^=bertviz-]"
CONTROLS = "select, input, summary, button, [tabindex='0']"


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
    """Change a list or a slider by one key: back, or forward from its first value."""
    control.focus()
    first = control.evaluate("one => one.value === (one.min || one.options[0].value)")
    is_list = control.evaluate("one => one.tagName === 'SELECT'")
    page.keyboard.press("ArrowDown" if first == is_list else "ArrowUp")


def view_kind(view):
    data = data_of(view)
    if "piece" in data:
        return data["piece"]
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
    codes, _ = decoded(data["parts"][now])
    use_maps(page, view, codes, (layer, head), strong)
    nudge(page, view.locator("select").nth(int(len(data["parts"]) > 1)))
    other = min(1, len(codes) - 1)
    assert view.locator("line").count() == strong(codes[other, 0])


def use_comparison(page, view):
    data = data_of(view)
    now, (layer, head), after = data["at"]
    assert after == [layer, head], "the same head of both"
    levels = changes(data["parts"][now])
    more = int((levels[layer, head] >= 10).sum())
    assert view.locator("line.more").count() == more
    use_maps(page, view, levels, (layer, head), strong_changes)
    before = view.locator("line").count(), view.locator("table").inner_html()
    nudge(page, view.locator("select").last)
    if len(levels[0]) > 1:
        now = view.locator("line").count(), view.locator("table").inner_html()
        assert now != before


def use_maps(page, view, maps, at, drawn):
    """Look at the head `at` of maps "layer head query key", then choose the first."""
    lines, status = view.locator("line"), view.get_by_role("status")
    assert lines.count() == drawn(maps[at])
    view.locator(".queries button").last.hover()
    assert lines.count() == int((maps[at][-1] != 0).sum())
    assert "looks at" in status.inner_text()
    view.locator(".title").hover()
    assert lines.count() == drawn(maps[at])
    view.locator(".queries button").first.focus()
    page.keyboard.press("ArrowDown")
    row = min(1, len(maps[at]) - 1)
    assert lines.count() == int((maps[at][row] != 0).sum())
    page.keyboard.press("Escape")
    assert lines.count() == drawn(maps[at])
    small = view.locator(".overview button")
    assert small.count() == len(maps) * len(maps[0])
    small.first.focus()
    page.keyboard.press("Enter")
    assert lines.count() == drawn(maps[0, 0])
    assert small.first.get_attribute("aria-pressed") == "true"


def use_piece(page, view):
    status = view.get_by_role("status")
    for slider in view.locator("input").all():
        before = status.inner_text(), view.inner_html()
        nudge(page, slider)
        assert (status.inner_text(), view.inner_html()) != before
        page.keyboard.press("Home")
    assert view.locator("td i, path").count() > 0


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


USES = {"explorer": use_explorer, "comparison": use_comparison}
USES |= dict.fromkeys(("sampling", "scale", "rotation", "query"), use_piece)


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
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    response = axe.Axe().run(page, places, AXE).response
    return sorted(
        f"{one['id']}: {node['target']} {node['html'][:120]}"
        for one in response["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    )
