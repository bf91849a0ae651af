"""Presets: the settings of papers where they differ from the defaults, which also stand where a paper gives none."""

from collections.abc import Mapping

from arbo.encoders.cross import CrossEncoderConfig
from arbo.encoders.encoder_config import EncoderConfig
from arbo.training.config import PresetName, RerankingConfig, RerankingPresetName, TrainingConfig

_MARKED = {
    "mention": "[CLS] {left} [Ms] {mention} [Me] {right} [SEP]",
    "entity": "[CLS] {name} [ENT] {description} [SEP]",
}

# Section 3.2, appendix A.1.
_ARBOEL = TrainingConfig(
    positives="arborescence", negatives="knn", n_negatives=10, loss="arborescence", batch_size=128, learning_rate=3e-5
)

# Table 6. The micro-batch is arbo's own: with 32 mentions, 2,000 texts would be in memory at once.
_PEL = TrainingConfig(
    negatives="mixed",
    n_negatives=64,
    loss="proxy",
    epochs=7,
    micro_batch=4,
    optimizer="adamw",
    learning_rate=1e-5,
    warmup=0.25,
)
# Appendix A, of MedMentions.
_PEL_ENTITY = "[CLS] {name} [SEP] {types} [SEP] {description} [SEP]"
_PEL_READS = EncoderConfig.in_context(pooling="mean", metric="cosine", **_MARKED | {"entity": _PEL_ENTITY})

# Section 4.3. The paper tries 5 to 30 epochs, and does not give warm-up, schedule and clipping.
_AMH = TrainingConfig(
    negatives="in-batch-hard", n_negatives=10, mixup=0.3, loss="bce", batch_size=64, learning_rate=2e-5
)

# The loss is that of Khosla et al. (2020) with the temperature 0.05; rate and epochs were chosen on ECB+.
_IN_CONTEXT = TrainingConfig(
    positives="all", negatives="in-batch", epochs=8, batch_size=256, learning_rate=4e-5, best="conll"
)
READS_AROUND = EncoderConfig(mention="[CLS] {left}{mention}{right} [SEP]", pooling="mention", max_length=256)

PRESETS: Mapping[PresetName, tuple[TrainingConfig, EncoderConfig]] = {
    "arboel": (_ARBOEL, EncoderConfig.in_context()),
    "pel": (_PEL, _PEL_READS),
    "amh-dual": (_AMH, EncoderConfig.in_context(**_MARKED)),
    "amh-mean": (_AMH, EncoderConfig.in_context(pooling="mean", **_MARKED)),
    "context": (_IN_CONTEXT, READS_AROUND),
}
"""ArboEL (with the arborescence), the proxy paper without its regulariser, and adaptive mixup with its scores DUAL and
Pooling Mean (equations 4 and 5); each has two transformers, one for entities. Then an encoder for edges."""

_PEL_PAIRS = CrossEncoderConfig(
    mention=_MARKED["mention"], entity=_PEL_ENTITY.removeprefix("[CLS] "), pooling="mean", candidates=16
)

RERANKING_PRESETS: Mapping[RerankingPresetName, tuple[RerankingConfig, CrossEncoderConfig]] = {
    "arboel": (RerankingConfig(), CrossEncoderConfig()),
    "pel": (RerankingConfig(batch_size=4, optimizer="adamw", warmup=0.2), _PEL_PAIRS),
}
"""The cross-encoders of ArboEL (section 3.3, appendix A.1) and of the proxy paper (appendix B, table 6)."""
