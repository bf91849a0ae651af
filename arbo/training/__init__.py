"""Training of dual-encoders: positives, negatives, losses, and the loop that puts them together.

Nothing is imported here: `arbo.training.loop.train` needs torch and accelerate, the rest of arbo does not.
"""
