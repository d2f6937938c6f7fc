"""A small repository, and the tools to look around in it: what the demo works on."""

from __future__ import annotations

from langchain_core.tools import tool

FILES = {
    "README.md": "# kiln\nA job server. Start it with `kiln serve`.\n"
    "See docs/ for the manual.\n",
    "docs/install.md": "# Install\nNeeds Python 3.11.\nInstall with pip.\n",
    "docs/settings.md": "# Settings\nSettings are read from config/default.toml.\n"
    "Each one can be set in the environment as KILN_NAME.\n",
    "docs/retries.md": "# Retries\nA failed job is tried again after a pause.\n"
    "The pause doubles each time.\n",
    "docs/security.md": "# Security\nRequests carry a token.\n"
    "Tokens are checked in src/auth.py.\n",
    "docs/changes.md": "# Changes\n2.1: jobs have priorities.\n2.0: tokens.\n",
    "config/default.toml": "port = 8471\nworkers = 4\ntimeout_seconds = 45\n"
    "max_attempts = 6\n",
    "src/server.py": "def serve(settings):\n    listen(settings.port)\n",
    "src/auth.py": "TOKEN_HOURS = 12\n\ndef check(token):\n"
    "    return token.age_hours < TOKEN_HOURS\n",
    "src/jobs.py": "PRIORITIES = ('low', 'normal', 'urgent')\n",
    "src/store.py": "class Store:\n    path = 'kiln.db'\n",
    "tests/test_auth.py": "def test_an_old_token_is_refused():\n"
    "    assert not check(old_token)\n",
}


@tool
def search_docs(query: str) -> str:
    """Find lines in all files that contain the query."""
    hits = [
        f"{path}:{number}: {line}"
        for path, text in FILES.items()
        for number, line in enumerate(text.splitlines(), 1)
        if query.lower() in line.lower()
    ]
    return "\n".join(hits) or f"No line contains {query!r}."


@tool
def read_file(path: str) -> str:
    """Read one file."""
    return FILES.get(path) or f"Error: there is no file {path!r}."


@tool
def list_dir(path: str) -> str:
    """List the files in a folder; `.` is the root."""
    prefix = "" if path in ("", ".", "/") else path.strip("/") + "/"
    names = [name for name in FILES if name.startswith(prefix)]
    return "\n".join(names) or f"Error: there is no folder {path!r}."
