"""Encoders: mentions and entities as vectors of one space, and the cross-encoder, which reads them in pairs."""
