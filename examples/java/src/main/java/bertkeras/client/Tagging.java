package bertkeras.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The task "tag": a label for each word, and the entities. */
final class Tagging {
    private static final String OUTSIDE = "O";

    private Tagging() {}

    /** A label and a range of words. */
    private static final class WordRange {
        final String label;
        final int first;
        int last;

        WordRange(String label, int first, int last) {
            this.label = label;
            this.first = first;
            this.last = last;
        }
    }

    /** Returns the words of a text joined by spaces, which are tokenized. */
    static String joinWords(String text, List<int[]> words) {
        StringBuilder joined = new StringBuilder();
        for (int[] word : words) {
            joined.append(joined.length() == 0 ? "" : " ").append(text, word[0], word[1]);
        }
        return joined.toString();
    }

    /** Returns the tag of each word, predicted at its first token, and the entities. */
    static Answer tag(String text, List<int[]> words, List<Window> windows, List<Outputs> outputs, Settings task) {
        List<String> labels = task.getStrings("labels");
        String outside = labels.get(Math.max(labels.indexOf(OUTSIDE), 0));
        List<String> tags = new ArrayList<>(Collections.nCopies(words.size(), outside));
        double[] probabilities = new double[words.size()];
        boolean[] isTagged = new boolean[words.size()];
        int[] starts = findStarts(words);
        int[] best = Windows.findBest(windows);
        for (int token = 0; token < best.length; token++) {
            Window window = windows.get(best[token]);
            int place = token - window.first;
            int word = findWord(starts, window.tokens.get(place).start);
            if (isTagged[word]) {
                continue;
            }
            isTagged[word] = true;
            double[] logits = outputs.get(best[token]).getRow("logits", window.offset + place, labels.size());
            double[] scores = Numbers.softmax(logits);
            int label = Numbers.findMaximum(scores);
            tags.set(word, labels.get(label));
            probabilities[word] = scores[label];
        }
        if (!task.getString("scheme").equals("none")) {
            return new Answer.Entities(tags, makeSpans(text, words, findEntities(tags), probabilities));
        }
        List<WordRange> ranges = new ArrayList<>();
        for (int word = 0; word < words.size(); word++) {
            ranges.add(new WordRange(tags.get(word), word, word + 1));
        }
        return new Answer.Words(tags, makeSpans(text, words, ranges, probabilities));
    }

    /** Returns the start of each word in the joined text. */
    private static int[] findStarts(List<int[]> words) {
        int[] starts = new int[words.size()];
        for (int word = 1; word < starts.length; word++) {
            int[] before = words.get(word - 1);
            starts[word] = starts[word - 1] + before[1] - before[0] + 1;
        }
        return starts;
    }

    /** Returns the last word that starts at {@code place} or before it. */
    private static int findWord(int[] starts, int place) {
        int found = Arrays.binarySearch(starts, place);
        return found >= 0 ? found : -found - 2;
    }

    private static List<Answer.Span> makeSpans(
            String text, List<int[]> words, List<WordRange> ranges, double[] probabilities) {
        List<Answer.Span> spans = new ArrayList<>();
        for (WordRange range : ranges) {
            int start = words.get(range.first)[0];
            int end = words.get(range.last - 1)[1];
            double sum = 0;
            for (int word = range.first; word < range.last; word++) {
                sum += probabilities[word];
            }
            double mean = sum / (range.last - range.first);
            spans.add(new Answer.Span(range.label, text.substring(start, end), start, end, mean));
        }
        return spans;
    }

    /** Returns the entities, with the leniency of {@code conlleval}. */
    private static List<WordRange> findEntities(List<String> tags) {
        List<WordRange> entities = new ArrayList<>();
        String openLabel = ""; // the label of the entity that the next word may continue
        for (int place = 0; place < tags.size(); place++) {
            String tag = tags.get(place);
            char letter = simplifyLetter(tag.charAt(0));
            String name = tag.length() > 2 ? tag.substring(2) : "_";
            String label = letter == 'O' ? "" : name;
            if ((letter == 'I' || letter == 'E') && openLabel.equals(label)) {
                entities.get(entities.size() - 1).last = place + 1;
            } else if (letter != 'O') {
                entities.add(new WordRange(label, place, place + 1));
            }
            openLabel = letter == 'B' || letter == 'I' ? label : "";
        }
        return entities;
    }

    /** Returns the letter of the scheme IOBES for a letter of the scheme BILOU. */
    private static char simplifyLetter(char letter) {
        return letter == 'L' ? 'E' : letter == 'U' ? 'S' : letter;
    }
}
