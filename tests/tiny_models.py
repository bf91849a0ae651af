"""Transformers of random weights, so small that they take milliseconds."""

from pathlib import Path

WORDS = "the of in and patients left kidney fever disease cancer syndrome marsh mention"
TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}


def bert(folder: Path) -> Path:
    """Save a BERT: a few words and all ASCII letters, 128 positions."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertConfig, BertModel

    ascii_ = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", *WORDS.split(), *ascii_]
    vocabulary += [f"##{letter}" for letter in ascii_ if letter.isalnum()]
    tokenizer = Tokenizer(models.WordPiece({word: id_ for id_, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
    config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=128, **TINY)
    return save(folder, BertModel, config, tokenizer, unk_token="[UNK]", **special)


def save(folder: Path, kind: type, config: object, tokenizer: object, **special: str) -> Path:
    import torch
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    kind(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return folder
