"""Encoders, which embed mentions and entities in one space, and the cross-encoder, which scores pairs of them."""
