"""One address makes all links, and without one there are none."""

import re
import shutil
import tomllib

import pytest
import yaml

from tools.addresses import write_links
from tools.notebook_rules import ROOT

REAL = ("pyproject.toml", "CITATION.cff", "README.md")
REAL += ("notebooks/book/_config.yml", "notebooks/book/running.md")


@pytest.fixture
def house(tmp_path):
    """The files that show links, and two notebooks."""
    (tmp_path / "notebooks" / "book").mkdir(parents=True)
    for name in REAL:
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("00_start_here", "01_attention"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    return tmp_path


def say(house, address):
    path = house / "pyproject.toml"
    text = re.sub(r'(?m)^address = ".*?"', f'address = "{address}"', path.read_text())
    path.write_text(text)
    return write_links(house)


def contents(house):
    return {path: path.read_bytes() for path in house.rglob("*") if path.is_file()}


def test_an_address_is_linked_everywhere_and_an_empty_one_nowhere(house):
    say(house, "")
    before = contents(house)
    assert b"mybinder" not in b"".join(before.values())
    done = say(house, "https://github.com/nobody/invented")
    assert all(line.endswith(": ok") for line in done), done
    once = contents(house)
    assert all(b"nobody/invented" in once[house / name] for name in REAL)
    start = "blob/main/notebooks/00_start_here.ipynb"
    readme = (house / "README.md").read_text()
    assert f"colab.research.google.com/github/nobody/invented/{start}" in readme
    assert "mybinder.org/v2/gh/nobody/invented/main?urlpath=lab/tree/" in readme
    assert "01_attention.ipynb" in (house / "notebooks/book/running.md").read_text()
    urls = tomllib.loads((house / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Repository"] == "https://github.com/nobody/invented"
    book = yaml.safe_load((house / "notebooks/book/_config.yml").read_text())
    assert book["repository"]["url"] == urls["Repository"]
    assert book["launch_buttons"]["colab_url"] == "https://colab.research.google.com"
    assert yaml.safe_load((house / "CITATION.cff").read_text())["repository-code"]
    say(house, "https://github.com/nobody/invented")
    assert contents(house) == once, "a second time changes nothing"
    say(house, "")
    assert contents(house) == before


def test_a_wrong_address_or_a_file_without_a_place_is_named(house):
    with pytest.raises(ValueError, match="address must be like"):
        say(house, "git@github.com:nobody/invented")
    (house / "README.md").write_text("# Title\n")
    assert "README.md: 0 places for links" in say(house, "")
