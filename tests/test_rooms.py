"""The house's doors: which room may import which."""

import ast
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "fedpan_exp"
HALL = {
    "checks",
    "randomness",
    "console",
    "folders",
    "atomic",
    "stopping",
    "torchrun",
}  # open to all, import nothing but each other
DOORS = {
    "__init__": {"torchvision_guard"},
    "__main__": {"cli"},
    "torchvision_guard": set(),
    **dict.fromkeys(HALL, HALL),
    "data": HALL,
    "neurons": set(),
    "models": HALL | {"neurons"},
    "training": HALL | {"models", "data"},
    "algorithms": HALL | {"training"},
    "federation": HALL | {"algorithms", "training", "data"},
    "probes": HALL | {"data", "federation", "models", "neurons", "training"},
    "tracking": HALL,
    "report": HALL | {"tracking"},
    "experiment": HALL | {"algorithms", "data", "federation", "models", "probes", "tracking", "training"},
    "studies": HALL
    | {"experiment", "algorithms", "data", "federation", "models", "neurons", "probes", "tracking", "training"},
    "config": HALL | {"experiment", "algorithms", "models", "studies", "sweeping"},
    "help": HALL,
    "sweeping": HALL | {"config", "experiment", "federation", "refusals", "studies", "tracking"},
    "ledger": HALL | {"tracking"},
    "thermometer": HALL | {"neurons", "report", "tracking"},
    "dashboard": HALL | {"tracking"},
    "refusals": HALL,
    "outcome": HALL | {"tracking"},
    "cli": HALL | {"config", "experiment", "help", "refusals", "outcome", "report", "sweeping", "tracking"},
}


def imports(file: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fedpan_exp":
            inner = (node.module or "").split(".")[1:]
            rooms |= {inner[0]} if inner else {alias.name for alias in node.names}
    return rooms


def test_rooms_use_only_their_doors():
    seen = set()
    for file in HOUSE.rglob("*.py"):
        room = file.relative_to(HOUSE).parts[0].removesuffix(".py")
        seen.add(room)
        strange = imports(file) - DOORS[room] - {room}
        assert not strange, f"{file.name}: {room} may not use {strange}"
    assert seen == DOORS.keys()
