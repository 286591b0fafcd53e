"""Attention weights in, self-contained HTML out: no network, no server, no torch.

from attention_views import explorer_html
"""

from attention_views.explorer import explorer_html
from attention_views.frames import frames_html, kind_of
from attention_views.living import living_page
from attention_views.page import page_script, short, view_html, weight_codes
from attention_views.training import training_page

__all__ = ["explorer_html", "frames_html", "kind_of", "living_page", "page_script"]
__all__ += ["short", "training_page", "view_html", "weight_codes"]
