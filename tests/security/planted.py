"""Secrets of every common kind, none of them real, put together where they are used.

They are written in parts, so that scanners of repositories pass over this file.
"""

from __future__ import annotations

HEX, LETTERS = "0123456789abcdef" * 4, "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY" * 4

KEYS = {
    "openai": "sk-" + LETTERS[:40],
    "anthropic": "sk-ant-api03-" + LETTERS[:80],
    "aws": "AKIA" + "Q7WERTYUIOPASDF2",
    "aws_session": "ASIA" + "Q7WERTYUIOPASDF2",
    "google": "AIza" + LETTERS[:35],
    "google_oauth": "ya29." + LETTERS[:60],
    "github": "ghp_" + LETTERS[:36],
    "github_refresh": "ghr_" + LETTERS[:36],
    "github_fine": "github_pat_" + LETTERS[:60],
    "gitlab": "glpat-" + LETTERS[:20],
    "gitlab_runner": "glrt-" + LETTERS[:20],
    "slack": "xox" + "b-123456789012-123456789012-" + LETTERS[:24],
    "slack_legacy": "xox" + "o-523423-234243-234233-" + HEX[:20],
    "slack_app": "xapp-" + "1-A0123456-" + LETTERS[:24],
    "stripe": "sk_" + "live_" + LETTERS[:24],
    "twilio": "SK" + HEX[:32],
    "sendgrid": "SG." + LETTERS[:22] + "." + LETTERS[:43],
    "mailchimp": HEX[:32] + "-us12",
    "telegram": "123456789:" + LETTERS[:35],
    "discord": "M" + LETTERS[:23] + "." + LETTERS[:6] + "." + LETTERS[:27],
    "square": "sq0csp-" + LETTERS[:43],
    "npm": "npm_" + LETTERS[:36],
    "pypi": "pypi-AgE" + "IcHlwaS5vcmc" + LETTERS[:80],
    "hugging_face": "hf_" + LETTERS[:34],
    "groq": "gsk_" + LETTERS[:52],
    "langsmith": "lsv2_pt_" + HEX[:32] + "_" + HEX[:10],
    "jwt": "eyJ" + LETTERS[:30] + "." + LETTERS[:40] + "." + LETTERS[:43],
}
"""Keys that are known by their look."""

NAMED = {
    "password": ("DB_PASSWORD={}", "kitten-on-the-keys"),
    "token": ("session token: {}", "t0ken.of.mine"),
    "bearer": ("Authorization: Bearer {}", "opaque.9"),
    "basic": ("Authorization: Basic {}", "a2l0dGVuOm1pbmU="),
    "cookie": ("Set-Cookie: {}", "sid=8fe1c0"),
    "azure": ("AccountName=x;AccountKey={};", LETTERS[:86] + "=="),
    "aws_secret": ("aws_secret_access_key = {}", LETTERS[:40]),
    "ado": ("Server=db;Uid=me;Pwd={};", "k1tten!"),
    "postgres": ("postgresql://app:{}@db.local/main", "pg-kitten"),
    "redis": ("redis://:{}@cache.local/0", "redis-kitten"),
    "flag": ("deploy --api-key {} --now", "flagged-kitten"),
    "assigned": ("api_key := {}", "assigned-kitten"),
    "pw": ("mail_pw='{}'", "pw-kitten"),
    "pwd": ("mail-pwd = {}", "pwd-kitten"),
    "pass": ('db_pass="{}"', "pass-kitten"),
    "telegram_path": ("api.telegram.org/bot{}/getMe", "123456789:" + LETTERS[:35]),
    "pem": (
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----",
        LETTERS[:64],
    ),
}
"""Secrets that are known by what stands around them: a text for each."""

TEXTS = {name: ("see {} here", key) for name, key in KEYS.items()} | NAMED
"""Every kind: a text with a place, and what is secret in it."""
