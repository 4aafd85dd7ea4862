"""Google's rule of run_squad.py, `_check_is_max_context`: in which of several windows a token has the most context."""


def window_of_most_context(windows: list[tuple[int, int]], token: int) -> int:
    """Return the number of the best of the windows, each a range of tokens, end exclusive."""
    best, best_score = -1, float("-inf")
    for number, (begin, end) in enumerate(windows):
        if begin <= token < end:
            score = min(token - begin, end - 1 - token) + 0.01 * (end - begin)
            if score > best_score:
                best, best_score = number, score
    return best


def make_windows(rows, example: int) -> list[tuple[int, range]]:
    """Return (row, range of tokens of the text that is windowed) of each row of an example."""
    found = []
    for row in range(len(rows)):
        if rows.examples[row] == example:
            begin = rows.row_splits[row] + (rows.second_starts[row] % rows.lengths[row] or 1)
            numbers = rows.text_positions[begin : rows.row_splits[row + 1] - 1]
            first = int(numbers[0]) if len(numbers) else 0
            found.append((row, range(first, first + len(numbers))))
    return found
