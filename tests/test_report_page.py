"""The report's page in a real browser: it draws itself, reacts to clicks and keys, and makes no requests."""

import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas
import pytest
from browser import browser, console_messages, requests, wait_until
from run_folders import make_listing, make_run
from run_sweeps import make_sweep

from fedpan_exp.report import load
from fedpan_exp.report.build import Report
from fedpan_exp.report.charts import chart_data
from fedpan_exp.report.frame import key, setting_names

PANS = (("off", 0.0), ("add", 0.05), ("mul", 0.1))
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
        wait_until(lambda: traces(driver))
        yield driver


@pytest.fixture(autouse=True)
def _without_filters(request):
    if "driver" in request.fixturenames:
        click(request.getfixturevalue("driver"), "#clear")


def click(driver, selector: str, number: int = 0) -> None:
    element = driver.find_elements("css selector", selector)[number]
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
    element.click()


def choose(driver, name: str, value: str) -> None:
    click(driver, f"select[name={name}] option[value='{value}']")


def texts(driver, selector: str) -> list[str]:
    return [element.text for element in driver.find_elements("css selector", selector)]


def visible_rows(driver) -> int:
    return len(driver.find_elements("css selector", "#runs tbody tr:not([hidden])"))


def traces(driver, section: str = "curves") -> list[dict]:
    """What Plotly has drawn, without lines that wait in the legend."""
    chart = f"document.querySelector('#{section} .chart').data ?? []"
    return [trace for trace in driver.execute_script(f"return {chart}") if trace.get("visible", True) != "legendonly"]


def lines(driver) -> dict[str, dict]:
    """Shown lines by label, without their bands."""
    return {trace["name"]: trace for trace in traces(driver) if trace["mode"] == "lines+markers"}


def test_it_opens_without_errors_and_requests(driver, page):
    assert driver.title == "fedpan_exp report"
    assert console_messages(driver) == []
    urls = [url for url in requests(driver) if not url.startswith(("data:", "chrome", "blob:"))]
    assert urls == [page.as_uri()]
    assert "37" in texts(driver, ".tile")[0]
    assert len(driver.find_elements("css selector", ".paper-figure img")) == 2
    for i in range(2):
        driver.execute_script(f"document.querySelectorAll('.paper-figure img')[{i}].scrollIntoView()")
        wait_until(lambda i=i: driver.execute_script(f"return document.images[{i}].naturalWidth > 0"))


def test_no_button_sends_data_to_a_server(driver):
    titles = {button.get_attribute("data-title") for button in driver.find_elements("css selector", ".modebar-btn")}
    expected = "Download plot, Zoom, Pan, Box Select, Lasso Select, Zoom in, Zoom out, Autoscale, Reset axes"
    assert titles == set(expected.split(", "))


@pytest.mark.parametrize("section", ["figures", "curves", "heat"])
def test_a_link_leads_to_its_section(driver, section):
    """Also over figures that have not been on the screen before."""
    driver.execute_script("scrollTo(0, 0)")
    click(driver, f"nav a[href='#{section}']")
    title = driver.find_element("css selector", f"#{section} h2")
    time.sleep(0.3)  # whatever moves the page afterwards
    assert 0 <= driver.execute_script("return arguments[0].getBoundingClientRect().top", title) < 500


def test_html_in_names_is_shown_as_text(driver):
    assert driver.find_elements("css selector", "#runs b, img[src=x]") == []
    assert "<b>moon" in texts(driver, "#filters [data-facet=algorithm]")
    assert f"training.{HTML}" in texts(driver, "select[name=row] option")
    click(driver, "#filters [data-value='<b>moon']")
    wait_until(lambda: len(lines(driver)) == 2)
    assert all("&lt;b>moon" in name for name in lines(driver))
    assert any("<b>moon" in text for text in texts(driver, "#curves .legendtext"))
    assert driver.title == "fedpan_exp report"


def test_filters_by_click_are_in_the_url(driver, page):
    assert visible_rows(driver) == 37
    click(driver, "#filters [data-value=scaffold]")
    assert visible_rows(driver) == 4
    assert "4 of 37 runs" in texts(driver, "#filters summary")[0]
    wait_until(lambda: len(lines(driver)) == 2)
    assert all("scaffold" in name for name in lines(driver))
    click(driver, "#filters [data-value=off]")
    assert visible_rows(driver) == 2
    assert parse_qs(urlsplit(driver.current_url).query) == {"algorithm": ["scaffold"], "pan": ["off"]}
    driver.get(driver.current_url)
    wait_until(lambda: len(lines(driver)) == 1)
    assert visible_rows(driver) == 2
    click(driver, "#clear")
    assert visible_rows(driver) == 37
    click(driver, "#filters [data-facet=status][data-value=diverged]")
    assert visible_rows(driver) == 1


