"""Training of encoders and rerankers: what is compared, losses, and the loop that puts them together.

Nothing is imported here: `arbo.training.loop` needs torch and accelerate, the rest of arbo does not.
"""
