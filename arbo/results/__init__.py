"""Runs: tables, views, explanations, scores and folders; nothing here needs an encoder."""
