"""Training of encoders, rerankers and mention finders: batches, losses and the training loop.

This package imports nothing: `arbo.training.loop` needs torch and accelerate, the rest of arbo does not.
"""
