"""Find mentions of entities in unmarked texts, by names or by label attention (OSLAT, Li et al. 2022)."""
