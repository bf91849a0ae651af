"""Random options, configurations and numbers for every verb: an answer, or an error that says what to change."""

import contextlib
import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import typer
from commands import asked

import arbo
from arbo.cli import app
from campaign.fuzz_folders import originals
from campaign.runner import Campaign
from clustering import METHODS, Graph, merge_tree, partition

_LEFT_OUT = {"demo", "explore", "serve", "train"}
"""Verbs that listen, or train for minutes."""
_NOT_TRIED = {"help", "workers", "encoder", "encoder_config", "reranker", "shards", "work", "settings_"}
_NUMBERS = "0 1 -1 2 0.35 0,35 nan inf -inf 1e309 1e-320 2147483647 2147483648"
_OTHERS = "none default jsonl minimax E1 X X=Disease 0.3,0.2 a-0 M same-name average"
_WORDS = [*_NUMBERS.split(), "9" * 30, *_OTHERS.split()]


@cache
def verbs() -> dict[tuple[str, ...], list[Any]]:
    """Return the parameters of each verb."""
    found: dict[tuple[str, ...], list[Any]] = {}
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        below = [((name, own), one) for own, one in getattr(command, "commands", {}).items()]
        for words, one in below or [((name,), command)]:
            if name not in _LEFT_OUT:
                found[words] = one.params
    return found


def _value(parameter: Any, folder: Path, chance: random.Random) -> str:
    """Draw a value that often fits a parameter."""
    files, name = originals(), parameter.name
    if name in ("out", "save", "cache", "files", "work"):
        return str(folder / chance.choice(["out", "out.jsonl", "out.json", "out.tsv", "out-curve.svg", "deep/er/out"]))
    if chance.random() < 0.75:
        if name in ("docs", "documents", "train", "dev", "gold", "corpus", "parts", "key", "response"):
            return str(files[chance.choice(["docs.jsonl", "two.jsonl"])])
        if name == "kb":
            return str(files["kb.jsonl"])
        if name in ("run", "runs", "before", "a", "b", "run_a", "run_b", "earlier", "later"):
            return str(files[chance.choice(["plain", "corrected", "found"])])
        if name == "corrections":
            return str(files["corrections.jsonl"])
        choices = getattr(getattr(parameter, "type", None), "choices", None)
        if choices:
            return str(chance.choice(sorted(map(str, choices))))
    if chance.random() < 0.1:
        return str(chance.choice(sorted(files.values())))
    drawn = chance.choice(_WORDS) if chance.random() < 0.8 else mutations.text(chance)
    return drawn.encode("utf-8", "replace").decode().replace("\0", "")


def _options(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    words, parameters = chance.choice(sorted(verbs().items(), key=lambda item: item[0]))
    given: list[str] = [*words]
    for one in parameters:
        is_argument, wanted = one.param_type_name == "argument", one.required or one.name in ("docs", "kb")
        if one.name in _NOT_TRIED or "open" in one.opts or chance.random() >= (0.97 if wanted else 0.12):
            continue
        if is_argument:
            given += [_value(one, folder, chance) for _ in range(2 if chance.random() < 0.1 else 1)]
        elif one.is_flag:
            given.append(one.opts[0])
        else:
            given += [one.opts[0], _value(one, folder, chance)]
    with contextlib.chdir(folder):  # some verbs write beside their inputs, or where they are
        asked(*given)


_CONFIG = {**arbo.LinkerConfig().as_dict(), "entity_threshold": 0.35, "mention_threshold": 0.2}
_CONFIDENCE = {"intercept": 0.5, "weights": [1.0, 0.5], "names": ["score", "margin"]}


def _configurations(seed: int, folder: Path) -> None:
    chance, files = random.Random(seed), originals()
    config = mutations.changed(_CONFIG, chance)
    if chance.random() < 0.5 and isinstance(config, dict):
        key = chance.choice(sorted(_CONFIG))
        others = "average", "minimax", "undirected", "none", None, _CONFIDENCE
        config[key] = chance.choice([*mutations.EXTREMES, *others])
    whole: Any = {"config": config, "encoder": chance.choice([None, {}, {"model": "x"}]), "edges": None}
    if chance.random() < 0.2:
        whole = mutations.changed(whole, chance)
    file = folder / "tuned.json"
    content = json.dumps(whole).encode()
    file.write_bytes(mutations.mutated(content, chance) if chance.random() < 0.1 else content)
    job = "link", files["docs.jsonl"], "--kb", files["kb.jsonl"], "--config", file
    told = asked(*job, "--out", folder / "run", "--json")
    if isinstance(told, dict):
        asked("explain", folder / "run", "a-1")
        run = arbo.Result.load(folder / "run")
        assert len(run.links) == 8, "a mention is lost"
        again = arbo.LinkerConfig.from_dict(run.manifest["config"])
        assert again.as_dict() == arbo.LinkerConfig.from_json(file).as_dict(), "the configuration comes back"


def _numbers(seed: int, folder: Path) -> None:
    """Try the engine and the linker with weights, vectors and thresholds at the ends of their types."""
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    extreme = [0.0, -0.0, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38, 1.0, 0.5, float("inf"), float("-inf"), float("nan")]
    n, n_entities, n_edges = chance.randint(1, 7), chance.randint(0, 2), chance.randint(0, 14)
    kind = chance.choice([np.float32, np.float64])
    with np.errstate(all="ignore"):
        weight = rng.choice(extreme[: chance.choice([9, 9, 9, 12])], n_edges).astype(kind)
    low, high = chance.choice([(0, n + n_entities), (0, n + n_entities), (-1, 2**31)])
    source, target = (rng.integers(low, high, n_edges).astype(chance.choice([np.int32, np.int64])) for _ in range(2))
    threshold = chance.choice([*extreme, None, 2**31, 1e300])
    try:
        graph = Graph.from_edges(source, target, weight, n_entities=n_entities, n_nodes=n + n_entities)
        found = partition(graph, method=chance.choice(METHODS), threshold=threshold)
    except (ValueError, TypeError) as error:
        problem = str(error)
        assert len(problem) > 10
        return
    assert len(found.labels) == n + n_entities
    held = found.weight[n_entities:][found.parent[n_entities:] >= 0]
    with np.errstate(over="ignore"):
        assert threshold is None or (held <= kind(threshold)).all()
    for node in range(n + n_entities):
        assert found.path(node)[-1] == node
    merge_tree(graph).cut(0.1)


CAMPAIGNS = {
    "verbs": Campaign(_options, "options of any value give an answer or a clear error", 40_000, 50, seconds=120),
    "configurations": Campaign(_configurations, "a configuration is refused, or obeyed and kept", many=20_000, few=12),
    "numbers": Campaign(_numbers, "the engine takes extreme numbers, or refuses them", many=100_000, few=300),
}
