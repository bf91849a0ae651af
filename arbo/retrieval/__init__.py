"""From mentions to candidates and neighbours: search, and reranking."""
