"""The sentences of the page: what one sees, and how it is computed. HTML."""

from bert_keras.analysis.inspection.curves import MOST_POSITIONS
from bert_keras.analysis.inspection.head_summaries import NEAR_TOKENS
from bert_keras.analysis.inspection.masked_predictions import MOST_WORDS
from bert_keras.analysis.inspection.page.page_data import LARGEST_ERROR
from bert_keras.config import BertConfig

GUESSES_AT_MASKS = (
    "The likeliest tokens at each [MASK]: the softmax of the masked-LM head over the whole vocabulary. Several masks "
    "are filled independently."
)
GUESSES_AT_WORDS = (
    "Each word is masked in turn, with all its tokens, and the others stay. The first number is the probability of the "
    f"token that stands there. The first {MOST_WORDS} words are masked so; write [MASK] in the text to choose a place "
    "yourself."
)
ATTENTION = (
    "Each head of each layer lets every token look at every token: softmax(Q K<sup>T</sup> / &radic;H) over the tokens "
    "that are looked at, (S, S) for each head. Row = who looks, column = at whom; a row sums to 1. Choose a head in "
    "the grid, then point at a token. Layers and heads are counted from 0. A colour goes with the root of the share, "
    f"and the numbers here are within {LARGEST_ERROR} of the model&rsquo;s."
)
HEADS = (
    "Means over all tokens that look. Distance: how many tokens away, weighted by attention. Entropy in bits: 0 = one "
    "token, log<sub>2</sub> S = all alike. The others are shares of attention, which overlap; near: within "
    f"{NEAR_TOKENS} tokens. A head is named after the place that gets half of its attention or more: [CLS], [SEP], "
    "<em>itself</em>, <em>previous</em>, <em>next</em>; else <em>broad</em> if it spreads as evenly as over half of "
    "all tokens (2<sup>entropy</sup> &ge; S / 2); else <em>local</em> if half of it or more stays near; else "
    "<em>mixed</em>. After Clark et al. (2019), &ldquo;What Does BERT Look At?&rdquo;."
)
VECTORS = (
    "Cosines between the vectors of the tokens, (S, D) in each state: state 0 is what goes into the first layer, then "
    "what each layer gives. Where two different tokens become alike, the vectors of a text share a direction "
    "(Ethayarajh 2019)."
)
_SINUSOIDAL = "sines and cosines of Vaswani et al. (2017), 3.5"


def cut(shown: int, length: int) -> str:
    """Returns what is said where not all tokens are in the maps."""
    if shown == length:
        return ""
    return (
        f" The maps show the first {shown:,} of {length:,} tokens, to bound the size of the page; all numbers about "
        "heads are of all tokens."
    )


def scores(config: BertConfig) -> str:
    """Returns what is said about the scores."""
    return (
        "The scores Q K<sup>T</sup> of all heads, before and after they are divided by &radic;H = "
        f"&radic;{config.head_dim} (Vaswani et al. 2017, 3.2.1). Without it they grow with H, and the softmax gives "
        "nearly all to one token."
    )


def positions(config: BertConfig, *, is_learned: bool) -> str:
    """Returns what is said about positions."""
    shape = f"({config.max_sequence_length:,}, {config.embedding_dim:,})"
    if is_learned:
        which = f"The learned table {shape} beside the {_SINUSOIDAL}."
    else:
        which = f"This model has no learned positions: it computes the {_SINUSOIDAL}, {shape}, shown here alone."
    return (
        f"{which} The maps hold the cosines of the first {min(MOST_POSITIONS, config.max_sequence_length)} positions, "
        "the lines are means over all."
    )


def activations(config: BertConfig, largest: float, place: float) -> str:
    """Returns what is said about activations; `largest`, `place`: of the difference of the two GELUs."""
    return (
        "gelu = x &Phi;(x), by erf; gelu_tanh = 0.5 x (1 + tanh(&radic;(2/&pi;) (x + 0.044715 x<sup>3</sup>))), as in "
        f"Google&rsquo;s code; relu = max(0, x). The two GELUs differ by {largest:.2e} at most, at x = {place:.2f}, "
        f"measured from -8 to 8 in float32. This model computes {config.hidden_act}."
    )
