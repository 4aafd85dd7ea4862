package bertkeras.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** Cuts texts into windows. */
final class Windows {
    private Windows() {}

    /**
     * Tokenizes a text or a pair of texts, and cuts it to sequences of at most {@code length} tokens.
     *
     * @param tokenizer the tokenizer
     * @param text the text
     * @param secondText the second text of a pair, or null
     * @param length the maximum length of a sequence, including [CLS] and [SEP]
     * @param overlap number of tokens that consecutive windows share; of a pair, the second text is cut into windows.
     *     Null: a long text is truncated, of a pair the longer one first
     * @param maxFirstLength with windows of a pair, the maximum length of the first text, or null
     */
    static List<Window> make(
            Tokenizer tokenizer, String text, String secondText, int length, Integer overlap, Integer maxFirstLength) {
        List<Token> first = tokenizer.tokenize(text);
        List<Window> windows = new ArrayList<>();
        if (secondText == null) {
            for (int[] cut : cut(first.size(), length - 2, overlap)) {
                windows.add(makeWindow(tokenizer, null, first, cut[0], cut[1]));
            }
            return windows;
        }
        List<Token> second = tokenizer.tokenize(secondText);
        int budget = length - 3;
        if (overlap == null) {
            int numSecond = Math.min(second.size(), Math.max(budget / 2, budget - first.size()));
            windows.add(makeWindow(tokenizer, truncate(first, budget - numSecond), second, 0, numSecond));
            return windows;
        }
        if (maxFirstLength != null) {
            first = truncate(first, maxFirstLength);
        }
        if (first.size() + second.size() > budget && first.size() + overlap >= budget) {
            first = truncate(first, Math.min(budget / 2, budget - overlap - 1));
        }
        for (int[] cut : cut(second.size(), budget - first.size(), overlap)) {
            windows.add(makeWindow(tokenizer, first, second, cut[0], cut[1]));
        }
        return windows;
    }

    private static List<Token> truncate(List<Token> tokens, int length) {
        return tokens.subList(0, Math.min(tokens.size(), length));
    }

    /** Returns the ranges of tokens of the windows of a text. */
    private static List<int[]> cut(int numTokens, int room, Integer overlap) {
        if (overlap == null) {
            return Collections.singletonList(new int[] {0, Math.min(numTokens, room)});
        }
        int step = Math.max(room - overlap, 1);
        int numWindows = 1 + (Math.max(0, numTokens - room) + step - 1) / step;
        List<int[]> cuts = new ArrayList<>();
        for (int index = 0; index < numWindows; index++) {
            cuts.add(new int[] {index * step, Math.min(index * step + room, numTokens)});
        }
        return cuts;
    }

    /** Makes the window with a range of the second text; {@code first} is null for a single text. */
    private static Window makeWindow(Tokenizer tokenizer, List<Token> first, List<Token> second, int begin, int end) {
        List<Token> tokens = second.subList(begin, end);
        int offset = first == null ? 1 : first.size() + 2;
        int[] tokenIds = new int[offset + tokens.size() + 1];
        int[] segmentIds = new int[tokenIds.length];
        tokenIds[0] = tokenizer.clsId;
        if (first != null) {
            fillIds(tokenIds, 1, first);
            tokenIds[offset - 1] = tokenizer.sepId;
            Arrays.fill(segmentIds, offset, segmentIds.length, 1);
        }
        fillIds(tokenIds, offset, tokens);
        tokenIds[tokenIds.length - 1] = tokenizer.sepId;
        return new Window(tokenIds, segmentIds, tokens, begin, offset);
    }

    private static void fillIds(int[] tokenIds, int place, List<Token> tokens) {
        for (Token token : tokens) {
            tokenIds[place++] = token.id;
        }
    }

    /**
     * Returns, for each token of the text that was cut, the index of the window in which it has the most context.
     *
     * <p>Context is the number of tokens on the shorter side, plus 0.01 times the length of the window, as in Google's
     * code.
     */
    static int[] findBest(List<Window> windows) {
        Window lastWindow = windows.get(windows.size() - 1);
        int[] best = new int[lastWindow.first + lastWindow.tokens.size()];
        double[] bestContext = new double[best.length];
        Arrays.fill(bestContext, -1.0);
        for (int index = 0; index < windows.size(); index++) {
            Window window = windows.get(index);
            int numTokens = window.tokens.size();
            for (int place = 0; place < numTokens; place++) {
                double context = Math.min(place, numTokens - 1 - place) + 0.01 * numTokens;
                if (context > bestContext[window.first + place]) {
                    bestContext[window.first + place] = context;
                    best[window.first + place] = index;
                }
            }
        }
        return best;
    }
}
