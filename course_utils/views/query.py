"""Show how a query shares its weight among keys of the plane."""

from collections.abc import Mapping, Sequence

from attention_views import short
from course_utils.checks import check_type
from course_utils.views.display import show_piece
from course_utils.views.tokens import token_texts
from lesson_plots.plots import arrows


def show_query(keys: Mapping[str, Sequence], *, title: str) -> None:
    """Drag a query among keys {name: (x, y)} of the plane and watch the weights."""
    check_type(Mapping, keys=keys)
    names = token_texts(list(keys), "keys")
    if wrong := [key for key in keys.values() if len(key) != 2]:
        raise ValueError(f"keys must be points (x, y) of a plane, got {wrong[0]}")
    points = [[float(x), float(y)] for x, y in keys.values()]
    labels = [short(name) for name in names]
    alt = f"{title} The keys are {', '.join(labels)}; the query points up to the right."
    show_piece("query", {"names": names, "keys": points}, title, alt)
    roles = {label: "key" for label in labels} | {"query": "query"}
    ends = dict(zip(labels, points, strict=True)) | {"query": (0.766, 0.643)}  # at 40°
    arrows(ends, roles=roles, alt=alt)
