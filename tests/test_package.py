"""What is built can be installed, and works from there.

The wheel holds the package and nothing else; the sdist holds what is needed to test it and
to read about it; and the wheel, installed somewhere else, watches a cell.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from support import ROOT

pytestmark = pytest.mark.slow

PACKAGE = ROOT / "ipy_autogradwatch"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both, into a folder of their own."""
    out = tmp_path_factory.mktemp("dist")
    # The sdist first, and the wheel from it, as an installer would.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built):
    """Return the path of the wheel."""
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def sdist(built):
    """Return the path of the sdist."""
    (path,) = built.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def metadata(wheel):
    """Return the wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_string(archive.read(name).decode())


def sources():
    """Return the files of the package in the checkout."""
    files = (path for path in PACKAGE.rglob("*") if path.is_file())
    return {str(p.relative_to(ROOT)) for p in files if "__pycache__" not in p.parts}


def test_the_wheel_has_every_module_the_marker_for_types_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "ipy_autogradwatch/py.typed" in names
    assert {name for name in names if ".dist-info/" not in name} == sources()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_a_wheel_that_lacks_a_module_would_be_noticed(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist()) - {"ipy_autogradwatch/fence.py"}
    assert {name for name in names if ".dist-info/" not in name} != sources()


@pytest.mark.parametrize(
    "wanted",
    [
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "constraints.txt",
        "pyproject.toml",
        "demo.ipynb",
        "docs/how-it-works.md",
        "docs/rules/README.md",
        "docs/run_demo.py",
        "docs/write_rules.py",
        "tests/conftest.py",
        "tests/support.py",
        "tests/test_package.py",
        "ipy_autogradwatch/py.typed",
    ],
)
def test_the_sdist_has_what_is_needed_to_test_and_to_read(sdist, wanted):
    assert wanted in unpacked_names(sdist)


def test_the_sdist_has_every_file_that_the_readme_links_to(sdist):
    links = re.findall(r"\]\(([^():#\s]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(links) > 10
    assert set(links) <= unpacked_names(sdist)


def test_the_sdist_has_every_source_and_no_litter(sdist):
    names = unpacked_names(sdist)
    assert sources() <= names
    litter = ("__pycache__", ".pyc", ".venv", "build/", "dist/", ".ipynb_checkpoints", "_cache")
    assert [name for name in names if any(word in name for word in litter)] == []


def unpacked_names(sdist):
    """Return the files of *sdist*, below its one folder."""
    with tarfile.open(sdist) as archive:
        return {member.name.partition("/")[2] for member in archive if member.isfile()}


def test_dependencies_have_lower_bounds_only(metadata):
    requirements = metadata.get_all("Requires-Dist")
    assert len(requirements) == 4
    for requirement in requirements:
        assert bounds(requirement) == [">="], requirement
    assert metadata["Requires-Python"] == ">=3.10"


@pytest.mark.parametrize("pinned", ["torch==2.4", "torch<3", "torch>=2,<3", "torch", "torch~=2.4"])
def test_a_bound_of_another_kind_would_be_noticed(pinned):
    assert bounds(pinned) != [">="]


def bounds(requirement):
    """Return the comparisons of a requirement, as ``>=``."""
    from packaging.requirements import Requirement

    return sorted(each.operator for each in Requirement(requirement).specifier)


def test_the_metadata_says_who_it_is_and_shows_the_readme(metadata):
    import ipy_autogradwatch as aw

    assert metadata["Name"] == "ipy-autogradwatch"
    assert metadata["Version"] == aw.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Summary"]
    assert metadata.get_payload().startswith("# ipy_autogradwatch")


WATCH_A_CELL = """
import sys
import ipy_autogradwatch as aw
from IPython.core.interactiveshell import InteractiveShell

assert aw.__file__.startswith(sys.argv[1]), aw.__file__
assert "torch" not in sys.modules
shell = InteractiveShell()
shell.run_cell("%load_ext ipy_autogradwatch", store_history=True).raise_error()
assert "torch" not in sys.modules
shell.run_cell("import torch\\nw = torch.ones(2, requires_grad=True)", store_history=True)
shell.run_cell("w.data.mul_(2)", store_history=True).raise_error()
report = aw.last_report()
assert report.failures == (), report.failures
print(*(f"{finding.code} at line {finding.line}" for finding in report.findings))
shell.run_line_magic("unload_ext", "ipy_autogradwatch")
"""


def test_the_wheel_installed_elsewhere_watches_a_cell(wheel, tmp_path):
    target = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    install += ["--disable-pip-version-check", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, text=True)
    environment = {**os.environ, "PYTHONPATH": str(target), "IPYTHONDIR": str(tmp_path / "ipython")}
    done = subprocess.run(
        [sys.executable, "-c", WATCH_A_CELL, str(target)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "written through `.data`" in done.stdout
    assert done.stdout.rstrip().endswith("AGW102 at line 1")
