"""Names that a generator makes: firms and persons of invented words, some of them spelt in several ways.

The words are syllables joined by a seeded generator, so that no data set is copied and any number of names can be made.
"""

import random
from collections.abc import Iterator

_FIRST, _MIDDLE, _LAST, _TRADES, _FORMS = map(
    str.split,
    (
        "ba be bi bo bra bre da de di do dra fa fe fi fo fre ga ge go gra ha he hi ho ka ke ki ko kra la le li lo",
        "ba ber da den dra ga gen la len li lo ma men mi mo na nen ni ra ren ri ro sa sen si ta ten ti to va ven",
        "bach berg dal dorf feld ford gart hall heim holm hurst ing kov land lin man mann ner rad sen son stein ton",
        "Airways Analytics Bank Bearings Bridge Chemicals Clinics Energy Engines Foods Foundry Freight Glass Holdings "
        "Instruments Insurance Labs Logistics Marine Materials Media Metals Motors Optics Paper Partners Pharma Press "
        "Plastics Rail Research Shipping Software Solutions Steel Systems Textiles Timber Trading Water",
        "AG GmbH Inc. Ltd Ltd. LLC PLC S.A. SpA B.V. Oy AB",
    ),
)


def made_names(n: int, seed: int = 0) -> list[str]:
    """Make ``n`` names of firms; a quarter of them repeat an earlier one with another form, case or a typing error."""
    rng = random.Random(seed)
    names: list[str] = []
    words = _words(rng)
    while len(names) < n:
        if names and rng.random() < 0.25:
            names.append(_spelt_otherwise(rng, rng.choice(names)))
        else:
            names.append(f"{next(words)} {rng.choice(_TRADES)} {rng.choice(_FORMS)}")
    return names


def made_entities(n: int, seed: int = 0) -> Iterator[tuple[str, str, str]]:
    """Yield ``n`` rows of a knowledge base: an id, a name, and aliases joined by `|`."""
    rng = random.Random(seed + 1)
    for row, name in enumerate(made_names(n, seed)):
        yield f"F{row:07}", name, _spelt_otherwise(rng, name)


def _words(rng: random.Random) -> Iterator[str]:
    while True:
        middle = "".join(rng.choices(_MIDDLE, k=rng.randint(0, 2)))
        yield (rng.choice(_FIRST) + middle + rng.choice(_LAST)).capitalize()


def _spelt_otherwise(rng: random.Random, name: str) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return name.rpartition(" ")[0] or name
    if kind == 1:
        return name.upper()
    if kind == 2:
        return f"{name.rpartition(' ')[0] or name} {rng.choice(_FORMS)}"
    place = rng.randrange(len(name) - 1)
    return name[:place] + name[place + 1] + name[place] + name[place + 2 :]
