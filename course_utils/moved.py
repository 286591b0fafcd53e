"""Where modules of before version 1.0 are now: working copies import the old paths."""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader

PACKAGE = "course_utils."
SAME_NAME = ("diagnostics", "intervening", "metrics", "recording")
NOW = {f"looking.{name}": name for name in SAME_NAME} | {
    "looking": "",
    "looking.frames": "views.frames",
    "looking.maps": "views.maps",
    "looking.sharing": "page",
    "looking.token_texts": "views.tokens",
    "looking.views": "views",
    "shapes": "checks",
    "training.records": "records",
}


class _Moved(MetaPathFinder, Loader):
    def find_spec(self, name, path=None, target=None):
        if name.startswith(PACKAGE) and name.removeprefix(PACKAGE) in NOW:
            return spec_from_loader(name, self)
        return None

    def exec_module(self, module):
        old = module.__name__
        new = (PACKAGE + NOW[old.removeprefix(PACKAGE)]).rstrip(".")
        if old != PACKAGE + "looking":
            warnings.warn(f"{old} is now {new}", FutureWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)


def watch() -> None:
    """From now on an old path leads to the new module, and says so once."""
    sys.meta_path.insert(0, _Moved())
