"""Slow definitions, which tests and campaigns compare the engine with."""
