"""The page in a real browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from loopguard_lg.analysis.report import gather, look
from loopguard_lg.analysis.report_page import page as written
from loopguard_lg.traces.model import from_dict
from tests.analysis.made import FREE, circles, works
from tests.analysis.test_report import hostile

CHROMIUM = shutil.which("chromium")
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium (Debian package)"),
    # All of them look at one page in one browser.
    pytest.mark.xdist_group("browser"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        yield found
        found.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report, with markup in every field of a run."""
    runs = [works("a"), circles("b", 60, each={"tokens": 9}), hostile()]
    report = gather(FREE, [look(FREE, from_dict(data)) for data in runs])
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(written(report), encoding="utf-8")
    return path.as_uri()


class Visit:
    """A page that was opened, and what it did."""

    def __init__(self, browser: Any, file: str, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda box: self.problems.append("dialog"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file)


@pytest.fixture
def visit(browser: Any, file: str) -> Iterator[Visit]:
    """The report, opened."""
    opened = Visit(browser, file)
    yield opened
    opened.page.close()


def test_the_page_opens_without_a_word_and_without_a_network(
    visit: Visit, file: str
) -> None:
    """No console message, no dialog, no request but the file; nothing hostile ran."""
    assert visit.problems == []
    assert visit.requests == [file]
    assert visit.page.locator("script").count() == 2
    assert visit.page.locator("img").count() == 0


def test_a_script_that_got_in_would_not_run(visit: Visit) -> None:
    """The page's policy refuses script, style and pictures that are not its own."""
    visit.page.evaluate(
        "document.body.insertAdjacentHTML('beforeend',"
        ' \'<img src="data:,x" onerror="window.got=1">\');'
        "const s = document.createElement('script'); s.textContent = 'window.got=1';"
        "document.body.append(s)"
    )

    assert visit.page.evaluate("window.got") is None
    assert any("Content Security Policy" in problem for problem in visit.problems)


def test_a_cell_is_read_with_the_keyboard(visit: Visit) -> None:
    """Arrow keys go from cell to cell, and what has the focus is written out."""
    run = visit.page.locator("figure.run").first
    run.locator(".cell[tabindex='0']").focus()
    first = run.locator(".readout").inner_text()
    visit.page.keyboard.press("End")
    last = run.locator(".readout").inner_text()
    visit.page.keyboard.press("ArrowLeft")

    assert first != last
    assert run.locator(".readout").inner_text() not in (first, last)
    assert run.locator(".cell[tabindex='0']").count() == 1


def test_a_cell_is_read_with_the_mouse(visit: Visit) -> None:
    """Pointing at a call shows the call and its result below the picture."""
    run = visit.page.locator("figure.run").first
    run.locator(".cell", has_text="step 3, ").first.hover()

    assert "gives: " in run.locator(".readout").inner_text()


def test_every_picture_has_a_name_for_a_screen_reader(visit: Visit) -> None:
    """Title and description are found by their ids, and cells have words."""
    snapshot = visit.page.locator("figure.run").first.aria_snapshot()

    assert 'group "Timeline of the run' in snapshot
    assert 'img "step 0, ' in snapshot
    ids = visit.page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_has_no_sideways_page(browser: Any, file: str, scheme: str) -> None:
    """At 390 points only pictures and tables scroll sideways; both schemes have one."""
    size: Any = {"width": 390, "height": 800}
    visit = Visit(browser, file, viewport=size, color_scheme=scheme)

    wide = visit.page.evaluate("document.documentElement.scrollWidth")
    back = visit.page.evaluate("getComputedStyle(document.body).backgroundColor")

    assert wide <= 390
    assert (back == "rgb(16, 18, 22)") == (scheme == "dark")
    visit.page.close()


def test_a_printed_page_cuts_no_picture(browser: Any, file: str) -> None:
    """On paper pictures shrink to the page, and what only answers a mouse is gone."""
    visit = Visit(browser, file)
    visit.page.emulate_media(media="print")
    visit.page.set_viewport_size({"width": 700, "height": 1000})

    box = visit.page.locator("svg.timeline").first.bounding_box()

    assert box["x"] + box["width"] <= 700
    assert not visit.page.locator(".readout").first.is_visible()
    visit.page.close()
