package bertkeras.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/**
 * The properties of characters, from {@code unicode_tables.txt}, whose lines {@code examples/make_unicode_tables.py}
 * describes.
 *
 * <p>The tables are looked up by pages of 256 code points, as most pages are empty.
 */
final class Unicode {
    static final int SPACE = 1;
    static final int DROPPED = 1 << 1;
    static final int SINGLE = 1 << 2;
    static final int CHINESE = 1 << 3;
    static final int MARK = 1 << 4;
    static final int BLOCKING = 1 << 5;
    static final int CASED = 1 << 6;
    static final int IGNORABLE = 1 << 7;

    private static final String[] SETS = { // of bit 0, 1, ...
        "space", "dropped", "single", "chinese", "mark", "blocking", "cased", "ignorable"
    };
    private static final int RANK_SHIFT = SETS.length; // the bits above are the rank of a mark
    private static final String RESOURCE = "/bertkeras/client/unicode_tables.txt"; // absolute, as R8 renames packages
    private static final int NUM_PAGES = 0x1100;
    private static final int HANGUL_FIRST = 0xAC00;
    private static final int HANGUL_LAST = 0xD7A3;
    private static final int BASE = 36;

    /** The version of Unicode. */
    final String version;

    private final short[][] properties = new short[NUM_PAGES][];
    private final int[][][] lower;
    private final int[][][] strip;

    private Unicode(Map<String, String> rows) {
        version = rows.get("version");
        lower = readMap(rows.get("lower"));
        strip = readMap(rows.get("strip"));
        for (int bit = 0; bit < SETS.length; bit++) {
            readSet(rows.get(SETS[bit]), 1 << bit);
        }
        for (int rank = 1; rows.containsKey("rank" + rank); rank++) {
            readSet(rows.get("rank" + rank), rank << RANK_SHIFT);
        }
    }

    private static final class Holder {
        static final Unicode TABLES = new Unicode(readRows());
    }

    /** Returns the tables of this package. */
    static Unicode get() {
        return Holder.TABLES;
    }

    /** Returns whether a character has one of some properties, such as {@code SINGLE | CHINESE}. */
    boolean has(int code, int flags) {
        return (getProperties(code) & flags) != 0;
    }

    /** Returns the rank by which NFD sorts a mark that is not stripped; 0: the character does not move. */
    int getRank(int code) {
        return getProperties(code) >> RANK_SHIFT;
    }

    /** Returns the lower case of a character; null: the character itself. */
    int[] getLower(int code) {
        return code < 0 || lower[code >> 8] == null ? null : lower[code >> 8][code & 0xFF];
    }

    /** Returns the decomposition, without marks, of a character that is not a mark; null: the character itself. */
    int[] getStripped(int code) {
        if (code >= HANGUL_FIRST && code <= HANGUL_LAST) {
            int index = code - HANGUL_FIRST;
            int lead = 0x1100 + index / 588;
            int vowel = 0x1161 + index % 588 / 28;
            int tail = 0x11A7 + index % 28;
            return tail == 0x11A7 ? new int[] {lead, vowel} : new int[] {lead, vowel, tail};
        }
        return code < 0 || strip[code >> 8] == null ? null : strip[code >> 8][code & 0xFF];
    }

    private int getProperties(int code) {
        if (code < 0) { // a whole token
            return 0;
        }
        short[] page = properties[code >> 8];
        return page == null ? 0 : page[code & 0xFF];
    }

    private static Map<String, String> readRows() {
        Map<String, String> rows = new HashMap<>();
        try (InputStream stream = Unicode.class.getResourceAsStream(RESOURCE)) {
            if (stream == null) {
                throw new IllegalStateException(
                        "the resource " + RESOURCE + " is missing: copy src/main/resources too");
            }
            BufferedReader reader = new BufferedReader(new InputStreamReader(stream, StandardCharsets.US_ASCII));
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                int space = line.indexOf(' ');
                rows.put(line.substring(0, space), line.substring(space + 1));
            }
        } catch (IOException error) {
            throw new IllegalStateException("the resource " + RESOURCE + " cannot be read", error);
        }
        return rows;
    }

    /** Adds a property to the characters of a line of ranges, {@code GAP} or {@code GAP.LENGTH}. */
    private void readSet(String items, int property) {
        int end = 0;
        for (String item : items.split(" ")) {
            int dot = item.indexOf('.');
            int start = end + parse(dot < 0 ? item : item.substring(0, dot));
            end = start + (dot < 0 ? 1 : parse(item.substring(dot + 1)));
            for (int code = start; code < end; code++) {
                if (properties[code >> 8] == null) {
                    properties[code >> 8] = new short[256];
                }
                properties[code >> 8][code & 0xFF] |= (short) property;
            }
        }
    }

    /** Reads a line of {@code GAP:VALUE,VALUE...} into pages of values. */
    private static int[][][] readMap(String items) {
        int[][][] pages = new int[NUM_PAGES][][];
        int code = 0;
        for (String item : items.split(" ")) {
            int colon = item.indexOf(':');
            code += parse(item.substring(0, colon));
            String[] values = item.substring(colon + 1).split(",");
            int[] codes = new int[values.length];
            for (int index = 0; index < codes.length; index++) {
                codes[index] = parse(values[index]);
            }
            if (pages[code >> 8] == null) {
                pages[code >> 8] = new int[256][];
            }
            pages[code >> 8][code & 0xFF] = codes;
        }
        return pages;
    }

    private static int parse(String number) {
        return Integer.parseInt(number, BASE);
    }
}
