"""Training of encoders, rerankers and mention finders; most of its modules need torch and accelerate."""
