from __future__ import annotations

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from loopguard_lg import AskUser
from loopguard_lg.testing.doubles import ScriptedModel, call
from tests.middleware.runs import (
    THREAD,
    Way,
    ask,
    executed,
    guarded,
    laddered,
    last,
    notes,
    results,
    same,
)


def test_an_honest_run_hears_nothing(way: Way) -> None:
    """A run without a loop is the same with the guard as without."""
    model = ScriptedModel(
        replies=[call("search", query="a"), call("read", path="b"), "found"]
    )

    state = way(guarded(model), ask(), THREAD)

    assert notes(model) == ["", "", ""]
    assert last(state).text == "found"


def test_a_repeat_is_reflected_on_once(way: Way) -> None:
    """The third equal call brings one note; the agent changes course and goes on."""
    model = ScriptedModel(replies=[*same(3), call("read", path="a.md"), "found"])

    state = way(guarded(model), ask(), THREAD)

    said = notes(model)
    assert "`search` was called 3 times" in said[3]
    assert said[:3] + said[4:] == ["", "", "", ""]
    assert last(state).text == "found"


def test_the_note_stands_at_the_end_and_stays_out_of_the_state(way: Way) -> None:
    """The prompt-cache prefix does not change, and the history holds no note."""
    model = ScriptedModel(replies=[*same(3), "found"])

    state = way(guarded(model), ask(), THREAD)

    assert model.requests[3].messages[-1].name == "loopguard"
    assert model.requests[3].messages[:-1] == tuple(state["messages"][:-1])


def test_a_held_call_is_not_executed_and_the_strong_model_takes_over(
    way: Way,
) -> None:
    """After the note the same call is answered by the guard, and the run reroutes."""
    strong = ScriptedModel(replies=[call("read", path="a.md")])
    weak = ScriptedModel(replies=[call("write", path="n", text="z"), *same(4), "found"])

    state = way(guarded(weak, laddered(strong)), ask(), THREAD)

    assert executed == ["write n", *["search x"] * 3, "read a.md"]
    assert "Not executed" in results(state["messages"])[4].text
    assert last(state).text == "found"
    assert (len(weak.requests), len(strong.requests)) == (6, 1)


def test_the_strong_model_starts_from_the_last_good_point(way: Way) -> None:
    """It sees what was found and done before the loop, a note, and no loop."""
    strong = ScriptedModel(replies=["found"])
    start = [call("search", query="a"), call("write", path="n", text="z")]
    weak = ScriptedModel(replies=[*start, *same(4)])

    way(guarded(weak, laddered(strong)), ask(), THREAD)

    seen = strong.requests[0]
    assert [m.text for m in results(seen.messages)][0].startswith("document about a")
    assert "no results" not in [m.text for m in seen.messages]
    assert 'write(path="n", text="z") -> wrote 1 bytes to n' in seen.text
    assert 'ruled out: search(query="x")' in seen.text


def test_the_state_keeps_what_the_model_no_longer_sees(way: Way) -> None:
    """The rollback is logical: nothing is removed from the history."""
    strong = ScriptedModel(replies=["found"])
    weak = ScriptedModel(replies=same(4))

    state = way(guarded(weak, laddered(strong)), ask(), THREAD)

    assert len(results(state["messages"])) == 4


def test_the_strong_model_acts_for_its_turns_only() -> None:
    """Without progress the escalation ends after its turns."""
    strong = ScriptedModel(replies=[call("search", query="a"), "never asked"])
    weak = ScriptedModel(replies=[*same(4), "found"])

    state = guarded(weak, laddered(strong, turns=1)).invoke(ask(), THREAD)

    assert len(strong.requests) == 1
    assert last(state).text == "found"


def test_the_third_trigger_gives_up_with_a_report(way: Way) -> None:
    """The run ends with a message, the report in it and in the output state."""
    strong = ScriptedModel(replies=same(9))
    weak = ScriptedModel(replies=["looking", *same(4)][1:])

    state = way(guarded(weak, laddered(strong)), ask(), THREAD)

    report = last(state).response_metadata["loopguard_exit"]
    assert state["loopguard_exit"] == report
    assert (report["reason"], report["kind"]) == ("loop", "repeat")
    assert report["ruled_out"][0].startswith('search(query="x")')
    assert executed == ["search x"] * 5
    assert not last(state).tool_calls


def test_the_thread_takes_the_next_message_after_an_exit() -> None:
    """A new word of the person's starts afresh, and clears the report."""
    model = ScriptedModel(replies=[*same(6), "hello"])
    agent = guarded(model, checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(ask("hi"), THREAD)

    assert last(state).text == "hello"
    assert state["loopguard_exit"] is None


def test_a_person_is_asked_and_the_run_resumes(way: Way) -> None:
    """`AskUser` interrupts with the report; the answer takes the run on."""
    model = ScriptedModel(replies=[*same(6), "found"])
    agent = guarded(model, laddered(end=AskUser()), checkpointer=InMemorySaver())

    way(agent, ask(), THREAD)
    (pending,) = agent.get_state(THREAD).interrupts
    state = way(agent, Command(resume="look in the attic"), THREAD)

    assert pending.value["report"]["reason"] == "loop"
    assert "look in the attic" in model.requests[-1].text
    assert last(state).text == "found"


def test_a_person_can_stop_the_run() -> None:
    """The answer `stop` ends the run with its report."""
    model = ScriptedModel(replies=same(6))
    agent = guarded(model, laddered(end=AskUser()), checkpointer=InMemorySaver())
    agent.invoke(ask(), THREAD)

    state = agent.invoke(Command(resume={"choice": "stop"}), THREAD)

    assert state["loopguard_exit"]["reason"] == "gave_up"


def test_asking_without_a_checkpointer_gives_up(way: Way) -> None:
    """Where no answer can come back, the run ends with what there is."""
    model = ScriptedModel(replies=same(6))

    state = way(guarded(model, laddered(end=AskUser())), ask(), THREAD)

    assert state["loopguard_exit"]["reason"] == "loop"
    assert not last(state).tool_calls


def test_the_model_can_give_up_by_itself(way: Way) -> None:
    """A call of `give_up` ends the run with its reason, without another model call."""
    model = ScriptedModel(replies=[*same(1), call("give_up", reason="no such file")])

    state = way(guarded(model), ask(), THREAD)

    assert state["loopguard_exit"]["detail"] == "no such file"
    assert len(model.requests) == 2


def test_giving_up_before_anything_was_tried_is_refused(way: Way) -> None:
    """Small models take the way out at once; the second time it is granted."""
    leave = call("give_up", reason="hard")
    model = ScriptedModel(replies=[leave, call("read", path="a"), "found"])

    state = way(guarded(model), ask(), THREAD)

    assert "nothing was tried so far" in model.requests[1].text
    assert last(state).text == "found"


def test_observe_only_says_and_stops_nothing(way: Way) -> None:
    """A watching guard leaves even a hopeless loop alone."""
    model = ScriptedModel(replies=[*same(8), "done"])

    state = way(guarded(model, laddered().replace(observe_only=True)), ask(), THREAD)

    assert set(notes(model)) == {""}
    assert len(executed) == 8
    assert last(state).text == "done"
