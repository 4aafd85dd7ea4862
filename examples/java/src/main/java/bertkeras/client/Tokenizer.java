package bertkeras.client;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * BERT's tokenizer, which returns the token ids of {@code bert_keras.BertTokenizer} for every text.
 *
 * <p>Several threads can share one.
 */
public final class Tokenizer {
    private static final String CONTINUATION = "##";

    final int padId;
    final int clsId;
    final int sepId;

    private final Unicode unicode = Unicode.get();
    private final Normalizer normalizer;
    private final Map<String, Integer> ids = new HashMap<>();
    private final Map<String, Integer> continuationIds = new HashMap<>(); // keyed by the token without "##"
    private final TokenSearch specialTokens = new TokenSearch();
    private final TokenSearch addedTokens = new TokenSearch();
    private final int unkId;
    private final int maxWordLength;
    private final int longestToken;
    private final int single; // the properties of characters that are words

    /**
     * Creates a tokenizer.
     *
     * @param vocabulary the tokens in the order of their ids
     * @param tokenizer the {@code tokenizer} of {@code model.json}
     * @throws IllegalArgumentException if this client does not have the model's text rules or Unicode version
     */
    public Tokenizer(List<String> vocabulary, Map<String, Object> tokenizer) {
        Settings settings = new Settings(tokenizer);
        checkRules(settings);
        padId = settings.getInt("pad_id");
        unkId = settings.getInt("unk_id");
        clsId = settings.getInt("cls_id");
        sepId = settings.getInt("sep_id");
        maxWordLength = settings.getInt("max_input_chars_per_word");
        normalizer = new Normalizer(settings.getBoolean("lowercase"), settings.getBoolean("strip_accents"));
        single = Unicode.SINGLE | (settings.getBoolean("tokenize_chinese_chars") ? Unicode.CHINESE : 0);
        longestToken = readVocabulary(vocabulary);
        for (String token : settings.getStrings("additional_special_tokens")) {
            specialTokens.add(Letters.read(token), ids.get(token));
        }
        for (String token : settings.getStrings("added_tokens")) {
            addedTokens.add(normalizer.normalize(Letters.read(token), false), ids.get(token));
        }
    }

    private void checkRules(Settings settings) {
        String textRules = settings.getString("text_rules");
        String version = settings.getString("unicode_version");
        if (!textRules.equals("bert")) {
            throw new IllegalArgumentException(
                    "the model's text rules are '" + textRules + "'; this client has 'bert': run it in MediaPipe");
        }
        if (!version.equals(unicode.version)) {
            throw new IllegalArgumentException(
                    "the model has Unicode " + version + "; this client has " + unicode.version
                            + ": use the client of the release that exported the model");
        }
    }

    /** Returns the length of the longest token, in characters. */
    private int readVocabulary(List<String> vocabulary) {
        int longest = 0;
        for (int id = 0; id < vocabulary.size(); id++) {
            String token = vocabulary.get(id);
            ids.put(token, id);
            if (token.startsWith(CONTINUATION)) {
                continuationIds.put(token.substring(CONTINUATION.length()), id);
            }
            longest = Math.max(longest, token.codePointCount(0, token.length()));
        }
        return longest;
    }

    /** Returns the tokens of a text, without [CLS] and [SEP]. */
    public List<Token> tokenize(String text) {
        Letters letters = specialTokens.replace(Letters.read(text));
        letters = addedTokens.replace(normalizer.normalize(letters, true));
        List<Token> tokens = new ArrayList<>();
        int wordStart = 0;
        for (int place = 0; place < letters.size; place++) {
            int code = letters.codes[place];
            if (code >= 0 && code != ' ' && !unicode.has(code, single)) {
                continue;
            }
            splitWord(letters, wordStart, place, tokens);
            if (code < 0) {
                int start = letters.starts[place];
                int end = letters.ends[place];
                tokens.add(new Token(-1 - code, start, end, start, end));
            } else if (code != ' ') {
                splitWord(letters, place, place + 1, tokens);
            }
            wordStart = place + 1;
        }
        splitWord(letters, wordStart, letters.size, tokens);
        return tokens;
    }

    /** Adds the WordPiece tokens of a word: each the longest in the vocabulary; [UNK] if there is none. */
    private void splitWord(Letters letters, int first, int last, List<Token> tokens) {
        if (first == last) {
            return;
        }
        int wordStart = letters.starts[first];
        int wordEnd = letters.ends[last - 1];
        int numBefore = tokens.size();
        int start = last - first <= maxWordLength ? first : last;
        String word = start == last ? "" : new String(letters.codes, first, last - first);
        int[] units = countUnits(letters, first, start == last ? first : last);
        while (start < last) {
            Map<String, Integer> candidates = start == first ? ids : continuationIds;
            int end = Math.min(last, start + longestToken);
            Integer id = null;
            while (end > start && id == null) {
                id = candidates.get(word.substring(units[start - first], units[end - first]));
                end--;
            }
            if (id == null) {
                tokens.subList(numBefore, tokens.size()).clear();
                break;
            }
            tokens.add(new Token(id, letters.starts[start], letters.ends[end], wordStart, wordEnd));
            start = end + 1;
        }
        if (tokens.size() == numBefore) {
            tokens.add(new Token(unkId, wordStart, wordEnd, wordStart, wordEnd));
        }
    }

    /** Returns the place of each letter in the string of a word, in UTF-16 units, and the string's length. */
    private static int[] countUnits(Letters letters, int first, int last) {
        int[] units = new int[last - first + 1];
        for (int place = first; place < last; place++) {
            units[place - first + 1] = units[place - first] + Character.charCount(letters.codes[place]);
        }
        return units;
    }

    /**
     * Returns the ranges of a text's words: white space ends a word, each punctuation or Chinese character is one.
     *
     * @return a start and an end for each word, in UTF-16 units
     */
    public static List<int[]> splitWords(String text) {
        Unicode unicode = Unicode.get();
        Letters letters = Letters.read(text);
        letters.add(' ', text.length(), text.length() + 1, 0);
        List<int[]> words = new ArrayList<>();
        int wordStart = 0;
        boolean isVisible = false; // whether the word has a character that is not dropped
        for (int place = 0; place < letters.size; place++) {
            int code = letters.codes[place];
            boolean isSingle = unicode.has(code, Unicode.SINGLE | Unicode.CHINESE);
            if (!isSingle && !unicode.has(code, Unicode.SPACE)) {
                isVisible |= !unicode.has(code, Unicode.DROPPED);
                continue;
            }
            if (isVisible) {
                words.add(new int[] {wordStart, letters.starts[place]});
            }
            if (isSingle) {
                words.add(new int[] {letters.starts[place], letters.ends[place]});
            }
            wordStart = letters.ends[place];
            isVisible = false;
        }
        return words;
    }
}
