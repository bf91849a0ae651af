"""OSLAT in stages: names are aligned, label attention learns where to look, its head whether an entity is there."""
