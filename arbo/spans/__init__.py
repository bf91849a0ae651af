"""Spans of entities in texts: found without anybody having marked any (OSLAT, Li et al. 2022)."""
