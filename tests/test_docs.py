"""The documentation: every setting is in the reference, with its meaning, and the site builds without a warning."""

import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from omegaconf import DictConfig

import fedpan_exp
from conftest import with_slow_groups
from fedpan_exp.config import compose_config
from fedpan_exp.system.paths import CONF

ROOT = Path(__file__).parents[1]
GROUPS = ("dataset", "model", "pan", "algorithm", "fl_scene", "study", "logger")


@pytest.fixture(scope="module")
def reference() -> dict[str, str]:
    """Setting -> meaning, from the generated page."""
    sys.path.insert(0, str(ROOT / "docs"))
    from settings_page import page

    rows = (re.fullmatch(r"\| `([\w.]+)` \| `.*?` \| (.*) \|", line) for line in page().splitlines())
    return {row[1]: row[2].strip() for row in rows if row}


def leaves(cfg: DictConfig, prefix: str = "") -> list[str]:
    names = []
    for key in map(str, cfg):
        node = cfg._get_node(key)
        is_section = isinstance(node, DictConfig) and not node._is_none()
        names += leaves(node, f"{prefix}{key}.") if is_section else [f"{prefix}{key}"]
    return names


@pytest.mark.parametrize("group", with_slow_groups(GROUPS))
def test_every_setting_is_in_the_reference(group, reference):
    for option in sorted(path.stem for path in (CONF / group).glob("*.yaml")):
        missing = [name for name in leaves(compose_config(f"{group}={option}")) if name not in reference]
        missing = [name for name in missing if name != "logger.wandb"]  # null where W&B is not chosen
        assert not missing, f"{group}={option}"


def test_every_setting_has_a_meaning(reference):
    assert [name for name, meaning in reference.items() if not meaning] == []


class Page(HTMLParser):
    """The links of a page, and the anchors that links can point to."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def broken_links(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == "404.html":  # whose links are from the root of a server
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            has_anchor = not parts.fragment or target not in pages or parts.fragment in pages[target].anchors
            if not target.exists() or not has_anchor:
                broken.append(f"{path.name}: {link}")
    return broken


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_without_a_broken_link(site):
    pages = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {"index.html", "settings.html", "api.html", "howto/algorithm.html"} <= pages
    fetched = re.compile(r'src="?(?:https?:)?//|href="?(?:https?:)?//[^"]+\.(?:css|woff2?)"')
    assert [page for page in pages if fetched.search((site / page).read_text(encoding="utf-8"))] == []
    assert broken_links(site) == []


@pytest.mark.slow
def test_search_works_without_a_server(site):
    from browser import browser, console_messages, wait_until

    with browser() as driver:
        driver.get((site / "howto/data.html").as_uri())
        driver.execute_script("document.querySelector('label[for=__search]').click()")
        box = driver.find_element("css selector", "[name=query]")
        wait_until(box.is_displayed)
        driver.execute_script("arguments[0].focus()", box)
        box.send_keys("scaffold")
        wait_until(lambda: driver.find_elements("css selector", ".md-search-result__item"), seconds=30)
        assert console_messages(driver) == []


@pytest.mark.parametrize("study", sorted(path.stem for path in CONF.glob("study/*.yaml")))
def test_every_study_is_shown_with_its_picture(study):
    text = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"## {study}\n")
    section = section.partition("\n## ")[0]
    assert "python -m fedpan_exp" in section
    pictures = re.findall(r"!\[.+\]\((\S+\.png)\)", section)
    assert pictures
    assert [name for name in pictures if not (ROOT / "docs" / name).exists()] == []


def test_every_file_names_the_same_release():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    released = re.findall(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert (project, citation["version"]) == (fedpan_exp.__version__, fedpan_exp.__version__)
    assert released[0] == (project, str(citation["date-released"]))
