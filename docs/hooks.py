"""MkDocs hook: adds the generated page of all settings."""

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from settings_page import page


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, "settings.md", content=page()))
    return files
