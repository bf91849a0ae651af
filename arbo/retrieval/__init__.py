"""Search the candidates and neighbours of mentions, and rerank them."""
