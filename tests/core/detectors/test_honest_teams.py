from __future__ import annotations

from loopguard_lg import Policy, Step, Turn, decide

PARTS = ["users", "orders", "items", "stock", "price", "shipping"]


def trips(*turns: Turn) -> bool:
    """Whether one of these turns is a trigger."""
    memory: dict[str, object] = {}
    for turn in turns:
        verdict, memory = decide(Policy(), memory, turn)
        if verdict.action != "continue":
            return True
    return False


def handed(agent: str, tool: str, text: str = "", **args: str) -> Turn:
    """A turn that hands over."""
    step = Step(tool=tool, args=args, result="handed over")
    return Turn(agent=agent, text=text, steps=(step,))


def test_a_worker_that_reports_each_time_is_no_ping_pong() -> None:
    """Part after part is handed over, and each report says something new."""
    turns = []
    for n, part in enumerate(PARTS):
        report = f"I looked at {part}: {n * 137} rows, {n * 3} of them broken, and the "
        report += f"owner is the team of {part}. Nothing else is open here."
        task = f"Check {part}: count rows, find the owner"
        turns.append(handed("lead", "transfer_to_worker", task=task))
        turns.append(handed("worker", "transfer_back_to_lead", report))

    assert not trips(*turns)


def test_a_worker_that_gives_the_same_report_is_one() -> None:
    """The same words handed back again and again are no news."""
    report = "I looked at users: 137 rows, 3 of them broken, and the owner is the team "
    report += "of users. Nothing else is open here."
    lap = [
        handed("lead", "transfer_to_worker"),
        handed("worker", "transfer_back_to_lead", report),
    ]

    assert trips(*lap * 4)


def test_a_look_that_stays_the_same_after_each_new_edit_is_no_churn() -> None:
    """The edits move the task, whatever the look says."""
    turns = []
    for n in range(10):
        edit = {"path": "a.py", "old": f"v{n}", "new": f"v{n + 1}"}
        turns.append(Turn(steps=(Step(tool="edit", args=edit, result="applied"),)))
        look = {"command": "git status --short"}
        turns.append(Turn(steps=(Step(tool="bash", args=look, result=" M a.py"),)))

    assert not trips(*turns)


def test_a_look_that_each_of_a_team_takes_is_no_repeat() -> None:
    """Whoever joins reads the task; that two of them go on looking is a loop."""

    def look(agent: str) -> Turn:
        step = Step(tool="read_file", args={"path": "TASK.md"}, result="Mend it")
        return Turn(agent=agent, steps=(step,))

    assert not trips(*map(look, "abcdef"))
    assert trips(*map(look, "aabb"))
