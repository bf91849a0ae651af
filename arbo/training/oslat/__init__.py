"""OSLAT: self-alignment of names, then label attention (where an entity is) with its linking head (if it is there)."""
