"""Being turned away again and again, in results that are no errors."""

from __future__ import annotations

import pytest

from loopguard_lg.steps import Turn

from .runs import does, trip

HOSTS = ("kite", "oak", "pine", "sun", "moon", "river")
REFUSALS = {
    "robot": "{}: please solve the captcha to go on",
    "human": "Just a moment...\n{} checks your browser.\nVerify you are human.",
    "login": "You must log in to view {}",
    "paid": "{} | Subscribe to continue reading",
    "denied": "Access to {} has been blocked by the owner of the site",
    "region": "{} is not available in your region",
}


def page(host: str, text: str, tool: str = "fetch") -> Turn:
    """A look at a page of a host."""
    url = f"https://{host}.example/p"
    return does(tool, text.format(f"{host}.example"), url=url)


def news(host: str) -> Turn:
    """A page that says something."""
    return page(
        host, f"All about {host}s\nHow a {host} is made\nWhere a {host} is found"
    )


@pytest.mark.parametrize("tool", ["fetch", "browse_page"])
@pytest.mark.parametrize("text", REFUSALS.values(), ids=REFUSALS)
def test_the_same_refusal_wherever_one_asks_is_a_loop(text: str, tool: str) -> None:
    """The fifth host that turns the agent away is too many."""
    assert trip([page(host, text, tool) for host in HOSTS]) == (4, "recurring_error")


@pytest.mark.parametrize("text", REFUSALS.values(), ids=REFUSALS)
def test_refusals_among_pages_with_news_are_work(text: str) -> None:
    """The agent gets on elsewhere."""
    turns = [turn for host in HOSTS for turn in (page(host, text), news(host))]

    assert trip(turns) is None


def test_different_refusals_are_told_apart() -> None:
    """Each teaches something else of its page."""
    turns = [page(*both) for both in zip(HOSTS, REFUSALS.values(), strict=True)]

    assert trip(turns) is None


@pytest.mark.parametrize(
    "text",
    [
        "{} is not available",
        "{} has 3 left",
        "def log_in(user):\n    return {}",
        "{}: captcha = off",
        "no access log for {}",
        "To change the address of {} you must log in to the portal, open the settings "
        "of your account and choose the page on addresses. It is sent again "
        "then, within two working days.",
    ],
)
def test_answers_that_sound_alike_are_none(text: str) -> None:
    """That a thing is sold out, or a file about logging in, turns nobody away."""
    assert trip([page(host, text) for host in HOSTS]) is None
