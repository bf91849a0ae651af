"""The experiment of Li et al. 2022: OSLAT, open set label attention transformer for medical entity retrieval."""
