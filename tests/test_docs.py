"""The docs are true today: what they show is run, and what they name is there.

The Python blocks of a page are cells of one watched shell, in order. What a reader does not
see says what must come of the block below it:

    <!-- finds: AGW102 -->        it gets exactly these findings; without it, none
    <!-- raises: RuntimeError --> it raises this

A ``text`` block is what the Python block above it shows; ``--update-golden``
writes it. The pages in ``docs/rules`` are written from the rules, whose examples
``test_rules.py`` runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import re
from dataclasses import dataclass, field

import pytest
from conftest import new_shell
from support import ROOT

import ipy_autogradwatch as aw
from ipy_autogradwatch import model, notebook
from ipy_autogradwatch.notebook.completion import COMMANDS
from ipy_autogradwatch.notebook.config import REPORTS, AutogradWatch
from ipy_autogradwatch.rules import all_rules

PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
LINKED_PAGES = [*PAGES, *ROOT.glob("docs/rules/*.md")]
_MARK = re.compile(r"<!-- (finds|raises): (.*?) -->")
_LINK = re.compile(r"\]\(([^()\s]+)\)")


@dataclass
class Block:
    """A fenced block of a page. Lines count from 0, the fence itself included."""

    language: str
    lines: list[str]
    first: int
    marks: dict[str, str] = field(default_factory=dict)
    output: Block | None = None

    @property
    def text(self):
        return "\n".join(self.lines)


def blocks_of(markdown):
    """Return the fenced blocks of a page."""
    blocks, marks, block = [], {}, None
    after_python = None
    for number, line in enumerate(markdown.splitlines()):
        if block is not None:
            if line.strip() == "```":
                blocks.append(block)
                if block.language == "python":
                    after_python = block
                block = None
            else:
                block.lines.append(line)
        elif line.startswith("```"):
            block = Block(line[3:].strip(), [], number, marks)
            marks = {}
            if block.language == "text":
                assert after_python is not None, "nothing above shows this"
                after_python.output, after_python = block, None
        else:
            marks |= dict(_MARK.findall(line))
    assert block is None, "a block does not end"
    return blocks


@pytest.fixture
def page_shell(shell, watcher, monkeypatch, tmp_path):
    """A watched shell in an empty folder, whose reports go where `print` goes.

    Of a traceback it shows the last line: the others name files of this machine.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    shell.display_pub.publish = lambda data, metadata=None, **_: print(data["text/plain"])
    shell.InteractiveTB.set_mode(mode="Minimal")
    return shell