def test_further_pans_of_a_setting_have_colours_of_their_own(tmp_path):
    for pan in PANS:
        make_run(tmp_path, pan=pan)
    runs = load(tmp_path)
    data = chart_data(runs.assign(label=""), setting_names(runs), [])
    colours = {line["label"].split(" ·")[0]: line["style"]["line"]["color"] for line in data["lines"]["setting"]}
    assert colours["PANs off"] in (colours["PAN+ 0.05"], colours["PAN∘ 0.1"])
    assert len(set(colours.values())) == 2


def test_curves_are_means_with_bands_in_the_colour_of_their_pair(driver, page):
    click(driver, "#filters [data-value=scaffold]")
    wait_until(lambda: len(lines(driver)) == 2)
    off, on = (next(trace for name, trace in lines(driver).items() if kind in name) for kind in ("PANs off", "PAN∘"))
    assert off["line"]["color"] == on["line"]["color"]
    assert (off["line"]["dash"], on["line"]["dash"]) == ("solid", "dash")
    assert off["marker"]["symbol"] != on["marker"]["symbol"]
    bands = [trace for trace in traces(driver) if trace.get("fill") == "toself"]
    assert len(bands) == 2
    runs = load(page.parents[1] / "runs").query("algorithm == 'scaffold'")
    for trace, pan in ((off, "off"), (on, "PAN∘ 0.1")):
        folders = runs["folder"][runs["pan"] == pan]
        accuracies = pandas.concat(
            [pandas.read_json(folder / "metrics.jsonl", lines=True)["global/test_acc"] for folder in folders], axis=1
        )
        assert trace["y"] == pytest.approx(list(100 * accuracies.mean(axis=1)), rel=1e-3)
        (band,) = (each for each in bands if each["legendgroup"] == trace["legendgroup"])
        upper = 100 * (accuracies.mean(axis=1) + accuracies.std(axis=1))
        assert band["y"][: len(upper)] == pytest.approx(list(upper), rel=1e-3)


def test_curves_by_click_mouse_and_keys(driver, page):
    from selenium.webdriver import ActionChains, Keys

    wait_until(lambda: len(lines(driver)) == 8)
    click(driver, "#curves .legendtoggle")
    wait_until(lambda: len(lines(driver)) == 7)
    wait_until(lambda: not driver.execute_script("return document.querySelector('#curves .chart')._dragging"))
    click(driver, "#none")
    wait_until(lambda: lines(driver) == {})
    click(driver, "#all")
    settings = key(load(page.parents[1] / "runs"), "seed").nunique()
    wait_until(lambda: len(lines(driver)) == settings)
    for axis, label, last in (
        ("bytes", "bytes sent", 30 * 2e7),
        ("seconds", "seconds in rounds", 15),
        ("samples", "samples trained on", 90000),
        ("round", "rounds", 30),
    ):
        choose(driver, "x", axis)
        wait_until(lambda label=label: label in texts(driver, "#curves .xtitle"))
        assert max(trace["x"][-1] for trace in lines(driver).values()) == pytest.approx(last)
    assert texts(driver, "#curves .ytitle") == ["test accuracy (%)"]
    chart = driver.find_element("css selector", "#curves .chart")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    for round_idx in (1, 2):
        chart.send_keys(Keys.ARROW_RIGHT)
        assert f"in round {round_idx}: " in texts(driver, "#curves p[role=status]")[0]
    first = texts(driver, "#curves p[role=status]")[0]
    chart.send_keys(Keys.ARROW_DOWN)
    assert texts(driver, "#curves p[role=status]")[0] != first
    area = driver.find_element("css selector", "#curves .nsewdrag")
    ActionChains(driver).move_to_element(area).perform()
    wait_until(
        lambda: (
            len(driver.find_elements("css selector", "#curves .hoverlayer .legendtext, #curves .hoverlayer text")) > 5
        )
    )
    click(driver, "#curves [data-title='Box Select']")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", chart)
    width, height = area.size["width"], area.size["height"]
    corner = ActionChains(driver).move_to_element_with_offset(area, 0.1 * width, -0.45 * height)
    corner.click_and_hold().move_by_offset(round(0.35 * width), round(0.9 * height)).release().perform()
    wait_until(lambda: len(lines(driver)) == 6)  # those with more than half of the rounds
    click(driver, "#curves [data-title='Zoom']")
    before = driver.execute_script("return document.querySelector('#curves .chart').layout.xaxis.range")
    ActionChains(driver).move_to_element(area).click_and_hold().move_by_offset(150, 60).release().perform()  # zoom
    wait_until(
        lambda: driver.execute_script("return document.querySelector('#curves .chart').layout.xaxis.range") != before
    )


