"""Views of the course: a still that is stored, and a page to explore in its place."""

from course_utils.views.asking import ask
from course_utils.views.attention import (
    show_attention,
    show_bertviz,
    show_comparison,
    show_map,
)
from course_utils.views.bill import show_bill
from course_utils.views.frames import show_frames
from course_utils.views.query import show_query
from course_utils.views.rotation import show_rotation
from course_utils.views.sampling import show_sampling

__all__ = [
    "ask",
    "show_attention",
    "show_bertviz",
    "show_bill",
    "show_comparison",
    "show_frames",
    "show_map",
    "show_query",
    "show_rotation",
    "show_sampling",
]
