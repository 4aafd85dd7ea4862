"""Reference implementations: training labels like transformers' run_qa.py, answers like Google's run_squad.py.

Both are written in plain Python and check every pair of a start and an end.
"""

from tests.heads.google_windows import find_best_window, make_windows


def training_windows(their_tokenizer, example, length: int, overlap: int) -> list[tuple[list[int], int, int]]:
    """Return (ids, start position, end position) of each window, like `prepare_train_features` of run_qa.py."""
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
        # run_qa.py advances to [SEP] at (0, 0) where the answer starts in the last token: the start is after the end
        after_last = last + 1
        while first < after_last and offsets[first][0] <= start_char:
            first += 1
        while offsets[last][1] >= end_char:
            last -= 1
        windows.append((ids, first - 1, last + 1))
    return windows


def best_answers(
    sequences, example: int, context: str, starts, ends, their_tokenizer, *, num_best: int, max_answer_length: int
) -> list:
    """Return [(score, start, end)] in characters for distinct texts, best first.

    Answers are extended to whole words, as `align_to_words` of transformers' question-answering pipeline does.

    Like run_squad.py, combine the 20 best starts and the 20 best ends of each window; a start counts in the window
    where it has the most context. run_squad.py takes the 20 best among all tokens of a sequence and then drops those of
    the question; here only tokens of the context are candidates.
    """
    windows = make_windows(sequences, example)
    encoding = their_tokenizer(context, add_special_tokens=False)
    words = [encoding.word_to_chars(word) for word in dict.fromkeys(encoding.word_ids())]
    spans = []
    for number, (index, tokens) in enumerate(windows):
        begin = int(sequences.row_splits[index] + sequences.second_starts[index])
        positions = range(begin, begin + len(tokens))
        first_20 = sorted(positions, key=lambda position: -starts[position])[:20]
        last_20 = sorted(positions, key=lambda position: -ends[position])[:20]
        for first in first_20:
            for last in last_20:
                if last < first or last - first + 1 > max_answer_length:
                    continue
                ranges = [(window.start, window.stop) for _, window in windows]
                if find_best_window(ranges, tokens[first - begin]) != number:
                    continue
                score = float(starts[first]) + float(ends[last])
                start = max(word.start for word in words if word.start <= sequences.starts[first])
                end = min(word.end for word in words if word.end >= sequences.ends[last])
                spans.append((score, start, end))
    best = {}
    for score, start, end in sorted(spans, reverse=True):
        best.setdefault(context[start:end], (score, start, end))
    return list(best.values())[:num_best]


def null_score(sequences, example: int, starts, ends) -> float:
    """Return the lowest sum of the start and end logits at [CLS] over all windows."""
    positions = [int(sequences.row_splits[index]) for index, _ in make_windows(sequences, example)]
    return min(float(starts[position]) + float(ends[position]) for position in positions)
