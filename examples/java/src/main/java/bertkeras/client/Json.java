package bertkeras.client;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON, so that this package needs no library: Android has {@code org.json}, and the JDK has nothing. */
public final class Json {
    private final String text;
    private int place;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Reads a JSON value.
     *
     * @return a {@code Map<String, Object>}, a {@code List<Object>}, a String, a Double, a Boolean or null
     * @throws IllegalArgumentException if the text is not JSON
     */
    public static Object parse(String text) {
        Json json = new Json(text);
        Object value = json.readValue();
        json.skipSpace();
        if (json.place < text.length()) {
            throw json.makeError("the end");
        }
        return value;
    }

    private Object readValue() {
        skipSpace();
        switch (peek()) {
            case '{':
                return readObject();
            case '[':
                return readList();
            case '"':
                return readString();
            case 't':
                return readWord("true", Boolean.TRUE);
            case 'f':
                return readWord("false", Boolean.FALSE);
            case 'n':
                return readWord("null", null);
            default:
                return readNumber();
        }
    }

    private Map<String, Object> readObject() {
        Map<String, Object> values = new LinkedHashMap<>();
        expect('{');
        if (skip('}')) {
            return values;
        }
        do {
            skipSpace();
            String name = readString();
            expect(':');
            values.put(name, readValue());
        } while (skip(','));
        expect('}');
        return values;
    }

    private List<Object> readList() {
        List<Object> values = new ArrayList<>();
        expect('[');
        if (skip(']')) {
            return values;
        }
        do {
            values.add(readValue());
        } while (skip(','));
        expect(']');
        return values;
    }

    private String readString() {
        expect('"');
        StringBuilder string = new StringBuilder();
        while (peek() != '"') {
            char character = text.charAt(place++);
            string.append(character == '\\' ? readEscape() : character);
        }
        place++;
        return string.toString();
    }

    private char readEscape() {
        char escape = peek();
        place++;
        switch (escape) {
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            case 'u':
                return readCodeUnit();
            case '"':
            case '\\':
            case '/':
                return escape;
            default:
                place--;
                throw makeError("an escape sequence");
        }
    }

    private char readCodeUnit() {
        int unit = 0;
        for (int index = 0; index < 4; index++) {
            int digit = Character.digit(peek(), 16);
            if (digit < 0) {
                throw makeError("four hexadecimal digits");
            }
            unit = 16 * unit + digit;
            place++;
        }
        return (char) unit;
    }

    private Object readWord(String word, Object value) {
        if (!text.startsWith(word, place)) {
            throw makeError(word);
        }
        place += word.length();
        return value;
    }

    private Double readNumber() {
        int start = place;
        while (place < text.length() && "+-.0123456789Ee".indexOf(text.charAt(place)) >= 0) {
            place++;
        }
        try {
            return Double.valueOf(text.substring(start, place));
        } catch (NumberFormatException error) {
            place = start;
            throw makeError("a value");
        }
    }

    private void skipSpace() {
        while (place < text.length() && " \t\n\r".indexOf(text.charAt(place)) >= 0) {
            place++;
        }
    }

    private boolean skip(char character) {
        skipSpace();
        boolean isNext = place < text.length() && text.charAt(place) == character;
        place += isNext ? 1 : 0;
        return isNext;
    }

    private void expect(char character) {
        if (!skip(character)) {
            throw makeError("'" + character + "'");
        }
    }

    private char peek() {
        if (place >= text.length()) {
            throw makeError("more text");
        }
        return text.charAt(place);
    }

    private IllegalArgumentException makeError(String expected) {
        return new IllegalArgumentException("invalid JSON at character " + place + "; expected " + expected);
    }
}
