"""Name the first broken cell of each notebook in a JUnit report of pytest.

Knows such a report. Knows nothing of how it was made.

    python tools/first_broken.py REPORT.xml
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def first_broken(report):
    """Lines "notebook: cell: what was said" of a report; empty if nothing broke."""
    first = {}
    for case in ElementTree.parse(report).iter("testcase"):
        notebook = case.get("classname")
        broken = [part for part in case if part.tag in ("failure", "error")]
        if broken and notebook not in first:
            message = broken[0].get("message") or broken[0].text or "no message"
            first[notebook] = f"{case.get('name')}: {' '.join(message.split())[:200]}"
    return [f"{notebook}: {what}" for notebook, what in first.items()]


def main():
    report = Path(sys.argv[1])
    if not report.exists():
        sys.exit(f"{report} was not written: the run broke before any notebook")
    if lines := first_broken(report):
        sys.exit("The first cell that broke in each notebook:\n" + "\n".join(lines))
    print("No notebook broke.")


if __name__ == "__main__":
    main()