def run_block(shell, block):
    """Run *block* as a cell; return what it showed, and what is wrong with that."""
    shown, wrong = io.StringIO(), []
    with contextlib.redirect_stdout(shown):
        result = shell.run_cell(block.text, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    raised = "" if error is None else type(error).__name__
    if raised != block.marks.get("raises", ""):
        wrong.append(f"raised {raised or 'nothing'}: {error}")
    report = aw.last_report()
    found = " ".join(f.code for f in report.findings) if report is not None else ""
    if found != block.marks.get("finds", ""):
        wrong.append(f"found {found or 'nothing'}")
    return re.sub(r"^Out\[\d+\]: ?\n?", "", shown.getvalue(), flags=re.M).strip("\n"), wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_runs_and_shows_what_the_page_says(page, page_shell, request):
    text = page.read_text(encoding="utf-8")
    complaints, outputs = [], []
    for block in blocks_of(text):
        if block.language != "python":
            continue
        shown, wrong = run_block(page_shell, block)
        complaints += [f"line {block.first + 2}: {line}" for line in wrong]
        if block.output is not None and shown != block.output.text:
            outputs.append((block.output, shown))
    if request.config.getoption("--update-golden"):
        page.write_text(with_outputs(text, outputs), encoding="utf-8")
        outputs = []
    assert complaints == []
    for block, shown in outputs:
        assert shown == block.text, f"{page.name}, line {block.first + 2}"


def with_outputs(markdown, outputs):
    """Return *markdown* with other text in some of its blocks."""
    lines = markdown.splitlines()
    for block, shown in reversed(outputs):
        lines[block.first + 1 : block.first + 1 + len(block.lines)] = shown.splitlines()
    return "\n".join(lines) + "\n"


def test_blocks_their_marks_and_their_outputs_are_read():
    page = (
        "<!-- raises: KeyError -->\n```python\n{}[1]\n```\nshows\n```text\nno\n```\n```\nx\n```\n"
    )
    python, text, other = blocks_of(page)
    assert (python.text, python.marks, python.first) == ("{}[1]", {"raises": "KeyError"}, 1)
    assert python.output is text
    assert (other.language, other.marks) == ("", {})
    assert with_outputs(page, [(text, "a\nb")]) == page.replace("no", "a\nb")


@pytest.mark.parametrize(
    ("markdown", "complaint"),
    [
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("<!-- raises: KeyError -->\n```python\n1\n```", "raised nothing"),
        ("```python\nimport torch\ntorch.ones(1).data\n```", "found AGW101"),
        ("<!-- finds: AGW101 -->\n```python\n1\n```", "found nothing"),
    ],
)
def test_a_block_that_does_otherwise_than_it_says_is_noticed(page_shell, markdown, complaint):
    (block,) = blocks_of(markdown)
    _, (wrong,) = run_block(page_shell, block)
    assert complaint in wrong


# The pages of the rules.


def write_rules():
    """Return docs/write_rules.py as a module."""
    spec = importlib.util.spec_from_file_location("write_rules", ROOT / "docs/write_rules.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check_rule_pages(monkeypatch):
    """``docs/write_rules.py --check``, and the folder that it looks into."""
    module = write_rules()
    monkeypatch.setattr("sys.argv", ["write_rules.py", "--check"])
    return module


def test_the_pages_of_the_rules_are_up_to_date(check_rule_pages):
    assert check_rule_pages.main() == 0


@pytest.mark.parametrize("what", ["outlives its rule", "is old", "is missing"])
def test_a_page_that_is_not_up_to_date_is_noticed(check_rule_pages, monkeypatch, tmp_path, what):
    for name, text in check_rule_pages.pages().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(check_rule_pages, "FOLDER", tmp_path)
    assert check_rule_pages.main() == 0
    page = tmp_path / f"{all_rules()[0].code}.md"
    if what == "outlives its rule":
        (tmp_path / "AGW999.md").write_text("# AGW999", encoding="utf-8")
    elif what == "is old":
        page.write_text(page.read_text(encoding="utf-8") + "\nand more", encoding="utf-8")
    else:
        page.unlink()
    assert check_rule_pages.main() == 1


# Links.


def broken_links(page):
    """Yield the links of *page* to files and headings that are not there."""
    for link in _LINK.findall(without_code(page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            yield link


def without_code(markdown):
    """Return *markdown* without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", markdown, flags=re.M | re.S)


def anchors(page):
    """Return what a link may have after its ``#``, as GitHub makes it of a heading."""
    headings = re.findall(r"^#+ (.*)$", without_code(page.read_text(encoding="utf-8")), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED_PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_link_to_nowhere_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n[1](#a-b-c) [2](no.md) [3](page.md#no) [4](https://x.org)\n")
    assert list(broken_links(page)) == ["no.md", "page.md#no"]


def test_every_page_can_be_reached_from_the_readme():
    reached, queue = set(), [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        links = _LINK.findall(without_code(page.read_text(encoding="utf-8")))
        queue += [
            (page.parent / link.partition("#")[0]).resolve()
            for link in links
            if not re.match(r"[a-z]+:|#", link)
        ]
    assert set(LINKED_PAGES) <= reached


# What a page lists is complete.


def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_pages_name_every_rule_magic_setting_and_the_two_commands():
    readme = page("README.md")
    for rule in all_rules():
        assert f"| {rule.code[:4]}xx |" in readme
        assert f"[{rule.code}]({rule.code}.md)" in page("docs/rules/README.md")
        assert f"- Rule {rule.code} {rule.name} ({rule.severity}): " in page("CHANGELOG.md")
    assert "(docs/rules/README.md)" in readme
    for command in COMMANDS:
        assert f"%autogradwatch {command}" in readme
    for setting in AutogradWatch.class_own_traits(config=True):
        assert f"`{setting}`" in readme
    for choice in REPORTS:
        assert f'`"{choice}"`' in readme
    assert "make demo" in readme
    assert "make test" in readme


def test_the_architecture_page_has_every_module_and_no_other():
    package = ROOT / "ipy_autogradwatch"
    there = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if path.name != "__init__.py"
        and not re.match(r"rules/[a-z]", str(path.relative_to(package)))
    }
    listed = set(re.findall(r"^\| `([\w/]+\.py)` \|", page("docs/architecture.md"), flags=re.M))
    assert listed == there


REPORTED = (
    model.CellReport,
    model.Finding,
    model.TensorState,
    model.GradState,
    model.Change,
    model.BackwardCall,
    model.GradientVerdict,
    model.WatcherFailure,
)


@pytest.mark.parametrize("kind", REPORTED, ids=lambda kind: kind.__name__)
def test_the_page_of_the_report_has_every_field(kind):
    section = re.split(r"^## ", page("docs/reports.md"), flags=re.M)
    (text,) = (part for part in section if part.startswith(f"`{kind.__name__}`"))
    listed = [
        name for row in re.findall(r"^\| (`.*?) \|", text, flags=re.M) for name in row.split(", ")
    ]
    assert listed == [f"`{each.name}`" for each in dataclasses.fields(kind)]


def test_the_page_on_adding_a_rule_adds_one_that_works():
    (block,) = (b for b in blocks_of(page("docs/adding-a-rule.md")) if "RULE = Rule(" in b.text)
    scope = {"__name__": "example"}
    exec(block.text, scope)
    rule = scope["RULE"]
    assert rule.code not in aw.RULES
    for example, codes in ((rule.bad, [rule.code]), (rule.good, []), (rule.near_miss, [])):
        assert [f.code for f in found_by((rule, *all_rules()), example)] == codes


def found_by(rules, example):
    """Return the findings of *rules* in *example*, run in a watched shell of its own."""
    shell = new_shell()
    watcher = notebook.load(shell)
    watcher.settings.report = "off"
    diagnose = watcher._diagnose
    found = []

    def listen(record, **options):
        found.extend(finding for rule in rules for finding in rule.check(record))
        return diagnose(record, **options)

    watcher._diagnose = listen
    shell.run_cell(example, store_history=True)
    notebook.unload(shell)
    assert list(watcher.fence.history) == []
    return found


# What is public speaks of the product alone.

_PUBLIC = ["*.md", "*.toml", "*.txt", "*.ipynb", ".*.yaml", "Makefile", ".ci/*", "docs/**/*"]
_PUBLIC += ["tests/**/*", "benchmarks/**/*", "ipy_autogradwatch/**/*"]
# In pieces, so that this file is none of those that are found.
_MACHINE = re.compile(
    r"(?<![\w.~])/(?:tm"
    r"p|wor"
    r"k|roo"
    r"t|hom"
    r"e|User"
    r"s|mn"
    r"t|va"
    r"r)/\w|[A-Z]:\\Use"
    r"rs"
)


def machine_paths(path):
    """Return the lines of *path* that name a folder of somebody's machine."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return []  # A picture.
    return [line.strip()[:100] for line in text.splitlines() if _MACHINE.search(line)]


def test_no_public_file_names_a_path_of_a_machine():
    files = {path for pattern in _PUBLIC for path in ROOT.glob(pattern) if path.is_file()}
    files = {path for path in files if "__pycache__" not in path.parts}
    assert len(files) > 50
    assert {str(p.relative_to(ROOT)): found for p in files if (found := machine_paths(p))} == {}


def test_a_path_of_a_machine_is_noticed(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("see " + "/ho" + "me/anna/torch\nand https://x.org/" + "home/anna\n")
    assert len(machine_paths(page)) == 1


def test_prose_is_one_sentence_a_line():
    two = re.compile(r"[a-z`)][.!?] [A-Z`]")
    for path in PAGES:
        prose = without_code(path.read_text(encoding="utf-8"))
        lines = [line for line in prose.splitlines() if not line.startswith("|")]
        assert [line for line in lines if two.search(line)] == [], path.name
