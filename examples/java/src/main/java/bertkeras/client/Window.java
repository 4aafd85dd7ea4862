package bertkeras.client;

import java.util.List;

/** A sequence for the model: {@code [CLS] A [SEP]} or {@code [CLS] A [SEP] B [SEP]}. */
public final class Window {
    /** S token ids, without padding. */
    public final int[] tokenIds;

    /** S times 0 for A or 1 for B. */
    public final int[] segmentIds;

    /** The tokens of B, or of A without a B, that are in this window. */
    public final List<Token> tokens;

    /** The index of the first of them in their text. */
    public final int first;

    /** The position of the first of them in the sequence. */
    public final int offset;

    Window(int[] tokenIds, int[] segmentIds, List<Token> tokens, int first, int offset) {
        this.tokenIds = tokenIds;
        this.segmentIds = segmentIds;
        this.tokens = tokens;
        this.first = first;
        this.offset = offset;
    }
}
