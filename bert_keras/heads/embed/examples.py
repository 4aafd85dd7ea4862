"""Read the examples of sentence embedding: pairs of texts, or examples of as many texts as the objective needs."""

from bert_keras.errors import InputError
from bert_keras.heads.classify.examples import read_texts
from bert_keras.heads.classify.task import TextExample
from bert_keras.heads.embed import EmbeddingObjective
from bert_keras.heads.embed.task import SentenceEmbedding, get_objective
from bert_keras.heads.examples.file_options import FileOptions
from bert_keras.heads.examples.labelled_files import ScoringInputs, TaskExamples, TrainingInputs
from bert_keras.pipelines.readers.bad_examples import BadExamples
from bert_keras.pipelines.readers.option_spelling import Spell, spell_flag
from bert_keras.pipelines.readers.tables.column_names import Columns
from bert_keras.pipelines.readers.tables.raw_examples import Source


def read_for_objective(
    source: Source, options: FileOptions, objective: EmbeddingObjective, bad: BadExamples, *, spell: Spell = spell_flag
) -> tuple[list[TextExample], Columns]:
    """Read examples with the texts of an objective, and scores if it has them; return the examples and their columns.

    Raises:
        InputError: the file cannot be read, or lacks a column.
    """
    names = objective.text_columns
    examples, columns = read_texts(
        source,
        options,
        "regression" if objective.has_scores else None,
        bad,
        text_columns=names if len(names) > 2 else (),  # the columns of pairs have several usual names
        spell=spell,
    )
    if len(columns.texts) < len(names):
        raise InputError(
            f"{source} has no pairs of texts; expected two columns of texts: name the second one with "
            f"{spell('second_text_column')} too"
        )
    return examples, columns


def read_to_embed(inputs: TrainingInputs) -> TaskExamples:
    """Read the training examples of an objective, and held-out pairs with scores."""
    train_source, dev_source, options, settings, bad, spell = inputs
    objective, scored, dev = get_objective(settings), get_objective({}), None
    if dev_source is None and not objective.has_scores:
        raise InputError(
            f"{objective.name} training is scored on pairs with scores, which its own examples do not have: name some "
            f"with {spell('dev')}"
        )
    train, columns = read_for_objective(train_source, options, objective, bad, spell=spell)
    if dev_source is not None:
        dev, _ = read_for_objective(dev_source, options, scored, bad, spell=spell)
    bad.check()
    task = SentenceEmbedding(**settings).fit_labels([*train, *(dev or ())])
    return TaskExamples(task, train, dev, columns)


def read_pairs_to_score(inputs: ScoringInputs) -> list:
    """Read pairs of texts with scores."""
    return read_for_objective(inputs.source, inputs.options, get_objective({}), inputs.bad, spell=inputs.spell)[0]
