"""Training of dual-encoders: positives and negatives of each mention, how they are read and compared."""
