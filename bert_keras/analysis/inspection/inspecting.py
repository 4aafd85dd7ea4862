"""`inspect`: what a model computes inside on one text."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import keras

from bert_keras.analysis.inspection.choices import check_choice
from bert_keras.analysis.inspection.curves import position_tables
from bert_keras.analysis.inspection.forward_pass import Look, look
from bert_keras.analysis.inspection.head_outputs import Answer, answer_of, predictor_of
from bert_keras.analysis.inspection.head_summaries import HeadSummary, head_summaries
from bert_keras.analysis.inspection.input_sequence import row_of
from bert_keras.analysis.inspection.masked_predictions import Guess, get_masked_lm, masked_guesses
from bert_keras.analysis.inspection.page.html_page import PAGE
from bert_keras.analysis.inspection.token_vectors import Similarity, similarity
from bert_keras.checkpoints import load, load_tokenizer
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.figures import FigureSection, check_matplotlib, save_figures
from bert_keras.files import write_json
from bert_keras.modeling.base import check_bert_model
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.publishing import publish_folder

NUMBERS = "inspection.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Inspection:
    """What was seen in a model on one text. Layers and heads are counted from 0: layer 0 is `block_0`.

    Attributes:
        model: what was looked at.
        name: of the model, for people.
        kind: its class, "BertClassifier" for example.
        config: the shape of its encoder.
        has_pooler: whether the encoder ends in the pooler.
        num_parameters: of the whole model.
        look: the row of tokens, attention `(L, N, S, S)`, queries and keys, hidden states `(L + 1, S, D)`.
        heads: L * N summaries, layer by layer.
        similarity: cosines between the vectors of the tokens.
        guesses: of a masked-LM head; empty without one.
        answer: of another head; None without one, and where it needs a second text that is not there.
        positions: tables of position embeddings, "sinusoidal" and, if it has them, "learned".
        layer, head: what the picture of attention shows; None: all.
    """

    model: keras.Model
    name: str
    kind: str
    config: BertConfig
    has_pooler: bool
    num_parameters: int
    look: Look
    heads: tuple[HeadSummary, ...]
    similarity: Similarity
    guesses: tuple[Guess, ...]
    answer: Answer | None
    positions: dict
    layer: int | None = None
    head: int | None = None

    @property
    def attention(self):
        """`(L, N, S, S)` float32, softmaxed: row = who looks, column = at whom."""
        return self.look.attention

    @property
    def tokens(self) -> tuple[str, ...]:
        """The S tokens of the row."""
        return self.look.row.tokens

    def to_dict(self) -> dict:
        """Returns the numbers as plain values: the tokens, the summaries of the heads, guesses and answer."""
        row = self.look.row
        return {
            "model": self.name,
            "kind": self.kind,
            "texts": list(row.texts),
            "tokens": list(row.tokens),
            "heads": [dataclasses.asdict(head) for head in self.heads],
            "guesses": [dataclasses.asdict(guess) for guess in self.guesses],
            "answer": None if self.answer is None else dataclasses.asdict(self.answer),
        }

    def to_html(self, sections: Sequence[FigureSection] = ()) -> str:
        """Returns one page that needs nothing else, with `sections` at its end."""
        from bert_keras.analysis.inspection.page.inspection_page import page

        return page(self, sections)

    def save(
        self,
        out: str | os.PathLike,
        *,
        pictures: bool = True,
        sections: Sequence[FigureSection] = (),
        overwrite: bool = False,
    ) -> list[str]:
        """Writes the page `index.html`, the numbers `inspection.json`, and each picture as PNG and SVG.

        Args:
            out: the folder; it appears whole or not at all.
            pictures: whether to draw; without, matplotlib is not needed, and the page does not tell where the
                parameters sit and what memory they take.
            sections: more pictures, which the page shows too.
            overwrite: replace a folder that `inspect` wrote.

        Returns:
            The names of the files.

        Raises:
            InputError: the folder is there and not empty, or (`MissingExtraError`) matplotlib is not installed.
        """
        if pictures:
            check_matplotlib()
        with publish_folder(out, "inspect", overwrite=overwrite) as folder:
            sections = [*(self._sections_of_sizes() if pictures else ()), *sections]
            (folder / PAGE).write_text(self.to_html(sections), encoding="utf-8")
            write_json(folder / NUMBERS, self.to_dict())
            names = [PAGE, NUMBERS]
            if pictures:
                from bert_keras.analysis.inspection.inspection_figures import pictures_of

                names += save_figures([*pictures_of(self), *sections], folder)
        return names

    def _sections_of_sizes(self) -> list[FigureSection]:
        """Returns where the parameters sit, beside base and large; and memory by length."""
        from bert_keras.analysis.cost_model.parameters import parameters_of
        from bert_keras.analysis.cost_model.plan_figures import inference_memory_section, parameters_section

        return [parameters_section(parameters_of(self.model)), inference_memory_section(self.model)]


def inspect(
    subject: str | os.PathLike | keras.Model,
    text: str,
    second: str | None = None,
    *,
    tokenizer: BertTokenizer | None = None,
    layer: int | None = None,
    head: int | None = None,
    top_k: int = 5,
) -> Inspection:
    """Runs a model on one text, or on a pair, and keeps what it computes inside.

    Attention is softmax(Q K^T / sqrt(H)) (Vaswani et al. 2017, 3.2.1); the words for heads are after Clark et al.
    (2019).

    Args:
        subject: a folder that `bert_keras.load` reads, with a vocabulary; or a model.
        text: the text; the question, of a model that answers questions. "[MASK]" in it stands for a masked token where
            the model has a masked-LM head, and is a word in brackets elsewhere.
        second: the second text of a pair; the context of a question.
        tokenizer: the model's; None: the folder's.
        layer, head: what the picture of attention shows, from 0; None: all.
        top_k: proposals for each masked token.

    Raises:
        InputError: the folder cannot be read or has no vocabulary, the texts are longer than the model reads, there
            is no such layer or head, or the model's task reads pairs alone or single texts alone.

    Example:
        >>> # seen = bk.inspect("my/classifier", "a fine film")
        >>> # seen.attention.shape, seen.heads[0].kind, seen.save("inspection")
    """
    model, tokenizer, name = _loaded(subject, tokenizer)
    encoder = getattr(model, "encoder", model)
    check_choice("layer", layer, encoder.config.num_layers)
    check_choice("head", head, encoder.config.num_heads)
    masked_lm = get_masked_lm(model)
    texts = (text,) if second is None else (text, second)
    row = row_of(tokenizer, encoder.config, *texts, keep_special_tokens=masked_lm is not None)
    predictor = predictor_of(None if subject is model else name, model, tokenizer)
    seen = look(model, row)
    return Inspection(
        model=model,
        name=pathlib.Path(name).absolute().name,
        kind=type(model).__name__,
        config=encoder.config,
        has_pooler=encoder.pooler is not None,
        num_parameters=model.count_params(),
        look=seen,
        heads=head_summaries(seen.attention, row.tokens),
        similarity=similarity(seen.hidden_states),
        guesses=() if masked_lm is None else masked_guesses(masked_lm, tokenizer, row, top_k=top_k),
        answer=answer_of(model, predictor, seen),
        positions=position_tables(encoder),
        layer=layer,
        head=head,
    )


def _loaded(subject, tokenizer: BertTokenizer | None) -> tuple[keras.Model, BertTokenizer, str]:
    """Returns the model, its tokenizer, and its name."""
    if isinstance(subject, keras.Model):
        if tokenizer is None:
            raise InputError("a model was given without its tokenizer; expected both: say tokenizer=")
        check_bert_model(subject)
        return subject, tokenizer, type(subject).__name__
    model = load(subject)
    if tokenizer is None and (tokenizer := load_tokenizer(subject)) is None:
        raise InputError(f"{subject} has no vocab.txt; expected a folder with its vocabulary: copy it there")
    return model, tokenizer, os.fspath(subject)
