"""Statistics, problems, homonyms, cross-references and changes of knowledge bases."""
