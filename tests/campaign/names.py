"""Names: a mention that is letter by letter the name of one entity is linked to it, in any order of the entities."""

import random
from pathlib import Path

from builders import document

import arbo
from campaign.runner import Campaign

_WORDS = ("AA", "aa", "mM", "mm", "hepatitis", "Hepatitis", "A", "B", "C", "C++", "C#", "CD4", "TNF", "α", "alpha", "β")
_WORDS += ("cells", "cell", "café", "cafe", "3'", "3", "pH", "10", "10%", "Ca2+", "Ca", "<5", ">5", "non", "x-ray")
_JOINS = (" ", "-", ", ", "/", "", "'s ", "+", " - ")


def _name(chance: random.Random) -> str:
    first, *more = (chance.choice(_WORDS) for _ in range(chance.randrange(1, 4)))
    rest = "".join(chance.choice(_JOINS) + word for word in more)
    return first + rest + chance.choice(("", "", "", "+", "-", "s", "'"))


def _selflink(seed: int, _: Path) -> None:
    chance = random.Random(seed)
    names = [*dict.fromkeys(_name(chance) for _ in range(chance.randrange(2, 13)))]
    entities = [arbo.Entity(f"E{number}", name) for number, name in enumerate(names)]
    chance.shuffle(entities)
    documents = [document(f"d{number}", name) for number, name in enumerate(names)]
    result = arbo.Linker(arbo.KnowledgeBase(entities)).link(documents)
    linked = {link.mention.text: link.entity_name for link in result.links}
    assert linked == {name: name for name in names}


_ASKS = "a mention that is letter by letter the name of one entity is linked to it"
CAMPAIGNS = {"selflink": Campaign(_selflink, _ASKS, many=20_000, few=50)}
