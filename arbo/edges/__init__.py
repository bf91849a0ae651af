"""Learnt edges: weights from context, place and kind of mentions instead of the distance of an encoder."""
