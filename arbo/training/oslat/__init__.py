"""OSLAT in three stages: self-alignment of names, label attention (where is an entity), linking head (is it there)."""
