"""How others train and read answers: transformers' run_qa.py for the labels, Google's run_squad.py for the answers.

Written from those two, in plain Python, one pair of a start and an end after the other.
"""

from tests.tasks.google_windows import make_windows, window_of_most_context


def training_windows(their_tokenizer, example, length: int, overlap: int) -> list[tuple[list[int], int, int]]:
    """`prepare_train_features` of run_qa.py: (ids, start position, end position) of each window."""
    tokenized = their_tokenizer(
        example.question,
        example.context,
        truncation="only_second",
        max_length=length,
        stride=overlap,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    windows = []
    for number, offsets in enumerate(tokenized["offset_mapping"]):
        ids, sequence = tokenized["input_ids"][number], tokenized.sequence_ids(number)
        cls = ids.index(their_tokenizer.cls_token_id)
        if not example.answers:
            windows.append((ids, cls, cls))
            continue
        start_char = example.answers[0].start
        end_char = start_char + len(example.answers[0].text)
        first = sequence.index(1) if 1 in sequence else 0
        last = len(sequence) - 1 - sequence[::-1].index(1) if 1 in sequence else 0
        if not (1 in sequence and offsets[first][0] <= start_char and offsets[last][1] >= end_char):
            windows.append((ids, cls, cls))
            continue
        # run_qa.py goes on to [SEP] at (0, 0) where the answer begins in the last token: a start behind its end
        behind = last + 1
        while first < behind and offsets[first][0] <= start_char:
            first += 1
        while offsets[last][1] >= end_char:
            last -= 1
        windows.append((ids, first - 1, last + 1))
    return windows


def best_answers(
    rows, example: int, context: str, starts, ends, their_tokenizer, *, num_best: int, max_answer_length: int
) -> list:
    """Return [(score, start, end)] in characters, of different texts, the best first.

    Answers are whole words, by transformers' own: `align_to_words` of its question-answering pipeline.

    As run_squad.py: of each window the 20 best starts and the 20 best ends, each start where it has most context.
    Its 20 best are among all tokens of a row, also those of the question, which it drops then; here among the context.
    """
    windows = make_windows(rows, example)
    encoding = their_tokenizer(context, add_special_tokens=False)
    words = [encoding.word_to_chars(word) for word in dict.fromkeys(encoding.word_ids())]
    spans = []
    for number, (row, tokens) in enumerate(windows):
        begin = int(rows.row_splits[row] + rows.second_starts[row])
        places = range(begin, begin + len(tokens))
        first_20 = sorted(places, key=lambda place: -starts[place])[:20]
        last_20 = sorted(places, key=lambda place: -ends[place])[:20]
        for first in first_20:
            for last in last_20:
                if last < first or last - first + 1 > max_answer_length:
                    continue
                borders = [(one.start, one.stop) for _, one in windows]
                if window_of_most_context(borders, tokens[first - begin]) != number:
                    continue
                score = float(starts[first]) + float(ends[last])
                start = max(word.start for word in words if word.start <= rows.starts[first])
                end = min(word.end for word in words if word.end >= rows.ends[last])
                spans.append((score, start, end))
    found = {}
    for score, start, end in sorted(spans, reverse=True):
        found.setdefault(context[start:end], (score, start, end))
    return list(found.values())[:num_best]


def null_score(rows, example: int, starts, ends) -> float:
    """Return the lowest sum at [CLS] of all windows."""
    places = [int(rows.row_splits[row]) for row, _ in make_windows(rows, example)]
    return min(float(starts[place]) + float(ends[place]) for place in places)
