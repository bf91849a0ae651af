"""The embedded sample collection: an invented island, its research station, and what is written there.

`documents.jsonl` holds the documents, one JSON object a line, with every marked mention and its gold
entities. Offsets count Unicode code points, ends are exclusive, and the text of a mention of several
spans is the spans joined by a blank. `entities.jsonl` holds the knowledge base. A gold id that begins
with `NEW:` names an entity that the knowledge base lacks (to be discovered); an empty list of entities
marks a mention that was annotated as NIL without an id.

Every text, name and definition was written for this project; none is meant to describe a real place, person
or species. The collection is under the licence of the project.
"""
