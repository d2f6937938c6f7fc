"""Brings what stands beside `docs/` into the site, and its links to where they lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
BESIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "THREAT_MODEL.md",
    "benchmarks/README.md",
    "examples/**/*.md",
    "examples/**/*.py",
    "examples/**/*.yml",
)
BESIDE_NAMES = (
    "examples/",
    "benchmarks/",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "THREAT_MODEL.md",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages, and the examples and texts that they link to."""
    for pattern in BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            urls = config.use_directory_urls
            files.append(File(name, str(ROOT), config.site_dir, urls))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with links as they are in the site, where `docs/` is the root."""
    depth = page.file.src_uri.count("/")
    up = "../" * (depth + 1)
    for name in BESIDE_NAMES:
        markdown = markdown.replace(f"]({up}{name}", f"]({'../' * depth}{name}")
    return markdown.replace(f"]({'../' * depth}docs/", f"]({'../' * depth}")
