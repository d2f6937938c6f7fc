"""What shell commands are: checks, and what becomes of their exit status."""

from __future__ import annotations

import pytest

from loopguard_lg.commands import Use, read_code
from loopguard_lg.progress import read_check
from loopguard_lg.steps import Step


def use(command: str) -> Use:
    """What a command does."""
    return read_code("bash", command)


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "python -m pytest tests/test_a.py -x",
        "cd src && python3 -m unittest discover",
        "uv run pytest",
        "poetry run mypy src",
        "PYTHONPATH=. timeout 60 pytest",
        "tox -e py311",
        "npm test",
        "npm t",
        "npm run test:unit -- --watch=false",
        "npx jest src/a.test.ts",
        "npx vitest run",
        "yarn workspace web test",
        "pnpm -C web lint",
        "go test ./...",
        "go vet ./...",
        "cargo test --all",
        "cargo nextest run",
        "cargo +nightly clippy",
        "mvn -q test",
        "./mvnw verify",
        "./gradlew :app:test",
        "gradle build",
        "make",
        "make check",
        "tsc --noEmit",
        "npx tsc -p .",
        "ruff check .",
        "ruff .",
        "mypy --strict src",
        "bundle exec rspec",
        "vendor/bin/phpunit",
        "dotnet test",
        "ctest --output-on-failure",
        "cmake --build build",
        "node --test",
        "black --check .",
        "python manage.py test",
        "python -m py_compile a.py",
        'bash -c "pytest -q"',
        "docker compose run app pytest",
    ],
)
def test_a_runner_of_tests_builds_or_linters_is_a_check(command: str) -> None:
    """Also behind launchers, variables and a change of folder."""
    assert use(command) == Use("check")


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("pip install pytest", "write"),
        ("npm install --save-dev jest", "other"),
        ("uv add mypy", "write"),
        ("grep -rn pytest setup.cfg", "read"),
        ("cat Makefile | grep test", "read"),
        ("which mypy", "read"),
        ("git commit -m 'make test pass'", "write"),
        ("git log --grep pytest", "read"),
        ("ruff format .", "other"),
        ("ls tests", "read"),
    ],
)
def test_a_command_that_names_a_check_is_none(command: str, role: str) -> None:
    """To install, look for or talk of a runner is not to run it."""
    assert use(command).role == role


@pytest.mark.parametrize(
    ("command", "piped"),
    [
        ("pytest | tail -5", True),
        ("pytest 2>&1 | tee log.txt", True),
        ("pytest |& head", True),
        ('bash -c "pytest | tail"', True),
        ("cd a && go test ./... | grep FAIL", True),
        ("set -o pipefail; pytest | tail -5", False),
        ("set -euo pipefail && pytest | tail -5", False),
        ("pytest | tee log; exit ${PIPESTATUS[0]}", False),
        ("pytest -k 'a|b'", False),
        ("pytest > log.txt 2>&1", False),
        ("pytest || echo failed", False),
    ],
)
def test_a_check_that_feeds_a_pipe_is_known(command: str, piped: bool) -> None:
    """Unless the shell keeps its status; a bar in quotes is no pipe."""
    assert use(command).role == "check"
    assert use(command).piped is piped


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        ("pytest || true", True),
        ("mypy src; echo done", True),
        ("make test; true", True),
        ("pytest && echo fine", False),
        ("cd a; pytest", False),
    ],
)
def test_a_status_behind_another_command_is_not_believed(
    command: str, masked: bool
) -> None:
    """Only what the check prints counts then."""
    step = Step(tool="bash", args={"command": command}, result="", error=False)

    assert use(command).masked is masked
    assert read_check(step, use(command), b"")[0] is (None if masked else True)


@pytest.mark.parametrize(
    ("output", "ok", "failures"),
    [
        ("==== 2 failed, 9 passed in 0.3s ====", False, 2),
        ("==== 11 passed, 2 xfailed in 0.3s ====", True, -1),
        ("5 passed, 1 error in 0.31s", False, 1),
        ("Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=2)", False, 2),
        ("Ran 5 tests in 0.1s\n\nOK", True, -1),
        ("Tests:       1 failed, 4 passed, 5 total", False, 1),
        (" Test Files  2 passed (2)\n      Tests  9 passed (9)", True, -1),
        ("--- FAIL: TestHalf (0.00s)\nFAIL\texample.com/a\t0.01s", False, -1),
        ("ok  \texample.com/a\t0.012s", True, -1),
        ("test result: FAILED. 3 passed; 2 failed; 0 ignored", False, 2),
        ("test result: ok. 5 passed; 0 failed; 0 ignored", True, 0),
        ("Tests run: 5, Failures: 1, Errors: 0, Skipped: 0", False, 1),
        ("Tests run: 5, Failures: 0, Errors: 0\nBUILD SUCCESS", True, 0),
        ("12 tests completed, 3 failed\nBUILD FAILED in 2s", False, 3),
        ("make: *** [Makefile:2: all] Error 2", False, -1),
        ("src/a.ts(3,5): error TS2322: Type\nFound 3 errors in 1 file.", False, 3),
        ("Found 2 errors in 1 file (checked 9 source files)", False, 2),
        ("Success: no issues found in 9 source files", True, -1),
        ("All checks passed!", True, -1),
        ("5 examples, 2 failures", False, 2),
        ("Tests: 5, Assertions: 8, Failures: 2.", False, 2),
        ("Failed!  - Failed:     2, Passed:     3, Total: 5", False, 2),
        ("100% tests passed, 0 tests failed out of 5", True, 0),
    ],
)
def test_the_output_of_a_runner_tells_how_it_went(
    output: str, ok: bool, failures: int
) -> None:
    """Where no exit status is known: pass or fail, and how many failures."""
    step = Step(tool="bash", args={"command": "make check"}, result=output)

    assert read_check(step, Use("check"), output.encode()) == (ok, failures)
