"""Write ``docs/rules`` from the rules; with ``--check`` only say whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from ipy_autogradwatch.rules import all_rules, rule_page

FOLDER = Path(__file__).parent / "rules"


def pages() -> dict[str, str]:
    """Return the text of each page by file name."""
    index = ["# Rules", "", "| code | name | severity | |", "|---|---|---|---|"]
    for rule in all_rules():
        link = f"[{rule.code}]({rule.code}.md)"
        index.append(f"| {link} | {rule.name} | {rule.severity} | {rule.summary} |")
    written = {f"{rule.code}.md": rule_page(rule) for rule in all_rules()}
    return {"README.md": "\n".join(index) + "\n", **written}


def main() -> int:
    """Write the pages, or compare them."""
    wanted = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    if "--check" in sys.argv:
        if wanted != there:
            print("docs/rules is not up to date: make docs")
        return int(wanted != there)
    FOLDER.mkdir(exist_ok=True)
    for name in there.keys() - wanted.keys():
        (FOLDER / name).unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
