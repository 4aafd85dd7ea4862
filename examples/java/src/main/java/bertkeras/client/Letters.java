package bertkeras.client;

import java.util.Arrays;

/** Characters of a text that is being normalized, each with its range in the original text, in UTF-16 units. */
final class Letters {
    private static final int REPLACEMENT = 0xFFFD;

    /** The code points; -1 - id stands for a whole token. */
    int[] codes;

    int[] starts;
    int[] ends;

    /** Marks do not move from one group to another when they are sorted. */
    int[] groups;

    int size;

    Letters(int capacity) {
        codes = new int[capacity];
        starts = new int[capacity];
        ends = new int[capacity];
        groups = new int[capacity];
    }

    /** Returns the characters of a text; half a surrogate pair is U+FFFD, which is dropped. */
    static Letters read(String text) {
        Letters letters = new Letters(text.length());
        for (int start = 0; start < text.length(); ) {
            int code = text.codePointAt(start);
            int end = start + Character.charCount(code);
            boolean isHalf = code >= Character.MIN_SURROGATE && code <= Character.MAX_SURROGATE;
            letters.add(isHalf ? REPLACEMENT : code, start, end, 0);
            start = end;
        }
        return letters;
    }

    void add(int code, int start, int end, int group) {
        if (size == codes.length) {
            int capacity = 2 * size + 8;
            codes = Arrays.copyOf(codes, capacity);
            starts = Arrays.copyOf(starts, capacity);
            ends = Arrays.copyOf(ends, capacity);
            groups = Arrays.copyOf(groups, capacity);
        }
        codes[size] = code;
        starts[size] = start;
        ends[size] = end;
        groups[size] = group;
        size++;
    }
}
