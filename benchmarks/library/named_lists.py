"""Lists of names with known clusters, from which the names model learns: made ones, names of texts, and synonyms.

Made names are syllables and words of texts, with frequencies by Zipf's law, in the ways that people write the same
firm, person or product: other legal forms, abbreviations, initials, titles, order, case, accents, typing errors.
"""

import random
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np

_FIRST, _MIDDLE, _LAST, _TRADES, _TITLES, _THINGS = map(
    str.split,
    (
        "ba be bi bo bra bre da de di do dra fa fe fi fo fre ga ge go gra ha he hi ho ka ke ki ko kra la le li lo "
        "ma mi mo na ne no pa pe po ra re ri ro sa se si so sta ste ta te ti to tra u va ve vi wa we wi za",
        "ba ber da den dra ga gen la len li lo ma men mi mo na nen ni ra ren ri ro sa sen si ta ten ti to va ven",
        "bach berg dal dorf feld ford gart hall heim holm hurst ing kov land lin man mann ner rad sen son stein "
        "ton a e i o ez ini ova ski us an er ard elle ette ique",
        "Airways Airlines Analytics Bank Bearings Bridge Chemicals Clinics Consulting Energy Engines Engineering "
        "Foods Foundry Freight Glass Insurance Instruments Labs Laboratories Logistics Manufacturing Marine "
        "Materials Media Metals Motors Optics Paper Partners Pharmaceuticals Pharma Press Plastics Publishing "
        "Rail Research Services Shipping Software Solutions Steel Systems Technologies Textiles Timber Trading "
        "Transport Water Industries International Communications Development Management",
        "Mr Mrs Ms Dr. Prof. Sir Dr Prof Professor Herr Frau Mme",
        "Pump Lens Notebook Valve Compressor Airliner Camera Printer Drill Monitor Router Engine Scanner Speaker "
        "Battery Tractor Sensor Charger Mixer Oven Keyboard Phone Tablet Motor Amplifier",
    ),
)
_SHORT = {
    long: short.split("|")
    for long, short in (
        pair.split("=")
        for pair in [
            "Engineering=Eng.|Engr",
            "Manufacturing=Mfg.|Mfg",
            "Insurance=Ins.",
            "Logistics=Log.|Logist.",
            "Laboratories=Labs|Lab.",
            "Pharmaceuticals=Pharma|Pharm.",
            "Technologies=Tech.|Tech",
            "International=Intl|Intl.",
            "Services=Svcs|Serv.",
            "Publishing=Publ.|Pub.",
            "Industries=Ind.",
            "Systems=Sys.",
            "Management=Mgmt",
            "Development=Dev.",
            "Communications=Comm.",
            "Airlines=Airl.",
            "Transport=Transp.",
            "Consulting=Cons.",
            "Chemicals=Chem.",
            "Research=Res.",
            "Software=Softw.",
        ]
    )
}
_FORMS = [
    forms.split("|")
    for forms in [
        "AG|A.G.|Aktiengesellschaft",
        "GmbH|G.m.b.H.|GmbH & Co. KG|mbH",
        "Inc.|Inc|Incorporated",
        "Ltd|Ltd.|Limited",
        "LLC|L.L.C.",
        "PLC|plc",
        "S.A.|SA",
        "SARL|S.A.R.L.|S.à r.l.",
        "SAS|S.A.S.",
        "S.p.A.|SpA",
        "S.r.l.|Srl",
        "B.V.|BV",
        "N.V.|NV",
        "Oy|Oyj",
        "AB|Aktiebolag",
        "A/S|AS|ApS",
        "Corp.|Corporation",
        "Co.|Company",
        "KG",
        "SE",
        "Sp. z o.o.",
        "K.K.",
        "Pty Ltd",
        "S.L.",
        "Lda.",
    ]
]
_CODES = ["MK ", "XR-", "X", "Series ", "Model ", "", "Mark ", "T", "V", "GT-"]
_MARKS = {"a": "áäåàâ", "e": "éèêë", "i": "íï", "o": "öóøô", "u": "üúû", "c": "ç", "n": "ñ", "s": "š", "z": "ž"}
KINDS = ("firms", "persons", "products")


class NamedList(NamedTuple):
    """Names, and the cluster of each."""

    names: list[str]
    clusters: list[int]


