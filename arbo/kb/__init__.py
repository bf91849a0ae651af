"""Names, problems and files of knowledge bases."""
