package bertkeras.client;

import java.util.Arrays;

/** Drops control characters, folds case and strips accents; white space becomes a space. */
final class Normalizer {
    private static final int CAPITAL_SIGMA = 0x3A3;
    private static final int FINAL_SIGMA = 0x3C2;

    private final Unicode unicode = Unicode.get();
    private final boolean lowercase;
    private final boolean stripAccents;

    Normalizer(boolean lowercase, boolean stripAccents) {
        this.lowercase = lowercase;
        this.stripAccents = stripAccents;
    }

    /**
     * Returns the normalized letters.
     *
     * @param letters the characters of a text
     * @param findsSigma whether a capital sigma at the end of a word has its own lower case
     */
    Letters normalize(Letters letters, boolean findsSigma) {
        Letters found = new Letters(letters.size);
        int group = 0;
        for (int place = 0; place < letters.size; place++) {
            int code = letters.codes[place];
            if (unicode.has(code, Unicode.DROPPED)) {
                continue;
            }
            int[] lowered = null;
            if (unicode.has(code, Unicode.SPACE)) {
                code = ' ';
            } else if (lowercase && findsSigma && code == CAPITAL_SIGMA && isFinalSigma(letters, place)) {
                code = FINAL_SIGMA;
            } else if (lowercase) {
                lowered = unicode.getLower(code);
            }
            int start = letters.starts[place];
            int end = letters.ends[place];
            if (lowered == null) {
                group = addStripped(found, code, start, end, group);
            } else {
                for (int one : lowered) {
                    group = addStripped(found, one, start, end, group);
                }
            }
        }
        if (stripAccents) {
            sortMarks(found);
        }
        return found;
    }

    /** Adds a character without its accents; returns the current group. */
    private int addStripped(Letters found, int code, int start, int end, int group) {
        if (!stripAccents) {
            found.add(code, start, end, group);
            return group;
        }
        if (unicode.has(code, Unicode.MARK)) {
            return unicode.has(code, Unicode.BLOCKING) ? group + 1 : group;
        }
        int[] parts = unicode.getStripped(code);
        if (parts == null) {
            return addPart(found, code, start, end, group);
        }
        for (int part : parts) {
            group = addPart(found, part, start, end, group);
        }
        return group;
    }

    private int addPart(Letters found, int code, int start, int end, int group) {
        int ownGroup = unicode.getRank(code) == 0 ? group + 1 : group;
        found.add(code, start, end, ownGroup);
        return ownGroup;
    }

    /** Returns whether the capital sigma at {@code place} ends a word, by Unicode's rule Final_Sigma. */
    private boolean isFinalSigma(Letters letters, int place) {
        return isNextCased(letters, place, -1) && !isNextCased(letters, place, 1);
    }

    private boolean isNextCased(Letters letters, int place, int step) {
        for (int next = place + step; next >= 0 && next < letters.size; next += step) {
            if (!unicode.has(letters.codes[next], Unicode.IGNORABLE | Unicode.DROPPED)) {
                return unicode.has(letters.codes[next], Unicode.CASED);
            }
        }
        return false;
    }

    /** Sorts the few marks that are not stripped by their class, as NFD does; those that move share one range. */
    private void sortMarks(Letters letters) {
        int start = 0;
        while (start < letters.size) {
            int end = start + 1;
            if (unicode.getRank(letters.codes[start]) != 0) {
                while (end < letters.size
                        && unicode.getRank(letters.codes[end]) != 0
                        && letters.groups[end] == letters.groups[start]) {
                    end++;
                }
                sortMarks(letters, start, end);
            }
            start = end;
        }
    }

    private void sortMarks(Letters letters, int start, int end) {
        int[] codes = Arrays.copyOfRange(letters.codes, start, end);
        Integer[] order = new Integer[end - start];
        for (int index = 0; index < order.length; index++) {
            order[index] = index;
        }
        Arrays.sort(order, (one, other) -> Integer.compare(unicode.getRank(codes[one]), unicode.getRank(codes[other])));
        int first = Integer.MAX_VALUE;
        int last = 0;
        for (int index = 0; index < order.length; index++) {
            if (order[index] != index) {
                first = Math.min(first, letters.starts[start + index]);
                last = Math.max(last, letters.ends[start + index]);
            }
        }
        for (int index = 0; index < order.length; index++) {
            if (order[index] != index) {
                letters.codes[start + index] = codes[order[index]];
                letters.starts[start + index] = first;
                letters.ends[start + index] = last;
            }
        }
    }
}
