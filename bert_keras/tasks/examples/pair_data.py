"""Read the pairs of texts of sentence embedding."""

from bert_keras.errors import InputError
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.labelled_texts import read_text_examples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source
from bert_keras.tasks.examples.file_options import FileOptions
from bert_keras.tasks.examples.labelled_files import ScoringInputs, TaskExamples, TrainingInputs
from bert_keras.tasks.examples.text_data import read_texts
from bert_keras.tasks.sentence_embedding import SentenceEmbedding
from bert_keras.tasks.text_classification import TextExample


def read_pairs(
    source: Source, options: FileOptions, objective: str, bad: BadExamples, *, spell: Spell = spell_flag
) -> tuple[list[TextExample], Columns]:
    """Read pairs of texts, with scores if the objective needs them; return the examples and their columns.

    Raises:
        InputError: the file cannot be read, or has single texts.
    """
    if objective == "contrastive":
        with options.open_table(source, spell=spell) as table:
            columns = options.choose_columns(table, needs_label=False, spell=spell)
            raw_examples = list(bad.keep_good(read_text_examples(table, columns)))
        bad.check_any_left(len(raw_examples), source)
        examples = [TextExample(*raw.fields, line=raw.line) for raw in raw_examples]
    else:
        examples, columns = read_texts(source, options, "regression", bad, spell=spell)
    if examples[0].second_text is None:
        raise InputError(
            f"{source} has no pairs of texts; expected two columns of texts: name the second one with "
            f"{spell('second_text_column')} too"
        )
    return examples, columns


def read_to_embed(inputs: TrainingInputs) -> TaskExamples:
    """Read pairs of texts, with scores or without."""
    train_source, dev_source, options, settings, bad, spell = inputs
    objective, dev = settings.get("objective", "regression"), None
    if dev_source is None and objective == "contrastive":
        raise InputError(
            "contrastive training is scored on pairs with scores, which its own examples do not have: name some with "
            f"{spell('dev')}"
        )
    train, columns = read_pairs(train_source, options, objective, bad, spell=spell)
    if dev_source is not None:
        dev, _ = read_pairs(dev_source, options, "regression", bad, spell=spell)
    bad.check()
    task = SentenceEmbedding(**settings).fit_labels([*train, *(dev or ())])
    return TaskExamples(task, train, dev, columns)


def read_pairs_to_score(inputs: ScoringInputs) -> list:
    """Read pairs of texts with scores."""
    return read_pairs(inputs.source, inputs.options, "regression", inputs.bad, spell=inputs.spell)[0]
