"""Choose the window with the most context of a token, like `_check_is_max_context` in Google's run_squad.py."""


def find_best_window(windows: list[tuple[int, int]], token: int) -> int:
    """Return the index of the best window; each window is a range of tokens with an exclusive end."""
    best, best_score = -1, float("-inf")
    for index, (begin, end) in enumerate(windows):
        if begin <= token < end:
            score = min(token - begin, end - 1 - token) + 0.01 * (end - begin)
            if score > best_score:
                best, best_score = index, score
    return best


def make_windows(sequences, example: int) -> list[tuple[int, range]]:
    """Return (sequence index, range of tokens of the windowed text) for each sequence of an example."""
    windows = []
    for index in range(len(sequences)):
        if sequences.examples[index] == example:
            begin = sequences.row_splits[index] + (sequences.second_starts[index] % sequences.lengths[index] or 1)
            positions = sequences.text_positions[begin : sequences.row_splits[index + 1] - 1]
            first = int(positions[0]) if len(positions) else 0
            windows.append((index, range(first, first + len(positions))))
    return windows
