"""The settings of the cross-encoder."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from arbo.encoders.encoder_config import EncoderConfig
from arbo.errors import UsageError
from arbo.settings import Count, Number, Range, Settings, Share

PairPooling = Literal["cls", "mean"]
_MOST = 1e30  # its product with a similarity still fits in float32
_Weight = Annotated[float, Range(f"a number from 0 to {_MOST:g}", 0, _MOST)]


@dataclass(frozen=True, slots=True)
class CrossEncoderConfig(Settings):
    """Settings of the cross-encoder: its input for a mention and an entity, and the pooling of its output.

    A pair is one sequence: the mention, then the entity. The defaults are those of the ArboEL paper (section 3.3).
    """

    format: ClassVar[str] = "arbo-cross-encoder"
    called: ClassVar[str] = "the cross-encoder's configuration"

    mention: str = "[CLS] {left} [START] {mention} [END] {right} [SEP]"
    """Template of a mention, with the fields of `EncoderConfig.mention`."""
    entity: str = "{name} [TITLE] {description} [SEP]"
    """Template of an entity, with the fields of `EncoderConfig.entity`; without ``[CLS]``, as it comes second."""
    pooling: PairPooling = "cls"
    """Vector from which the score is computed: that of the first token (``cls``) or the mean of all (``mean``)."""
    context: Number | None = None
    """Maximum number of words on either side of the mention; None means as many as fit."""
    within_line: bool = False
    """Restrict the context to the line of the mention, for texts with one sentence per line."""
    max_length: Count = 256
    """Maximum number of tokens per pair, including special tokens. Each part gets half, plus what the other does not
    use."""
    candidates: Count = 64
    """Number of candidates per mention in training and, by default, in `arbo link`; in Python, a `Linker` with this
    reranker reads `LinkerConfig.candidates` of them."""
    retrieval_weight: _Weight = 0.0
    """Weight of the similarity from retrieval, which is added to the score. It is also added in training, so that the
    cross-encoder learns to correct the retrieval. 0 leaves the similarity out, as the papers do."""
    entity_threshold: Share = 0.5
    """Default threshold on 1 minus the probability of an entity among the candidates; see
    `arbo.retrieval.reranking`."""

    def __post_init__(self) -> None:
        Settings.__post_init__(self)
        template = self.reading.templates()[1]
        if template.parts[0].text == "[CLS]":
            raise UsageError(f"template {self.entity!r} is the second part of a sequence; leave out its [CLS]")

    @property
    def reading(self) -> EncoderConfig:
        """The settings for reading each part alone."""
        return EncoderConfig(
            mention=self.mention,
            entity=self.entity,
            entity_view="whole",
            context=self.context,
            within_line=self.within_line,
            max_length=self.max_length,
        )


CROSS_PRESETS: Mapping[Literal["arboel", "pel"], CrossEncoderConfig] = {
    "arboel": CrossEncoderConfig(),
    "pel": CrossEncoderConfig(
        mention="[CLS] {left} [Ms] {mention} [Me] {right} [SEP]",
        entity="{name} [SEP] {types} [SEP] {description} [SEP]",
        pooling="mean",
        candidates=16,
    ),
}
"""Settings of the papers' cross-encoders: ArboEL (section 3.3, appendix A.1), proxy paper (appendix B, table 6)."""
