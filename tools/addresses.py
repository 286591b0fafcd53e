"""Colab, Binder and repository links, all made from one address: `make links`.

It stands in pyproject.toml, `[tool.course] address`. A file that shows links has a line
with `links: begin` and one with `links: end`; what stands between them is written here,
and is nothing while the address is empty.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLAB, BINDER = "https://colab.research.google.com", "https://mybinder.org"


def links(address: str, names: list[str]) -> dict[str, str]:
    """{file: what stands between its two lines}, for notebooks of these names.

    Raises ValueError unless the address is empty or that of a repository on GitHub.
    """
    found = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(\.git)?/?", address)
    if address and not found:
        raise ValueError(
            'address must be like "https://github.com/somebody/course", '
            f"got {address!r}"
        )
    where = found[1] if found else ""
    site = f"https://github.com/{where}"
    colab = {
        name[:2]: f"{COLAB}/github/{where}/blob/main/notebooks/{name}" for name in names
    }
    lab = f"{BINDER}/v2/gh/{where}/main?urlpath=lab/tree/notebooks/{names[0]}"
    texts = {
        "README.md": f"Or look at it online first: [Binder]({lab}), "
        f"[Colab]({colab[names[0][:2]]}).\n",
        "CITATION.cff": f'repository-code: "{site}"\n',
        "pyproject.toml": f'[project.urls]\nRepository = "{site}"\n'
        f'Issues = "{site}/issues"\n'
        f'Changelog = "{site}/blob/main/CHANGELOG.md"\n',
        "notebooks/book/_config.yml": f"  binderhub_url: {BINDER}\n"
        f"  colab_url: {COLAB}\nrepository:\n  url: {site}\n  branch: main\n",
        "notebooks/book/running.md": "\nOpen in Colab: "
        + " · ".join(f"[{number}]({link})" for number, link in colab.items())
        + f". Clone from `{site}`.\n\n",
    }
    return texts if where else dict.fromkeys(texts, "")


def write_links(root: Path = ROOT) -> list[str]:
    """Write them into the files that have a place for them; return what was done."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    names = sorted(path.name for path in root.glob("notebooks/*.ipynb"))
    done = []
    for name, text in links(project["tool"]["course"]["address"], names).items():
        path = root / name
        old = path.read_bytes().decode() if path.exists() else ""
        place = r"(?s)(links: begin[^\n]*\n).*?([^\n]*links: end)"
        new, count = re.subn(place, rf"\g<1>{text}\g<2>", old)
        if new != old:
            path.write_bytes(new.encode())
        done.append(f"{name}: {'ok' if count == 1 else f'{count} places for links'}")
    return done


if __name__ == "__main__":
    try:
        print("\n".join(write_links()))
    except ValueError as problem:
        raise SystemExit(str(problem)) from None
