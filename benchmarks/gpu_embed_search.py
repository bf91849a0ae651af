"""A large corpus on one GPU: 120,000 mentions and 2.3 million entities embedded, their neighbours found exactly.

A model of the size of BERT-base with random weights, in bfloat16, reads made-up words that are one token each: names of
8 to 52 words, 30 on average, and mentions whose windows into documents of 1,000 words are 128 tokens full. Vectors are
the mean over the tokens. `entities.seconds` and `mentions.seconds` count everything from texts to vectors on the
processor, spelling included; `search.seconds` the 16 nearest entities and the 8 nearest other mentions of each mention
(`clustering.knn.nearest`, the matrix products by torch). `seconds` is their sum. Making the model and the texts, and
compiling the kernels, are left out. The script stops where a sample of the lists is not what products of all vectors
say.

`--entities` and `--mentions` take fewer, so that parts can be measured apart: embedding grows with either, the search
with their product. Figures are printed; they are recorded only on a GPU, with the full numbers.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from library.command import parser_of
from library.results import Figures, record, say
from library.timing import seconds
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import arbo
from arbo.data import MentionInput
from arbo.data.documents import Document, Mention
from arbo.retrieval.gpu import torch_scanner
from clustering.knn import Neighbors, nearest
from clustering.vectors import Vectors, offset_of, unit

ENTITIES, MENTIONS = 2_300_000, 120_000
N_ENTITIES, N_MENTIONS = 16, 8
N_WORDS, WORDS_A_DOCUMENT, MENTIONS_A_DOCUMENT = 30_000, 1000, 10
CONFIG = arbo.EncoderConfig(
    mention="[CLS] {left} {mention} {right} [SEP]", entity="[CLS] {name} [SEP]", entity_view="whole", max_length=128
)

T = TypeVar("T")


def save_model(folder: Path, *, tiny: bool) -> None:
    """Write a model with random weights, and a tokenizer that knows the made-up words."""
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    vocabulary = [*special.values(), *words()]
    pieces = {word: id_ for id_, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    config = BertConfig(vocab_size=len(vocabulary))
    if tiny:
        config.update({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2})
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)  # type: ignore[no-untyped-call]


def words() -> list[str]:
    """Make up the words."""
    return [f"w{number}" for number in range(N_WORDS)]


def knowledge_base(n: int) -> arbo.KnowledgeBase:
    """Draw entities."""
    rng, known = np.random.default_rng(0), np.array(words(), object)

    def entities() -> Iterator[arbo.Entity]:
        for number, length in enumerate(rng.integers(8, 53, n)):
            yield arbo.Entity(f"E{number}", " ".join(known[rng.integers(0, N_WORDS, length)]))

    return arbo.KnowledgeBase(entities())


def mention_inputs(n: int) -> list[MentionInput]:
    """Draw documents, and mark words in the middle of each tenth of them."""
    rng, known = np.random.default_rng(1), np.array(words(), object)
    inputs: list[MentionInput] = []
    step = WORDS_A_DOCUMENT // MENTIONS_A_DOCUMENT
    while len(inputs) < n:
        id_ = f"D{len(inputs)}"
        drawn = known[rng.integers(0, N_WORDS, WORDS_A_DOCUMENT)]
        start = np.cumsum([0, *(len(word) + 1 for word in drawn)])
        mentions = tuple(
            Mention(f"{id_}.{place}", id_, ((int(start[place]), int(start[place + 1] - 1)),), drawn[place])
            for place in range(step // 2, WORDS_A_DOCUMENT, step)
        )
        document = Document(id_, " ".join(drawn), mentions)
        inputs += [MentionInput(mention.text, mention, document) for mention in mentions]
    return inputs[:n]


def measure(n_entities: int, n_mentions: int, device: str, *, tiny: bool) -> Figures:
    """Embed and search."""
    with tempfile.TemporaryDirectory() as folder:
        save_model(Path(folder), tiny=tiny)
        encoder = arbo.DualEncoder.from_pretrained(folder, CONFIG, device=device, precision="bfloat16")
    kb, inputs = knowledge_base(n_entities), mention_inputs(n_mentions)
    scanner = torch_scanner(device)
    few = encoder.encode_mentions(inputs[:20])
    assert isinstance(few, Vectors)
    nearest(few, few, 2, scanner=scanner)  # compiles the kernels, and starts the device

    spent: Figures = {}
    entities = timed(spent, "entities", lambda: encoder.encode_entities(kb))
    mentions = timed(spent, "mentions", lambda: encoder.encode_mentions(inputs))
    assert isinstance(entities, Vectors)
    assert isinstance(mentions, Vectors)
    found = timed(spent, "search", lambda: nearest(mentions, entities, N_ENTITIES, scanner=scanner))
    own = np.arange(n_mentions)
    timed(spent, "search", lambda: nearest(mentions, mentions, N_MENTIONS, self_ids=own, scanner=scanner))
    check(found, mentions, entities)
    assert "faiss" not in sys.modules
    figures = {f"{what}.seconds": value for what, value in spent.items()}
    return {"entities": n_entities, "mentions": n_mentions, **figures, "seconds": sum(spent.values())}


def timed(spent: Figures, what: str, call: Callable[[], T]) -> T:
    """Add the seconds of a call, whose results are on the processor when it ends."""
    own, value = seconds(call)
    spent[what] = spent.get(what, 0) + own
    say(f"{what} {spent[what]:.1f} s")
    return value


def check(found: Neighbors, mentions: Vectors, entities: Vectors) -> None:
    """Compare the lists of a few mentions with the products of their vectors and all others."""
    few = min(8, mentions.n)
    queries = mentions.taken(np.arange(few))
    products = unit(queries.matrix)[queries.row] @ unit(entities.matrix).T
    largest = -np.sort(-products, axis=1)[:, :N_ENTITIES]
    claimed = offset_of("cosine") - found.dissimilarity[:few, : largest.shape[1]]
    assert np.allclose(claimed, largest, atol=1e-4), "the lists are not those of the nearest"


def main() -> None:
    """Measure everything; record it if all of it was measured, on a GPU."""
    parser = parser_of(__doc__)
    parser.add_argument("--entities", type=int, default=ENTITIES, help="how many (default: %(default)s)")
    parser.add_argument("--mentions", type=int, default=MENTIONS, help="how many (default: %(default)s)")
    parser.add_argument("--device", default="cuda", help="of torch (default: %(default)s)")
    parser.add_argument("--tiny", action="store_true", help="a model of two layers, to see that the script works")
    given = parser.parse_args()
    figures = measure(given.entities, given.mentions, given.device, tiny=given.tiny)
    print(json.dumps(figures, indent=2))
    is_whole = (given.entities, given.mentions) == (ENTITIES, MENTIONS) and not given.tiny
    if is_whole and torch.device(given.device).type == "cuda":
        rows = [{"device": torch.cuda.get_device_name(given.device), "torch": torch.__version__}]
        record("gpu_embed_search", figures, {"device": rows})


if __name__ == "__main__":
    main()
