"""The parent package of plugins that are files: `fedpan_exp.plugins.files.<stem>_<content>_<path>`.

The name holds the path, so that a process of a launcher can import what it unpickles without knowing of plugins,
and a hash of the content, so that an edited file is another module.
"""

import sys
from collections.abc import Sequence
from hashlib import blake2b
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType


def content_hash(*paths: Path) -> str:
    digest = blake2b(digest_size=4)
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def module_name(path: Path) -> str:
    stem = "".join(letter if letter.isalnum() else "_" for letter in path.stem)
    return f"{__name__}.{stem}_{content_hash(path)}_{str(path.resolve()).encode().hex()}"


class _PluginFinder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{__name__}."):
            return None
        _, content, location = fullname.rsplit("_", 2)
        file = Path(bytes.fromhex(location).decode())
        if content_hash(file) != content:
            raise ImportError(f"{file} has changed since the plugin was loaded; start again")
        return spec_from_file_location(fullname, file)


sys.meta_path.append(_PluginFinder())
