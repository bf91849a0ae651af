"""Runs: their tables, views, explanations, scores and folders. Nothing here needs an encoder."""
