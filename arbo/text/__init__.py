"""Checks of strings, and the names, words, sentences and abbreviations in them."""
