from __future__ import annotations

import ormsgpack

from loopguard_lg.digests import args_hash, result_hash
from loopguard_lg.history import History
from loopguard_lg.steps import (
    Compaction,
    Event,
    Human,
    Progress,
    Step,
    Tokens,
    Turn,
    clip,
)
from loopguard_lg.tools import ToolPolicy


def _after(*events: Event) -> History:
    history = History()
    for event in events:
        history = history.push(event)
    return history


def _read(path: str, result: str, **options: object) -> Turn:
    step = Step(tool="read_file", args={"path": path}, result=result, **options)  # type: ignore[arg-type]
    return Turn(steps=(step,))


def _size(turns: int) -> int:
    history = History()
    for n in range(turns):
        steps = tuple(
            Step(
                tool=f"edit_{n}",
                args={"path": f"src/{n}/{k}.py", "new": f"{n * k} " * 50},
                result=f"Error {n}: part {k} of {n} is wrong",
                error=bool(n % 3),
                state=f"s{n}{k}",
            )
            for k in range(6)
        )
        event = Turn(steps=steps, agent=f"a{n}", text=f"text {n}", i=2**31 + n, t=n / 3)
        history = history.push(event)
    return len(ormsgpack.packb(history.dump()))


def test_the_size_is_the_same_after_any_number_of_turns() -> None:
    """Memory is as large after 3,000 turns as after 200, and below 4.8 KB."""
    early, late = _size(200), _size(3_000)

    assert abs(early - late) < 100
    assert late <= 4_800


def test_events_are_numbered_where_they_bring_no_number() -> None:
    """The index goes on from the last one, and an event's own index wins."""
    assert _after(Turn(), Turn()).i == 1
    assert _after(Turn(i=7), Turn()).i == 8


def test_equal_calls_of_a_batch_are_seen_once() -> None:
    """A parallel batch counts a call with one result once."""
    step = Step(tool="read_file", args={"path": "a"}, result="x")

    assert len(_after(Turn(steps=(step, step, step))).now) == 1


def test_new_content_is_progress_and_known_content_is_not() -> None:
    """A result that says something new moves the task, the same again does not."""
    text = "one line\nand another\nand a third\nand a fourth"
    first = _after(_read("a.py", text))
    again = first.push(_read("a.py", text))

    assert first.progress
    assert not again.progress


def test_a_person_and_a_report_are_progress() -> None:
    """A person's word and `report_progress` move the task; a compaction doesn't."""
    assert _after(Human(text="hi")).progress
    assert _after(Progress()).progress
    assert not _after(Compaction()).progress


def test_formalities_are_neither_news_nor_nothing() -> None:
    """A receipt is a little: it moves nothing and is no evidence of standing still."""
    step = Step(tool="insert_row", args={"n": 1}, result="ok")

    assert _after(Turn(steps=(step,))).turns.gain == [1]


def test_a_state_never_seen_is_progress() -> None:
    """A new state digest is news, a known one nothing new."""

    def turn(state: str, n: int) -> Turn:
        step = Step(tool="apply_change", args={"n": n}, result="applied", state=state)
        return Turn(steps=(step,))

    history = _after(turn("s1", 1), turn("s2", 2), turn("s1", 3))

    assert history.turns.gain == [2, 2, 0]


def test_fewer_failures_are_progress_and_more_are_not() -> None:
    """A check moves the task when it fails less than ever before."""

    def check(failed: int) -> Turn:
        step = Step(tool="run_tests", result=f"{failed} failed, 9 passed", error=True)
        return Turn(steps=(step,))

    history = _after(check(5), check(3), check(4), check(2))

    assert history.turns.gain == [1, 2, 1, 2]


def test_a_ticked_item_is_progress() -> None:
    """A plan moves the task when one item more is done."""

    def plan(*done: bool) -> Turn:
        todos = [{"content": "x", "done": is_done} for is_done in done]
        return Turn(steps=(Step(tool="write_todos", args={"todos": todos}),))

    history = _after(plan(False, False), plan(True, False), plan(True, False))

    assert history.turns.gain == [1, 2, 1]


def test_lines_read_before_are_nothing_new_in_another_range() -> None:
    """A range that was read adds nothing, whatever the tool says of it."""

    def read(first: int, last: int) -> Turn:
        args = {"path": "a.py", "start_line": first, "end_line": last}
        step = Step(tool="read_file", args=args, result=f"lines {first}-{last}")
        return Turn(steps=(step,))

    history = _after(read(1, 200), read(50, 150), read(201, 400))

    assert history.turns.gain == [2, 0, 2]


def test_the_policy_names_role_and_volatile_arguments() -> None:
    """A tool's role and its volatile arguments come from the policy first."""
    tools = {"look": ToolPolicy(role="poll", volatile=("nonsense",), off=("repeat",))}
    first, second = (
        History().push(
            Turn(steps=(Step(tool="look", args={"x": 1, "nonsense": n}),)), tools
        )
        for n in (1, 2)
    )

    assert first.now[0].role == "poll"
    assert first.now[0].off == ("repeat",)
    assert first.now[0].call == second.now[0].call


def test_a_trimmed_recording_reads_like_the_live_call() -> None:
    """Digests of untrimmed values make a replay see what the live run saw."""
    code = "x = 1\n" * 3_000
    live = Step(tool="write_file", args={"content": code}, result=code)
    kept = Step(
        tool="write_file",
        args={"content": clip(code)},
        result=clip(code),
        args_hash=args_hash(live.args),
        result_hash=result_hash(code),
    )

    first = _after(Turn(steps=(live,))).now
    assert _after(Turn(steps=(kept,))).now == first


def test_sizes_of_context_and_output_are_kept() -> None:
    """The tokens of the newest call and the size of all results are known."""
    turn = Turn(steps=(Step(tool="f", result="x" * 50),), tokens=Tokens(input=7))
    history = _after(turn, turn)

    assert history.known.context == 7
    assert history.known.output == 100


def test_nothing_is_loaded_from_nothing() -> None:
    """No data is an empty history."""
    assert History.load(None) == History.load({}) == History()
