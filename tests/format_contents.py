"""What the good file of each format has: documents and entities, their mentions, and what was counted."""

_TEXT = r"""
# documents bioc
12 '🦊 Wilson disease\nLeft and right kidney. Flu.'
    journal = 'J'
    relations = [{'id': 'R1', 'infons': {}, 'nodes': []}]
    {'offset': 0, 'length': 16, 'infons': {'type': 'title'}}
    {'offset': 17, 'length': 27, 'infons': {'type': 'abstract'}}
  12:6 9-21 X -
  12:1 2-16 Disease D006527 {'note': 'x'}
  12:2 17-21,32-38 Organ A:1 + A:2
  12:3 40-43 Disease NIL
  12:4 40-43 Disease MESH:1 + a|b {'identifier': None}
1 annotations without a location left out
2 mentions with several concept ids
# documents bioc xml
12 'Wilson & disease\nOne.  Flu.'
    journal = 'J'
    {'offset': 0, 'length': 16, 'infons': {'type': 'title'}}
    {'offset': 17, 'length': 10, 'infons': {}}
  12:1 0-6,9-16 Disease D1
  12:2 23-26 Disease -
1 relations of passages left out
# documents brat
d 'Left and right kidney. Flu.'
  d:T1 0-4,15-21 UBERON UBERON:0004538 + C0227613
  d:T2 23-26 MONDO -
1 annotator notes without a UMLS id ignored
1 lines of other kinds ignored (relations, events, attributes, notes)
1 mentions with several concept ids
1 mentions with several fragments
1 mentions without a concept id
1 references of events and relations ignored
# documents conll
a/b/000 'The mayor\nHe _'
  a/b/000:0-9 0-9 None a/b/000/12
  a/b/000:4-9 4-9 None a/b/000/7
  a/b/000:10-12 10-12 None a/b/000/12
  a/b/000:13-14 13-14 None a/b/000/3
1 comments ignored
1 lines without a word
1 repeated mentions dropped
# documents csv
d1 'Flu, and cold'
  m1 0-3 Disease D1 + D2 {'year': '1990'}
  m2 9-13 None -
d2 'nothing'
    year = '7'
# documents ecbplus
1_1ecb 'Perry left rehab\nShe'
    topic = '1'
  1_1ecb:17-20 17-20 HUM HUM1
  1_1ecb:0-10 0-10 HUM HUM1
  1_1ecb:0-5,11-16 0-5,11-16 HUM HUM1
1 corpus lines with an extra column
1 mentions whose tokens_str differs from their words
# documents gsc
11 'Bilateral renal cysts.'
  11:10-21 10-21 None HP:0000107
  11:16-21 16-21 None HP:1
12 'Nothing.'
# documents hipe
d1 'Dr. Klee in Wien\nl.'
  d1:0-8 0-8 pers Q5
  d1:12-16 12-16 loc NIL
  d1:17-19 17-19 scope -
d2 'xy'
1 NIL mentions
1 mentions that begin with an I- tag
1 mentions whose tokens disagree on the link
1 mentions without a link
1 nested mentions ignored
# documents jsonl
d1 'Left and right kidney.\r\nFlu 🦊 (WD)\u2028' x
    topic = 3
  m1 0-4,15-21 Organ A:1 + A:2 0.5
  d1:9-21 9-21 None NIL c {'x': {'y': [1]}}
  d1:9-21#2 9-21 None -
d3 ' \n'
# documents pubannotation
PubMed:12 '🦊 Left and right kidney. Flu.'
    sourcedb = 'PubMed'
    sourceid = '12'
    relations = [{'id': 'R1', 'pred': 'in', 'subj': 'T4', 'obj': 'T1'}]
  PubMed:12:T1 2-6,17-23 Organ UBERON:0004538 + C0227613 {'side': 'left'}
  PubMed:12:T2 11-23 None UBERON:0004539
  PubMed:12:T3 25-28 None MONDO:0005812
  PubMed:12:T4 25-28 Disease MONDO:0005812
  PubMed:12:T5 25-28 None NIL
# documents pubmed
123 'Marsh fever in birds.\nAIM: To count - by night and day.'
124 'Other.'
1 articles without an abstract
# documents pubmed xml
123 'Marsh fever in birds.\nAIM: To count - by night and day.'
124 'Other.'
1 articles without an abstract
# documents pubtator
1 'Flu and cold. Influenza (flu) is not a cold.'
  1:0-3 0-3 Disease D1 + D2
  1:8-12 8-12 Disease NIL
  1:8-12#2 8-12 Disease -
2 '😀 Bechtereẃ|t| |'
  2:2-12 2-12 None -
1 NIL mentions
1 mention texts that differ from their offsets in white space
1 mentions with several concept ids
2 mentions without a concept column
1 relation lines ignored
1 seventh columns ignored
# documents text
docs 'Marsh fever (MF).\né\n'
# documents tsv
d 'flu and'
  d:0-3 0-3 None D1
e 'a "b"'
# entities csv
D1 'flu; it'
    ('a', '"b" c') None
    Parents = 'D0|D9'
D2 'a "cold"'
# entities jsonl
D1 'flu' x
    ('grippe',) 'A fever.'
    ('Disease',) ('12',) ('M:1',)
    year = 1990
D2 'cold'
1 empty aliases dropped
# entities medic
D1 'flu'
    ('grippe', 'influenza') None
    () ('12', 'C3', 'MESH:D1', 'OMIM:12', 'MESH:C3') ()
C4 'cold'
    () ('MESH:C4',) ()
1 empty aliases dropped
# entities obo
U:1 'kidney'
    ('reins', 'nephros, the', 'ren') 'A paired organ, "nephros" ! in Greek.'
    ('organs',) ('U:10', 'U:11') ('UMLS:C1', 'MESH:D1', 'http://example.org/k')
U:2 'organ'
    ('viscera',) () ()
1 stanzas other than [Term] left out
# entities obographs
HP:0001250 'Seizure'
    ('Fit', 'Convulsion') 'An abnormal discharge.'
    ('human_phenotype',) ('HP:0001275',) ('UMLS:C0036572',)
HP:2 'Fever'
    ('hp',) ('HP:3', 'HP:4') ()
1 nodes other than classes left out
1 nodes without a label left out
2 obsolete terms ignored
2 obsolete terms mapped to their replacement
# entities skos
http://example.org/disease 'maladie'
    () ('ex:disease',) ()
http://example.org/flu 'influenza'
    ('Grippe', 'grippe', 'flu', 'la crève', 'influensa') 'A viral disease.'
    ('ex:Disease',) ('J11', 'ex:flu', 'http://example.org/old', 'ex:old') ('MONDO:0005812',)
    broader = ['http://example.org/disease']
HP:2 'fever'
1 concepts without an address left out
1 items with a label that are not concepts left out
1 obsolete terms ignored
1 obsolete terms mapped to their replacement
# entities skos xml
http://e.org/1 'flu'
# entities tsv
D1 'flu'
    ('a', 'b') 'x'
D2 'cold'
1 empty aliases dropped
# entities umls
C1 'Influenza'
    ('Grippe', 'influenza', 'Flu \'n\' "co" <b>') 'A disease.'
    ('Type T047', 'Type T033') ('UMLS:C1',) ()
C2 'Cold'
    () ('UMLS:C2',) ()
1 concepts without a semantic type
"""
CONTENTS = {}
for _section in _TEXT.split("\n# ")[1:]:
    _header, _, _content = _section.rstrip().partition("\n")
    _kind, _, _name = _header.partition(" ")
    CONTENTS[_kind, _name] = _content
