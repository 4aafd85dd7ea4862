package bertkeras.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Finds whole tokens in characters: the leftmost match, and of those the longest. */
final class TokenSearch {
    private final Map<Integer, List<Entry>> entries = new HashMap<>(); // keyed by their first character, longest first

    private static final class Entry {
        final int[] codes;
        final int id;

        Entry(int[] codes, int id) {
            this.codes = codes;
            this.id = id;
        }

        boolean isAt(Letters letters, int place) {
            if (codes.length > letters.size - place) {
                return false;
            }
            for (int index = 0; index < codes.length; index++) {
                if (letters.codes[place + index] != codes[index]) {
                    return false;
                }
            }
            return true;
        }
    }

    /** Adds a token with the given characters. */
    void add(Letters token, int id) {
        int[] codes = Arrays.copyOf(token.codes, token.size);
        List<Entry> others = entries.get(codes[0]);
        if (others == null) {
            others = new ArrayList<>();
            entries.put(codes[0], others);
        }
        int place = 0;
        while (place < others.size() && others.get(place).codes.length > codes.length) {
            place++;
        }
        others.add(place, new Entry(codes, id));
    }

    /** Returns the letters with one letter for each token. */
    Letters replace(Letters letters) {
        if (entries.isEmpty()) {
            return letters;
        }
        Letters found = new Letters(letters.size);
        for (int place = 0; place < letters.size; ) {
            Entry entry = find(letters, place);
            int code = entry == null ? letters.codes[place] : -1 - entry.id;
            int next = place + (entry == null ? 1 : entry.codes.length);
            found.add(code, letters.starts[place], letters.ends[next - 1], 0);
            place = next;
        }
        return found;
    }

    private Entry find(Letters letters, int place) {
        List<Entry> candidates = entries.get(letters.codes[place]);
        if (candidates != null) {
            for (Entry candidate : candidates) {
                if (candidate.isAt(letters, place)) {
                    return candidate;
                }
            }
        }
        return null;
    }
}
