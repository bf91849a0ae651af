"""Strings: what they must satisfy, and how names, words, sentences and abbreviations are found in them."""
