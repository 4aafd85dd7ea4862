"""Looking inside: what a model attends to, computes and answers on one text, as arrays, as a page and as pictures."""
