"""Files as `make lab` shows them: originals can be read and run, but not changed.

Knows the folders of the course. Knows nothing of what a notebook teaches.
"""

from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from tools.working_copies import kernel_metadata

OURS = ("notebooks/*.ipynb", "work/book/*.md")  # `make lab` writes the latter anew
UNLISTED = ("progress.*",)  # what `check` keeps is not for reading


class ReadOnlyOriginals(AsyncLargeFileManager):
    """Files of which the course's own are read-only.

    An original begins with a line that leads to the reader's own copy.
    """

    def is_writable(self, path: str) -> bool:
        ours = any(fnmatch(path.strip("/"), pattern) for pattern in OURS)
        return not ours and super().is_writable(path)

    def should_list(self, name: str) -> bool:
        unlisted = any(fnmatch(name, pattern) for pattern in UNLISTED)
        return not unlisted and super().should_list(name)

    async def get(self, path: str, *args: Any, **options: Any) -> dict[str, Any]:
        model = await super().get(path, *args, **options)
        if model["type"] == "notebook" and model["content"] and not model["writable"]:
            model["content"]["metadata"] |= kernel_metadata()
            model["content"]["cells"].insert(0, _where_to_work(path))
        return model


def _where_to_work(path: str) -> dict[str, Any]:
    """A cell that leads from an original to the working copy."""
    name = PurePosixPath(path).name
    line = (
        "**This is the original, and what you change in it is not kept.** "
        f"Work in your own copy: [work/{name}](../work/{name})."
    )
    return {"cell_type": "markdown", "id": "original", "metadata": {}, "source": line}
