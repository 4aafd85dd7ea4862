package bertkeras.client;

import java.util.Map;

/** Runs a model file on one sequence. */
public interface Runner {
    /**
     * Returns the outputs of the file, keyed by name, flat in row-major order and without the batch axis.
     *
     * <p>The three arrays have the length of the sequence, without padding, and no position is masked. For a file of a
     * fixed length the runner appends zeros to all three ({@code Arrays.copyOf(values, length)}); outputs of the
     * appended positions are ignored.
     *
     * @param inputIds the token ids
     * @param attentionMask 1 at every position
     * @param tokenTypeIds 0 for the first text, 1 for the second
     */
    Map<String, float[]> run(int[] inputIds, int[] attentionMask, int[] tokenTypeIds);
}
