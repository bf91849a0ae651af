"""An encoder of disease names: MiniLM, aligned on the names of MEDIC, the Disease Ontology and the HPO together."""

from dataclasses import replace

import arbo
from arbo.formats import read_knowledge_base
from library.cells import hashed, key
from library.folders import CACHE, DATA, MODELS
from library.medic import ONE_A_NAME, ONE_AN_ENTITY, TRAININGS, align

MEDIC = "medic/medic_06Jul2012.txt"
OTHERS = "disease_ontology/HumanDO_2015-11-11.obo.gz", "gsc_plus/hp_2013-11-30.obo.gz"
CONFIG = replace(TRAININGS["aligned"], steps=None, precision="bfloat16")
"""An epoch, where `library.medic` takes 200 steps of MEDIC alone."""
SETTINGS = ONE_AN_ENTITY, CONFIG, [MEDIC, *OTHERS]


def diseases() -> arbo.KnowledgeBase:
    """Return MEDIC with what the others name; entities with an id of MEDIC or UMLS in common are one."""
    medic = read_knowledge_base(DATA / MEDIC, "medic")
    names = {entity.id: dict.fromkeys((entity.name, *entity.aliases)) for entity in medic}
    known: dict[str, str] = {}
    for entity in medic:
        for id_ in (entity.id, *entity.alternative_ids):
            known.setdefault(id_.rpartition(":")[2], entity.id)
    for path in OTHERS:
        for entity in read_knowledge_base(DATA / path, "obo"):
            of_medic, of_umls = (_ids(entity, *of) for of in (("MSH", "MESH", "OMIM"), ("UMLS", "UMLS_CUI")))
            own = next((known[id_] for id_ in (*of_medic, *of_umls) if id_ in known), entity.id)
            for id_ in of_umls:
                known.setdefault(id_, own)
            names.setdefault(own, {}).update(dict.fromkeys((entity.name, *entity.aliases)))
    return arbo.KnowledgeBase(arbo.Entity(id_, name, tuple(rest)) for id_, (name, *rest) in names.items())


def _ids(entity: arbo.Entity, *sources: str) -> list[str]:
    """Return the ids that an entity has in some sources."""
    ids = (xref.split(":", 1) for xref in entity.xrefs)
    return [number for source, number in ids if source.upper() in sources]


def aligned() -> arbo.DualEncoder:
    """Return the encoder, trained if it is not there."""
    out = MODELS / key("diseases", "aligned", hashed(SETTINGS))
    if not out.is_dir():
        align(diseases(), CONFIG, out)
    return arbo.DualEncoder.from_pretrained(out, ONE_A_NAME, cache=CACHE)
