"""`ALL_ROWS`: a padded batch is computed whole. Where padding is skipped, `RealRows` stands in its place."""

from keras import ops


class AllRows:
    """All rows of (B*S, ...), padding too: what compilers want, that must know shapes before."""

    def only(self, rows):
        """Returns the computed ones of `rows`, see `bert_keras.distribution.RealRows`."""
        return rows

    def spread(self, rows):
        """Returns computed rows at their places among all."""
        return rows

    def numbers_of(self, places):
        """Returns which computed rows stand at `places`."""
        return places

    def shape_of_all(self, rows):
        """Returns the shape that computed rows have among all."""
        return ops.shape(rows)


ALL_ROWS = AllRows()
