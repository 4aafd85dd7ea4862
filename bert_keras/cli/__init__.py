"""The command line: `bert-keras VERB`. One file a verb; each parses, checks everything, calls the library, reports."""
