"""Placeholder, written below."""
