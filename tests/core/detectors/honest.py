"""Runs that repeat themselves for good reasons: name -> events."""

from __future__ import annotations

from loopguard_lg.steps import Compaction, Event, Step, Turn

from .honest_coding_runs import CODING, LINES
from .runs import asks, call, does, says, turn


def _poll(result: str, t: float) -> Turn:
    return Turn(steps=(call("get_job_status", result, job="j1"),), t=t)


HONEST: dict[str, list[Event]] = {
    "polls whose result moves": [
        does("get_job_status", f"running, {n * 10} %", job="j1") for n in range(9)
    ],
    "polls with waits between": [
        event
        for _ in range(8)
        for event in (
            does("get_job_status", "queued", job="j1"),
            does("wait", "ok", seconds=30),
        )
    ],
    "polls by a shell that sleeps": [
        does("bash", "queued", command="sleep 60 && gh run view 77") for _ in range(8)
    ],
    "polls with growing gaps": [_poll("queued", t) for t in (0, 10, 25, 50, 100, 200)],
    "three polls": [does("get_job_status", "queued", job="j1") for _ in range(3)],
    "three equal reads in one batch": [
        turn(*(call("read_file", "x = 1", path="a.py") for _ in range(3))),
        says("The file sets x."),
    ],
    "an outage that ends": [
        does("fetch", "503 Service Unavailable", error=True, url="a.x"),
        does("fetch", "503 Service Unavailable", error=True, url="a.x"),
        does("fetch", "<html>Welcome</html>", error=False, url="a.x"),
    ],
    "a rate limit on several calls": [
        *(
            does(
                "search", "429 Too Many Requests, try again later", error=True, query=q
            )
            for q in ("a", "b", "c")
        ),
        does("search", "3 hits", error=False, query="c"),
    ],
    "pages of a list": [
        does("list_orders", f"orders {n}01 to {n}99, next={n + 1}", cursor=n)
        for n in range(12)
    ],
    "windows of a long file": [
        does(
            "read_file", f"part {n}\n{n} text", path="a.csv", offset=n * 100, limit=100
        )
        for n in range(12)
    ],
    "one item after the other": [
        event
        for name in ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
        for event in (
            does("grep", "1 match in 1 file", pattern=f"import {name}", path="src"),
            does("bash", "", command=f"git mv src/{name}.py lib/{name}.py"),
            does(
                "edit_file", "applied", path=f"src/use_{name}.py", old="src", new="lib"
            ),
        )
    ],
    "the same question in every user turn": [
        event
        for n in range(8)
        for event in (
            asks(f"And the balance now, number {n}?"),
            does("get_balance", "1,204.10", account="a1"),
            says("It is 1,204.10."),
        )
    ],
    "reading again after a compaction": [
        does("read_file", LINES, path="a.py"),
        does("read_file", LINES, path="a.py"),
        Compaction(agent="agent"),
        does("read_file", LINES, path="a.py"),
        does("edit_file", "applied", path="a.py", old="line 3", new="line three"),
    ],
    "two compactions in a long run": [
        does("read_file", "a = 1", path="a.py"),
        Compaction(agent="agent"),
        does("read_file", "b = 1", path="b.py"),
        does("read_file", "c = 1", path="c.py"),
        Compaction(agent="agent"),
    ],
    "different queries with different hits": [
        does(
            "search", f"1. docs/{n} 2. guide/{n} 3. wiki/{n}", query=f"install step {n}"
        )
        for n in range(9)
    ],
    "different queries without hits": [
        does("search", "no results", query=query)
        for query in (
            "kestrel nesting",
            "tax form 12b",
            "ferry times Oban",
            "rye bread",
        )
    ],
    "a plan that moves on": [
        does(
            "write_todos",
            "list updated",
            todos=[
                {"content": f"item {k}", "status": "done" if k < n else "pending"}
                for k in range(5)
            ],
        )
        for n in range(6)
    ],
    "a plan that is written twice": [
        does("write_todos", "list updated", todos=[{"content": "a"}]),
        does("write_todos", "list updated", todos=[{"content": "a"}, {"content": "b"}]),
        does("read_file", "a = 1", path="a.py"),
    ],
    "three wrong ids and then the right one": [
        *(
            does("click", "Invalid action!", error=True, target=target)
            for target in ("Blue kettle, 2 l", "Steel pan with lid", "Oak board")
        ),
        does("click", "Item page: oak board", error=False, target="B0042"),
    ],
    "one retry after a typo": [
        does("query_db", "Error: unknown column 'nam'", sql="select nam from t"),
        does("query_db", "Error: unknown column 'nam'", sql="select nam from t"),
        does("query_db", "Ann\nBob", sql="select name from t"),
    ],
    "scrolling through a page": [
        does("scroll_down", f"Paragraph {n}: something else entirely") for n in range(8)
    ],
    "keys pressed several times": [
        does("press_key", "ok", key="Tab") for _ in range(5)
    ],
    "a hand-over and its answer": [
        turn(call("transfer_to_geo", "handed over"), agent="boss"),
        turn(call("lookup", "Fenwick, 3 km", place="Marlow"), agent="geo"),
        turn(call("transfer_to_boss", "handed back"), text="Fenwick.", agent="geo"),
        turn(call("transfer_to_tax", "handed over"), agent="boss"),
        turn(call("lookup", "19 %", place="DE"), agent="tax"),
        turn(call("transfer_to_boss", "handed back"), text="19 %.", agent="tax"),
    ],
    "subtasks handed out one by one": [
        does(
            "task",
            f"Chapter {n} is about {n} things, and ends with a table of {n} rows.",
            subagent_type="reader",
            description=f"Summarise chapter {n}",
        )
        for n in range(9)
    ],
    "a table of like rows": [
        says("\n".join(f"| item {n} | {n} EUR | in stock |" for n in range(60)))
    ],
    "a long list in one reply": [
        says("\n".join(f"- step {n}: look at part {n} of the plan" for n in range(40)))
    ],
    "the same receipt for every row": [
        does("insert_row", "ok", table="people", row={"name": name, "age": age})
        for age, name in enumerate(("Ann", "Bob", "Cid", "Dee", "Eve", "Fay", "Gus"))
    ],
    "non-ASCII rows with the same receipt": [
        does("ajouter", "enregistré", nom=name) for name in "éàüßñçøå"
    ],
    "a chat without tools": [
        event
        for question, answer in (
            ("What is a monad?", "A monoid in the category of endofunctors."),
            ("And a functor?", "A map between categories that keeps structure."),
            ("And a category?", "Objects, arrows, and how arrows compose."),
        )
        for event in (asks(question), says(answer))
    ],
    "MCP reads of many records": [
        does(
            "mcp__crm__get_contact",
            f'{{"id": {n}, "name": "P{n}", "vip": false}}',
            id=n,
        )
        for n in range(20)
    ],
    "the same read by two agents": [
        turn(call("read_file", LINES, path="a.py"), agent="coder"),
        turn(call("read_file", LINES, path="a.py"), agent="reviewer"),
    ],
    "odd arguments": [
        Turn(
            steps=(
                Step(tool="f", args={"x": float("nan"), "y": {1: "a"}, "z": "\ud800"}),
            )
        ),
        Turn(steps=(Step(tool="", args={}, result="\ud800"),)),
    ],
    "different errors with one look in between": [
        event
        for n, error in enumerate(("KeyError: 'a'", "TypeError: b", "ValueError: c"))
        for event in (
            does(
                "bash",
                f"Traceback (most recent call last):\n  File m.py\n{error}",
                command=f"python m.py --part {n}",
                error=True,
            ),
            does("bash", "", command="ls out"),
        )
    ],
    "one count of many tables": [
        does("run_sql", "[(0,)]", sql=f"SELECT count(*) FROM t{n} WHERE bad")
        for n in range(12)
    ],
    "health of many hosts": [
        does("check_host", "healthy", host=f"web-{n}.prod") for n in range(15)
    ],
    "no flights on many days": [
        does("search_flights", "[]", origin="JFK", to="SEA", date=f"2024-05-{n}")
        for n in range(10, 20)
    ],
    "names looked for in a log, one after the other": [
        does("find_text", f"No line contains '{name}'.", path="app.log", text=name)
        for name in ("timeout", "retry", "refused", "oom", "killed", "panic")
    ],
    "people who are not known": [
        does("find_user", "not found", email=f"{name}@x.example")
        for name in ("ann", "bob", "cid", "dee", "eve", "fay")
    ],
    "small files with the same content": [
        does("read_file", "enabled: true", path=f"conf/{name}.yaml")
        for name in "abcdefgh"
    ],
    "records that differ by their key": [
        does(
            "get_item",
            f'{{"sku": "{sku}", "stock": 0, "store": "north", "currency": "EUR"}}',
            sku=sku,
        )
        for sku in ("kettle", "pan", "board", "spoon", "ladle", "whisk", "sieve")
    ],
    "thoughts before acting": [
        *(
            does("think", "", thought=thought)
            for thought in (
                "First I must see the file.",
                "It may be large, so I read it in parts.",
                "Dates are in column three.",
                "There is a parser in utils, which I can use.",
            )
        ),
        does("read_file", "a = 1", path="a.py"),
    ],
    "a clock": [does("get_time", f"2024-05-01T10:0{n}:00Z") for n in range(6)],
    "dice": [does("roll_dice", roll) for roll in "353136"],
    "hand-overs along a chain": [
        turn(call("transfer_to_b", "ok"), agent="a"),
        turn(call("transfer_to_c", "ok"), agent="b"),
        turn(call("transfer_to_d", "ok"), agent="c"),
        turn(call("lookup", "found it", x=1), agent="d"),
    ],
    "the same answer in two user turns": [
        event
        for n in range(3)
        for event in (asks(f"my id is {n}"), says("Please give me your order number."))
    ],
    "errors while other things go well": [
        event
        for n in range(6)
        for event in (
            does("get_order", "HTTP 404: not found", error=True, id=f"A-{n}"),
            does("get_invoice", f"invoice {n}: {n * 7} EUR, paid", id=f"I-{n}"),
        )
    ],
    "invalid arguments between valid ones": [
        does("create_event", result, title=str(n))
        for n, result in enumerate(
            ("Error: invalid arguments", "Error: invalid arguments", "created e1") * 2
        )
    ],
    "tests weakened before any failure": [
        does(
            "edit_file",
            "applied",
            path="tests/test_a.py",
            old="def test_a():",
            new="@pytest.mark.skip\ndef test_a():",
        ),
        does("run_tests", "3 passed, 1 skipped", error=False),
    ],
    "a long outage": [
        *(
            does("fetch", "503 Service Unavailable", error=True, url="a")
            for _ in range(4)
        ),
        does("fetch", "the page\nat last", error=False, url="a"),
    ],
    "known files again after a compaction": [
        *(does("read_file", f"{n}\nfile\n{n * 3}\nx", path=f"{n}") for n in range(6)),
        Compaction(agent="agent"),
        *(does("read_file", f"{n}\nfile\n{n * 3}\nx", path=f"{n}") for n in range(6)),
    ],
    "the same tests run by three agents": [
        turn(call("run_tests", "12 passed"), agent=agent)
        for agent in ("coder", "reviewer", "tester")
    ],
    "tests that stay green": [
        event
        for n in range(5)
        for event in (
            does("edit_file", "applied", path="a.py", old=f"{n}", new=f"{n + 1}"),
            does("run_tests", "12 passed", error=False),
        )
    ],
    "looking between sleeps": [
        event
        for _ in range(6)
        for event in (
            does("kubectl", "pod web-1 Pending", args="get pods"),
            does("sleep", "", seconds=10),
        )
    ],
    "the same mail to many": [
        does("send_email", "sent", to=f"{n}@x.example", body="Please come on Friday.")
        for n in range(12)
    ],
    "a form": [
        *(
            does("fill", "ok", ref=f"e{n}", text=text)
            for n, text in enumerate(("Ann", "Lee", "a@b.example", "High St", "Leeds"))
        ),
        does("click", "Thank you", ref="e9"),
    ],
    "one search and then its pages": [
        event
        for n in range(5)
        for event in (
            does("web_search", "1. wiki/X 2. docs/X", query=f"X and how {n} works"),
            does("open_url", f"Section {n}\npart {n}\nend {n}", url=f"docs/X/{n}"),
        )
    ],
    "greetings": [
        event for _ in range(3) for event in (asks("hi"), says("Hello! What can I do?"))
    ],
    "verdicts on many documents": [
        does("classify_document", "relevant", doc=f"d{n}") for n in range(12)
    ],
    **CODING,
}
