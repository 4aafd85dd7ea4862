"""`inspect`: what a model computes on one text."""

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import keras
import numpy as np

from bert_keras.analysis.inspection import head_outputs, summaries
from bert_keras.analysis.inspection.forward_pass import ForwardPass, make_input_sequence, run_forward_pass
from bert_keras.analysis.inspection.html_page import PAGE
from bert_keras.architectures.base import check_bert_model
from bert_keras.checkpoints import load, load_tokenizer
from bert_keras.checkpoints.building import get_encoder
from bert_keras.checkpoints.reading import find_folder
from bert_keras.config import BertConfig
from bert_keras.errors import InputError
from bert_keras.figures import FigureSection, check_matplotlib, save_figures
from bert_keras.files import write_json
from bert_keras.pipelines.text.tokenizer import BertTokenizer
from bert_keras.publishing import publish_folder

NUMBERS = "inspection.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Inspection:
    """Attention, vectors and predictions of a model on one text. Layers and heads are numbered from 0.

    Attributes:
        model: the model.
        name: name of the model's folder, or of its class.
        kind: class name of the model, such as "BertClassifier".
        config: configuration of its encoder.
        has_pooler: whether the encoder has a pooler.
        num_parameters: number of parameters of the model.
        forward_pass: the sequence, attention `(L, N, S, S)`, queries and keys, hidden states `(L + 1, S, D)`.
        heads: L * N summaries of attention heads, layer by layer.
        similarity: cosine similarity between token vectors.
        masked_predictions: predictions of the masked-LM head; empty without one.
        prediction: prediction of another head; None without one, or if the head needs a second text.
        positions: tables of position embeddings: "sinusoidal" and, if the model has them, "learned".
        layer, head: layer and head in the figure of attention; None means all.
    """

    model: keras.Model
    name: str
    kind: str
    config: BertConfig
    has_pooler: bool
    num_parameters: int
    forward_pass: ForwardPass
    heads: tuple[summaries.HeadSummary, ...]
    similarity: summaries.Similarity
    masked_predictions: tuple[head_outputs.MaskedPrediction, ...]
    prediction: head_outputs.Prediction | None
    positions: dict[str, np.ndarray]
    layer: int | None = None
    head: int | None = None

    @property
    def attention(self) -> np.ndarray:
        """Attention probabilities, `(L, N, S, S)` float32; axis -2 is the query, axis -1 the key."""
        return self.forward_pass.attention

    @property
    def tokens(self) -> tuple[str, ...]:
        """The S tokens of the sequence."""
        return self.forward_pass.sequence.tokens

    def to_dict(self) -> dict:
        """Return tokens, head summaries and predictions as plain Python values, for JSON.

        Returns:
            The values, keyed by name.

        Example:
            >>> bk.inspect("demo/classifier", "The with statement").to_dict()["kind"]
            'BertClassifier'
        """
        return {
            "model": self.name,
            "kind": self.kind,
            "texts": list(self.forward_pass.sequence.texts),
            "tokens": list(self.tokens),
            "heads": [dataclasses.asdict(head) for head in self.heads],
            "masked_predictions": [dataclasses.asdict(prediction) for prediction in self.masked_predictions],
            "prediction": None if self.prediction is None else dataclasses.asdict(self.prediction),
        }

    def to_html(self, sections: Sequence[FigureSection] = ()) -> str:
        """Return a self-contained HTML page.

        Args:
            sections: more figures, for the end of the page.

        Returns:
            The page.

        Example:
            >>> bk.inspect("demo/classifier", "The with statement").to_html()[:15]
            '<!DOCTYPE html>'
        """
        from bert_keras.analysis.inspection.inspection_page import render_inspection

        return render_inspection(self, sections)

    def save(
        self,
        out: str | os.PathLike,
        *,
        pictures: bool = True,
        sections: Sequence[FigureSection] = (),
        overwrite: bool = False,
    ) -> list[str]:
        """Write the page `index.html`, the numbers `inspection.json`, and each figure as PNG and SVG.

        Args:
            out: the folder; it is written completely or not at all.
            pictures: whether to draw figures. Without them matplotlib is not needed, and the page has no sections on
                parameters and memory.
            sections: more figures, which the page includes too.
            overwrite: replace a folder that `inspect` wrote.

        Returns:
            The file names.

        Raises:
            InputError: the folder exists and is not empty, or (`MissingExtraError`) matplotlib is not installed.

        Example:
            >>> bk.inspect("demo/classifier", "The with statement").save("my/inspection", pictures=False)
            ['index.html', 'inspection.json']
        """
        if pictures:
            check_matplotlib()
        with publish_folder(out, "inspect", overwrite=overwrite) as folder:
            if pictures:
                from bert_keras.analysis.cost_model import components, plan_figures

                parameters = plan_figures.make_parameters_section(components.count_parameters(self.model))
                sections = [parameters, plan_figures.make_inference_memory_section(self.model), *sections]
            (folder / PAGE).write_text(self.to_html(sections), encoding="utf-8")
            write_json(folder / NUMBERS, self.to_dict())
            names = [PAGE, NUMBERS]
            if pictures:
                from bert_keras.analysis.inspection.inspection_figures import draw_figures

                names += save_figures([*draw_figures(self), *sections], folder)
        return names


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
    """Run a model on one text or a pair of texts, and return its intermediate results and predictions.

    Attention is softmax(Q K^T / sqrt(H)) (Vaswani et al. 2017, 3.2.1); the summaries of heads follow Clark et al.
    (2019).

    Args:
        subject: a folder that `bert_keras.load` opens, with a vocabulary, or a model.
        text: the text; for question answering the question. "[MASK]" is a masked token if the model has a masked-LM
            head, and ordinary text otherwise.
        second: the second text of a pair; for question answering the context.
        tokenizer: tokenizer of the model. Default: that of the folder.
        layer, head: layer and head in the figure of attention, from 0. Default: all.
        top_k: number of proposals for each masked token.

    Returns:
        An `Inspection`; `Inspection.save` writes it as a page with figures.

    Raises:
        InputError: the folder cannot be read or has no vocabulary, the texts are longer than the model accepts, there
            is no such layer or head, or the model's task accepts only pairs or only single texts.

    Example:
        >>> inspection = bk.inspect("demo/classifier", "The with statement")
        >>> len(inspection.tokens), inspection.attention.shape
        (5, (2, 2, 5, 5))
    """
    model, tokenizer, name = _load(subject, tokenizer)
    encoder = get_encoder(model)
    summaries.check_index("layer", layer, encoder.config.num_layers)
    summaries.check_index("head", head, encoder.config.num_heads)
    masked_lm = head_outputs.get_masked_lm(model)
    texts = (text,) if second is None else (text, second)
    sequence = make_input_sequence(tokenizer, encoder.config, *texts, keep_special_tokens=masked_lm is not None)
    predictor = head_outputs.make_predictor(None if subject is model else find_folder(name), model, tokenizer)
    forward_pass = run_forward_pass(model, sequence)
    return Inspection(
        model=model,
        name=pathlib.Path(name).absolute().name,
        kind=type(model).__name__,
        config=encoder.config,
        has_pooler=encoder.pooler is not None,
        num_parameters=model.count_params(),
        forward_pass=forward_pass,
        heads=summaries.summarize_heads(forward_pass.attention, sequence.tokens),
        similarity=summaries.compute_similarity(forward_pass.hidden_states),
        masked_predictions=()
        if masked_lm is None
        else head_outputs.predict_masked_tokens(masked_lm, tokenizer, sequence, top_k=top_k),
        prediction=head_outputs.predict_with_head(model, predictor, forward_pass),
        positions=summaries.get_position_tables(encoder),
        layer=layer,
        head=head,
    )


def _load(
    subject: str | os.PathLike | keras.Model, tokenizer: BertTokenizer | None
) -> tuple[keras.Model, BertTokenizer, str]:
    """Return the model, its tokenizer and its name."""
    if isinstance(subject, keras.Model):
        if tokenizer is None:
            raise InputError("a model was given without its tokenizer; expected both: pass tokenizer=")
        check_bert_model(subject)
        return subject, tokenizer, type(subject).__name__
    model = load(subject)
    if tokenizer is None and (tokenizer := load_tokenizer(subject)) is None:
        raise InputError(f"{subject} has no vocab.txt; expected a folder with its vocabulary: copy it there")
    return model, tokenizer, os.fspath(subject)
