"""Saved runs: their tables, views, explanations and scores; none of it needs an encoder."""
