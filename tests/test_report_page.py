"""The report's page in a real browser: it draws itself, reacts to clicks and keys, and makes no requests."""

from pathlib import Path

import pytest
from browser import browser, console_messages, requests
from run_folders import make_listing, make_run
from run_sweeps import make_sweep

from fedpan_exp.report.build import Report

HTML = "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    runs = folder / "runs"
    make_sweep(runs, "alpha")
    folders = [
        make_run(runs, dataset="cifar10", algorithm=algorithm, pan=pan, seed=seed, fl_scene__H=30)
        for algorithm in ("fedavg", "scaffold", "<b>moon")
        for pan in (("off", 0.0), ("mul", 0.1))
        for seed in (0, 1)
    ]
    make_run(runs, status="diverged", rounds=2, pan=("mul", 0.75), **{f"training__{HTML}": HTML})
    make_listing(runs, "compare_noniid", folders)
    Report([runs], folder / "report").build()
    return folder / "report" / "index.html"


@pytest.fixture(scope="module")
def driver(page):
    with browser() as driver:
        driver.get(page.as_uri())
        yield driver


def click(driver, selector: str, number: int = 0) -> None:
    element = driver.find_elements("css selector", selector)[number]
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def texts(driver, selector: str) -> list[str]:
    return [element.text for element in driver.find_elements("css selector", selector)]


def pixels(driver) -> str:
    """The canvas of the curves, to see whether it has changed."""
    return driver.execute_script("return document.querySelector('#curves canvas').toDataURL()")


def test_it_opens_without_errors_and_requests(driver, page):
    assert driver.title == "fedpan_exp report"
    assert console_messages(driver) == []
    urls = [url for url in requests(driver) if not url.startswith(("data:", "chrome"))]
    assert urls == [page.as_uri()]
    assert "37" in texts(driver, ".tile")[0]
    assert len(driver.find_elements("css selector", ".paper-figure img")) == 2
    assert driver.execute_script("return [...document.images].every((image) => image.naturalWidth > 0)")


def test_html_in_names_is_shown_as_text(driver):
    assert driver.find_elements("css selector", "main b b, #runs b, img[src=x]") == []
    assert "<b>moon" in texts(driver, "#filters [data-facet=algorithm]")
    names = texts(driver, "#heat option")
    assert f"training.{HTML}" in names
    assert driver.title == "fedpan_exp report"


def test_filters_by_click(driver):
    rows = len(driver.find_elements("css selector", "#runs tbody tr"))
    lines, before = len(texts(driver, ".legend button")), pixels(driver)
    assert rows == 37
    click(driver, "#filters [data-value=scaffold]")
    assert len(driver.find_elements("css selector", "#runs tbody tr")) == 4
    assert 0 < len(texts(driver, ".legend button")) < lines
    assert pixels(driver) != before
    assert "4 of 37 runs" in texts(driver, "#filters summary")[0]
    click(driver, "#filters [data-value=off]")
    assert len(driver.find_elements("css selector", "#runs tbody tr")) == 2
    click(driver, "#clear")
    assert len(driver.find_elements("css selector", "#runs tbody tr")) == rows


def test_curves_by_click_mouse_and_keys(driver):
    from selenium.webdriver import ActionChains, Keys

    before = pixels(driver)
    click(driver, ".legend button")
    assert pixels(driver) != before
    click(driver, ".legend button")
    assert pixels(driver) == before
    axis = driver.find_elements("css selector", "#curves select")[1]
    for choice in ("bytes", "seconds", "samples", "round"):
        shown = pixels(driver)
        axis.find_element("css selector", f"option[value={choice}]").click()
        assert pixels(driver) != shown
    canvas = driver.find_element("css selector", "#curves canvas")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas)
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert "round 1" in texts(driver, "#curves .tip")[0]
    canvas.send_keys(Keys.ARROW_RIGHT)
    assert "round 2" in texts(driver, "#curves .tip")[0]
    point = driver.execute_script(
        "const b = frame(arguments[0]); const [x, y] = visible()[0].points[3]; return [b.x(x), b.y(y)]", canvas
    )
    size = canvas.size
    ActionChains(driver).move_to_element_with_offset(
        canvas, point[0] - size["width"] / 2, point[1] - size["height"] / 2
    ).perform()
    assert "round 4" in texts(driver, "#curves .tip")[0]


def test_heat_map_pairs_partition_and_sorting(driver):
    first = texts(driver, "#heat td")
    assert any("runs" in cell for cell in first)
    driver.find_element("css selector", "#heat option[value=gain]").click()
    gains = texts(driver, "#heat td")
    assert any(cell.startswith("+") and "pairs" in cell for cell in gains)
    assert len(texts(driver, "#paired tbody tr")) > 5
    assert driver.find_elements("css selector", "#partition circle")
    click(driver, "#runs [data-key=last5] button")
    column = [text for text in texts(driver, "#runs tbody td:nth-child(7)") if text != "–"]
    assert column == sorted(column, key=float)


def test_buttons_by_keyboard(driver):
    from selenium.webdriver import Keys

    button = driver.find_element("css selector", "#theme")
    before = driver.execute_script("return document.documentElement.dataset.theme")
    button.send_keys(Keys.ENTER)
    assert driver.execute_script("return document.documentElement.dataset.theme") != before
    button.send_keys(Keys.SPACE)
    assert driver.execute_script("return document.documentElement.dataset.theme") == before
    assert console_messages(driver) == []


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, True)])
def test_it_fits_a_phone_and_follows_the_systems_theme(page, width, dark):
    with browser(width, 844, dark) as driver:
        driver.get(page.as_uri())
        assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"
        assert driver.execute_script(
            "const page = document.documentElement; return page.scrollWidth <= page.clientWidth"
        )
        assert console_messages(driver) == []
