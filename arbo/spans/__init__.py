"""Spans of entities in unmarked texts: found by their names, or by label attention (OSLAT, Li et al. 2022)."""
