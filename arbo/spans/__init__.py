"""Find mentions of entities in unmarked texts, by names, a tagger, or label attention (OSLAT, Li et al. 2022)."""
