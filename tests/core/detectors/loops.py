"""Runs that go in circles: name -> (kind, latest event by which to trip, events)."""

from __future__ import annotations

from loopguard_lg.steps import Event

from .loops_coding import CODING
from .loops_talk import TALK
from .runs import asks, call, does, turn

_REWORDED = (
    "refund window for damaged parcels",
    "damaged parcels refund window",
    "window of refund for parcels damaged",
    "parcels damaged: refund window",
    "how long is the refund window for damaged parcels",
    "refund window damaged parcels policy",
    "damaged parcel refund window days",
)
_HITS = (
    "1. help/refunds 'Refunds' 2. help/damage 'Damaged goods' 3. blog/parcels 'News'"
)

LOOPS: dict[str, tuple[str, int, list[Event]]] = {
    "a question in other words, denied in other words": (
        "churn",
        6,
        [
            does("find_text", f"No line contains '{query}'.", query=query)
            for query in _REWORDED
        ],
    ),
    "the same empty search": (
        "repeat",
        2,
        [does("search", "[]", query="blue widget") for _ in range(5)],
    ),
    "the same search with other key order and spacing": (
        "repeat",
        2,
        [
            does("search", "no results", query="blue", limit=5),
            does("search", "no results", limit=5.0, query=" blue "),
            does("search", "no results", limit=5, query="blue\n"),
        ],
    ),
    "the same file over and over among other reads": (
        "repeat",
        6,
        [
            does("read_file", "a = 1\nb = 2\nc = 3\nd = 4", path="src/a.py"),
            does("read_file", "e = 1\nf = 2\ng = 3\nh = 4", path="src/b.py"),
            does("read_file", "a = 1\nb = 2\nc = 3\nd = 4", path="./src/a.py"),
            does("list_dir", "a.py b.py", path="src"),
            does("read_file", "a = 1\nb = 2\nc = 3\nd = 4", path="src//a.py"),
            does("read_file", "e = 1\nf = 2\ng = 3\nh = 4", path="src/b.py"),
            does("read_file", "a = 1\nb = 2\nc = 3\nd = 4", path="src/a.py"),
        ],
    ),
    "the same mail three times": (
        "repeat",
        2,
        [does("send_email", "sent", to="a@b.example", body="Hi") for _ in range(4)],
    ),
    "the same booking with the same refusal": (
        "repeat",
        2,
        [
            does("book_flight", "Error: payment declined", flight="LH1", card="c1")
            for _ in range(4)
        ],
    ),
    "the same batch three times": (
        "repeat",
        2,
        [
            turn(
                call("get_price", "12.40", sku="a"),
                call("get_price", "9.10", sku="b"),
            )
            for _ in range(4)
        ],
    ),
    "a repeat in Japanese": (
        "repeat",
        2,
        [does("検索", "見つかりませんでした", 質問="東京の天気") for _ in range(4)],
    ),
    "a poll without any wait": (
        "repeat",
        4,
        [does("get_job_status", "running", job="j1") for _ in range(6)],
    ),
    "reads whose results differ by their clock only": (
        "repeat",
        2,
        [
            does(
                "query_db",
                f"0 rows (took 0.{n}3 s, 2024-05-01T10:00:0{n}Z)",
                sql="select 1",
            )
            for n in range(4)
        ],
    ),
    "the same command with another description": (
        "near_repeat",
        3,
        [
            does("bash", "a.py  b.py", command="ls  -la src" + " " * n, description=d)
            for n, d in enumerate(("list", "list files", "look", "see", "again"))
        ],
    ),
    "the same query in other letters": (
        "near_repeat",
        4,
        [
            does("search", _HITS, query=q)
            for q in (
                "Blue Widget",
                "blue widget",
                "BLUE WIDGET",
                "blue  widget",
                "Blue-widget",
            )
        ],
    ),
    "windows of a file that was read already": (
        "near_repeat",
        7,
        [
            does(
                "read_file",
                "lines 1-400 of 400",
                path="big.py",
                start_line=1,
                end_line=400,
            ),
            *(
                does(
                    "read_file",
                    f"lines {n}-{n + 80} of 400",
                    path="big.py",
                    start_line=n,
                    end_line=n + 80,
                )
                for n in range(10, 300, 17)
            ),
        ],
    ),
    "two lookups in turn": (
        "oscillation",
        6,
        [
            does("find_user", "no such user", error=False, name="Ann")
            if n % 2
            else does("list_teams", "red, green", org="x")
            for n in range(8)
        ],
    ),
    "three tools in turn": (
        "oscillation",
        9,
        [
            does(("read_log", "read_cfg", "read_env")[n % 3], f"content {n % 3}")
            for n in range(12)
        ],
    ),
    "one query in other words": (
        "churn",
        6,
        [does("web_search", _HITS, query=query) for query in _REWORDED],
    ),
    "pages that say what others said": (
        "churn",
        6,
        [
            does(
                "fetch",
                "Opening hours: nine to five.\nClosed on Sunday.\nCall us.",
                url=u,
            )
            for u in (
                "a.x/1",
                "b.x/hours",
                "c.x/contact",
                "d.x/about",
                "e.x/info",
                "f.x/y",
            )
        ],
    ),
    "one error whatever the arguments": (
        "recurring_error",
        4,
        [
            does("get_order", f"HTTP 404: order {n} not found", error=True, id=f"A-{n}")
            for n in range(6)
        ],
    ),
    "one exception from several scripts": (
        "recurring_error",
        4,
        [
            does(
                "run_python",
                f'Traceback (most recent call last):\n  File "t{n}.py", line {n}\n'
                "ModuleNotFoundError: No module named 'numpy'",
                code=f"import numpy as np; print(np.{n})",
            )
            for n in range(6)
        ],
    ),
    "one error in Spanish": (
        "recurring_error",
        4,
        [
            does("consultar", "Acceso no autorizado", error=True, tabla=f"ventas_{n}")
            for n in range(6)
        ],
    ),
    "a failing write in every user turn": (
        "recurring_error",
        9,
        [
            event
            for n in range(5)
            for event in (
                asks(f"Please change it now, take {n}"),
                does(
                    "update_booking", "Error: seat 4A is taken", seat="4A", booking="b1"
                ),
            )
        ],
    ),
    "a delegated search that always answers the same": (
        "repeat",
        2,
        [
            does(
                "task",
                "I could not find the file in the repository. "
                "The folder is empty and nothing in it was readable.",
                subagent_type="coder",
                description="Find the config file",
            )
            for _ in range(4)
        ],
    ),
    "one listing with many flags": (
        "churn",
        3,
        [
            does("bash", "a.py b.py", command=command)
            for command in ("ls", "ls -la", "ls -l", "ls -la .", "ls .", "ls -al")
        ],
    ),
    "pages behind one wall": (
        "recurring_error",
        3,
        [
            does(
                "browser_navigate",
                "Just a moment... Verify you are human by completing the action below.",
                url=f"https://{host}.example/data",
            )
            for host in "abcdefg"
        ],
    ),
    "one password after the other": (
        "recurring_error",
        3,
        [
            does("create_user", "Error: password too short", name="x", password="a" * n)
            for n in range(1, 6)
        ],
    ),
    "overlapping windows of a file": (
        "near_repeat",
        5,
        [
            does(
                "read_file",
                "\n".join(f"{k}\tline {k}" for k in range(start, start + 50)),
                path="x.py",
                offset=start,
                limit=50,
            )
            for start in (0, 10, 20, 15, 5, 12, 8, 3)
        ],
    ),
    "a call without its argument": (
        "repeat",
        2,
        [does("get_weather", "Error: city is required", error=True) for _ in range(4)],
    ),
    "other buttons of one page": (
        "churn",
        5,
        [
            does("click", "Login page\nUser\nPassword\nSubmit\nHelp and terms", on=name)
            for name in ("Submit", "Log in", "Enter", "OK", "Continue", "Next")
        ],
    ),
    "a query in Arabic in other words": (
        "churn",
        4,
        [
            does(
                "search", "1. موقع الطقس 2. أخبار اليوم 3. صفحة المدينة والطقس", query=q
            )
            for q in (
                "طقس القاهرة اليوم",
                "اليوم طقس القاهرة",
                "القاهرة طقس اليوم الآن",
                "الطقس في القاهرة اليوم",
                "طقس اليوم القاهرة",
            )
        ],
    ),
    "a log that stays missing": (
        "repeat",
        2,
        [does("bash", "", command="cat run.log 2>/dev/null") for _ in range(4)],
    ),
    **CODING,
    **TALK,
}
