"""Training of dual-encoders: choose, encode and compare the positives and negatives of each mention."""