def test_heat_map_within_one_dataset_and_network(driver, page):
    assert texts(driver, "select[name=network] option") == ["mnist, mlp", "cifar10, mlp"]
    choose(driver, "network", "cifar10, mlp")
    choose(driver, "row", "algorithm.name")
    choose(driver, "column", "pan.A")
    (trace,) = traces(driver, "heat")
    assert (trace["y"], trace["x"]) == (["&lt;b>moon", "fedavg", "scaffold"], ["0", "0.1"])
    runs = load(page.parents[1] / "runs").query("dataset == 'cifar10'")
    means = 100 * runs.groupby(["algorithm", "pan.A"])["summary/last5_acc"].mean().unstack()
    assert trace["z"] == [pytest.approx(row) for row in means.to_numpy().tolist()]
    choose(driver, "shows", "gain")
    (trace,) = traces(driver, "heat")
    assert trace["z"] == [pytest.approx([row]) for row in (means[0.1] - means[0.0]).tolist()]
    assert all("pairs" in text for row in trace["text"] for text in row)
    assert {"pan.A", "algorithm.name"} <= set(texts(driver, "#heat .xtitle, #heat .ytitle"))


def test_pairs_partition_sorting_and_two_runs_side_by_side(driver):
    assert len(texts(driver, "#paired tbody tr")) > 5
    wait_until(lambda: traces(driver, "partition"))
    assert sum(traces(driver, "partition")[0]["marker"]["size"]) == 20 * 500
    click(driver, "#runs th:nth-child(8) button")
    column = [text for text in texts(driver, "#runs tbody td:nth-child(8)") if text != "–"]
    assert column == sorted(column, key=float)
    names = [text for text in texts(driver, "#runs td.name") if "cifar10-mlp-fedavg" in text]
    for name in sorted(names)[1:3]:  # PAN∘ with seed 1, and off with seed 0
        click(driver, f"input[aria-label='compare {name}']")
    rows = [row.split(" ") for row in texts(driver, "#compare tr")]
    assert [row[0] for row in rows] == ["setting", "last", "seed", "pan.mode", "pan.A", *[row[0] for row in rows[5:]]]
    assert ["pan.mode", "mul", "off"] in rows
    assert "All other settings are equal." in texts(driver, "#compare")[0]
    for name in sorted(names)[1:3]:
        click(driver, f"input[aria-label='compare {name}']")
    assert texts(driver, "#compare") == [""]


def test_buttons_by_keyboard_and_export(driver):
    from selenium.webdriver import Keys

    button = driver.find_element("css selector", "#theme")
    before = driver.execute_script("return document.documentElement.dataset.theme")
    button.send_keys(Keys.ENTER)
    assert driver.execute_script("return document.documentElement.dataset.theme") != before
    button.send_keys(Keys.SPACE)
    assert driver.execute_script("return document.documentElement.dataset.theme") == before
    image = driver.execute_async_script(
        "Plotly.toImage(document.querySelector('#heat .chart'), {format: 'png'}).then(arguments[0])"
    )
    assert image.startswith("data:image/png;base64,")
    assert console_messages(driver) == []


def test_a_wrong_url_is_ignored(driver, page):
    driver.get(f"{page.as_uri()}?x=miles&by=year&partition=99&compare=nothing&theme=light")
    wait_until(lambda: len(lines(driver)) == 8)
    assert visible_rows(driver) == 37
    assert console_messages(driver) == []


@pytest.mark.parametrize(("width", "dark"), [(390, True), (1280, True)])
def test_it_fits_a_phone_and_follows_the_systems_theme(page, width, dark):
    with browser(width, 844, dark) as driver:
        driver.get(page.as_uri())
        wait_until(lambda: traces(driver))
        assert driver.execute_script("return document.documentElement.dataset.theme") == "dark"
        assert driver.execute_script(
            "const page = document.documentElement; return page.scrollWidth <= page.clientWidth"
        )
        assert console_messages(driver) == []
