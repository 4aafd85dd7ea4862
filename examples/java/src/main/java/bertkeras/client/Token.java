package bertkeras.client;

/** A token: its id, and the ranges of UTF-16 units that became it and its word. */
public final class Token {
    public final int id;
    public final int start;
    public final int end;
    public final int wordStart;
    public final int wordEnd;

    Token(int id, int start, int end, int wordStart, int wordEnd) {
        this.id = id;
        this.start = start;
        this.end = end;
        this.wordStart = wordStart;
        this.wordEnd = wordEnd;
    }
}