def made_list(kind: str, n: int, seed: int, words: Sequence[str] = (), skew: float = 0.75) -> NamedList:
    """Make about ``n`` names of one of `KINDS`; half of their words are of ``words``, and few words are frequent."""
    maker = _Maker(random.Random(seed), max(n // 3, 150), words, skew)
    rows: list[tuple[str, int]] = []
    known: set[tuple[str, ...]] = set()
    for cluster in count():
        if len(rows) >= n:
            break
        entity = getattr(maker, kind)()
        if entity in known:
            continue
        known.add(entity)
        written = getattr(maker, f"{kind}_written")
        rows += [(written(*entity), cluster) for _ in range(max(1, min(60, int(maker.random.paretovariate(1.2)))))]
    maker.random.shuffle(rows)
    return NamedList([name for name, _ in rows], [cluster for _, cluster in rows])


def capitalised(names: Sequence[str]) -> list[str]:
    """Return the longer words of names that begin with a capital, each once."""
    return sorted(
        {word for name in names for word in name.split() if word[0].isupper() and word.isalpha() and word[3:]}
    )


class _Maker:
    """Makes entities, and writes each in several ways."""

    def __init__(self, generator: random.Random, n: int, words: Sequence[str], skew: float) -> None:
        self.random = generator
        pool = [generator.choice(words) if words and generator.random() < 0.5 else self._new() for _ in range(n)]
        self.pool = list(dict.fromkeys(pool))
        self.share = np.cumsum(np.arange(1.0, len(self.pool) + 1) ** -skew).tolist()

    def _new(self) -> str:
        choice = self.random.choice
        middle = "".join(self.random.choices(_MIDDLE, k=choice((0, 0, 1, 1, 2))))
        word = choice(_FIRST) + middle + choice(_LAST)
        at = self.random.randrange(len(word))
        if word[at] in _MARKS and self.random.random() < 0.3:
            word = word[:at] + choice(_MARKS[word[at]]) + word[at + 1 :]
        return word.capitalize()

    def word(self) -> str:
        return self.random.choices(self.pool, cum_weights=self.share)[0]

    def happens(self, share: float) -> bool:
        return self.random.random() < share

    def firms(self) -> tuple[str, ...]:
        base, kind = self.word(), self.random.random()
        if kind < 0.25:
            base += (" & " if self.happens(0.7) else " and ") + self.word()
        elif kind < 0.4:
            base += self.random.choice("- ") + self.word()
        elif kind < 0.45:
            base = f"{self.word()} of {base}"
        trade = self.random.choice(_TRADES) if self.happens(0.85) else ""
        return base, f"{self.random.choice(_TRADES)} {trade}".strip() if self.happens(0.12) else trade

    def firms_written(self, base: str, trade: str) -> str:
        form = _FORMS[sum(map(ord, base + trade)) % len(_FORMS)]
        form = form if self.happens(0.8) else self.random.choice(_FORMS)
        if self.happens(0.12):
            trade = " ".join(self.random.choice(_SHORT.get(word, [word])) for word in trade.split())
        if self.happens(0.12):
            other = self.random.choice([" & ", "& ", " &", "&"])
            base = base.replace(" & ", " and ") if " & " in base else base.replace(" and ", other)
        name = " ".join(filter(None, (base, trade)))
        if self.happens(0.75):
            name += (", " if self.happens(0.15) else " ") + self.random.choice(form)
        return self._changed(name, lower=0.05)

    def persons(self) -> tuple[str, ...]:
        middle = self.word() if self.happens(0.3) else ""
        return self.word(), f"{middle[0]}." if middle and self.happens(0.15) else middle, self.word()

    def persons_written(self, given: str, middle: str, surname: str) -> str:
        kind, first = self.random.random(), " ".join(filter(None, (given, middle)))
        initials = [f"{word[0]}." for word in first.split()]
        name = f"{first} {surname}"
        if kind < 0.12:
            name = f"{surname}, {first}"
        elif kind < 0.16:
            name = " ".join([*initials, surname])
        elif kind < 0.2:
            name = f"{initials[0]} {surname}"
        elif kind < 0.22:
            name = f"{''.join(initials)} {surname}"
        elif kind < 0.24:
            name = f"{given} {surname}"
        elif kind < 0.34:
            name = f"{self.random.choice(_TITLES)} {name}"
        return self._changed(name)

    def products(self) -> tuple[str, ...]:
        number = self.random.choice((range(2, 100), range(100, 1000), range(1000, 3000)))
        end = self.random.choice(["a", "b", "s", " Pro", " II"]) if self.happens(0.08) else ""
        code = f"{self.random.choice(_CODES)}{self.random.choice(number)}{end}"
        return self.word(), code, self.random.choice(_THINGS)

    def products_written(self, brand: str, code: str, thing: str) -> str:
        kind = self.random.random()
        if self.happens(0.1):
            code = code.replace(" ", "").replace("-", "") if self.happens(0.6) else code.replace("-", " ")
        words = [brand, code, thing]
        if kind < 0.12:
            words = [brand, thing, code]
        elif kind < 0.22:
            words = [brand, code]
        if self.happens(0.1):
            words = [self._typo(word) if word in (brand, thing) and self.happens(0.6) else word for word in words]
        name = " ".join(words)
        return name.upper() if self.happens(0.1) else name

    def _changed(self, name: str, lower: float = 0.0) -> str:
        if self.happens(0.08):
            name = "".join(c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
        if self.happens(0.14):
            name = self._typo(name)
        case = self.random.random()
        return name.upper() if case < 0.12 else name.lower() if case < 0.12 + lower else name

    def _typo(self, name: str) -> str:
        at, letter = self.random.randrange(len(name)), self.random.choice("abcdefghijklmnopqrstuvwxyz")
        ends = [
            name[at + 1 :],
            letter + name[at:],
            letter + name[at + 1 :],
            name[at + 1 : at + 2] + name[at] + name[at + 2 :],
        ]
        return name[:at] + self.random.choice(ends)


def synonyms_of(entities: Iterator[tuple[str, ...]], most: int, seed: int) -> NamedList:
    """Return the names of entities in a seeded order, at least ``most`` if there are so many."""
    every = list(entities)
    random.Random(seed).shuffle(every)
    rows: list[tuple[str, int]] = []
    for cluster, names in enumerate(every):
        if len(rows) >= most:
            break
        rows += [(name, cluster) for name in dict.fromkeys(names)]
    return NamedList([name for name, _ in rows], [cluster for _, cluster in rows])
