"""Files of labelled examples: tables of texts, tagged words, questions."""
