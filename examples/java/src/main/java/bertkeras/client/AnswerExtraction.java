package bertkeras.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The task "answer": the answer to a question in a context. */
final class AnswerExtraction {
    private AnswerExtraction() {}

    /** A possible answer. */
    private static final class ScoredRange implements Comparable<ScoredRange> {
        final double score;
        final int start;
        final int end;

        ScoredRange(double score, int start, int end) {
            this.score = score;
            this.start = start;
            this.end = end;
        }

        @Override
        public int compareTo(ScoredRange other) { // the highest score first, then the last in the text
            if (score != other.score) {
                return score > other.score ? -1 : 1;
            }
            return start != other.start ? Integer.compare(other.start, start) : Integer.compare(other.end, end);
        }
    }

    /** Returns the best answers in a context, and the chosen one. */
    static Answer.Extract extract(String context, List<Window> windows, List<Outputs> outputs, Settings task) {
        List<ScoredRange> ranges = new ArrayList<>();
        int[] bestWindows = Windows.findBest(windows);
        double nullScore = Double.POSITIVE_INFINITY;
        for (int index = 0; index < windows.size(); index++) {
            float[] starts = outputs.get(index).get("start_logits");
            float[] ends = outputs.get(index).get("end_logits");
            nullScore = Math.min(nullScore, (double) starts[0] + ends[0]);
            ranges.addAll(findRanges(windows.get(index), index, bestWindows, starts, ends, task));
        }
        Collections.sort(ranges);
        List<Answer.Candidate> best = makeCandidates(context, chooseRanges(context, ranges, task.getInt("num_best")));
        boolean isNull = best.isEmpty()
                || (task.getBoolean("allows_null") && nullScore - best.get(0).score > task.getDouble("null_threshold"));
        return new Answer.Extract(isNull ? null : best.get(0), nullScore, best);
    }

    /** Returns the possible answers that start in a window, at tokens that have the most context in it. */
    private static List<ScoredRange> findRanges(
            Window window, int index, int[] bestWindows, float[] starts, float[] ends, Settings task) {
        int numLogits = task.getInt("num_logits");
        int maxLength = task.getInt("max_answer_length");
        List<ScoredRange> ranges = new ArrayList<>();
        Integer[] topEnds = findHighest(ends, window, numLogits);
        for (int first : findHighest(starts, window, numLogits)) {
            if (bestWindows[window.first + first] != index) {
                continue;
            }
            for (int last : topEnds) {
                if (first <= last && last < first + maxLength) {
                    double score = (double) starts[window.offset + first] + ends[window.offset + last];
                    Token firstToken = window.tokens.get(first);
                    Token lastToken = window.tokens.get(last);
                    ranges.add(new ScoredRange(score, firstToken.wordStart, lastToken.wordEnd));
                }
            }
        }
        return ranges;
    }

    /** Returns the tokens of a window with the highest logits; of equal ones, the first. */
    private static Integer[] findHighest(float[] logits, Window window, int number) {
        Integer[] places = new Integer[window.tokens.size()];
        for (int place = 0; place < places.length; place++) {
            places[place] = place;
        }
        Arrays.sort(places, (one, other) -> {
            float first = logits[window.offset + one];
            float second = logits[window.offset + other];
            return first == second ? 0 : first > second ? -1 : 1;
        });
        return Arrays.copyOf(places, Math.min(places.length, number));
    }

    /** Returns the best ranges with different texts. */
    private static List<ScoredRange> chooseRanges(String context, List<ScoredRange> ranges, int number) {
        Map<String, ScoredRange> best = new LinkedHashMap<>();
        for (ScoredRange range : ranges) {
            String answer = context.substring(range.start, range.end);
            if (!best.containsKey(answer)) {
                best.put(answer, range);
            }
            if (best.size() == number) {
                break;
            }
        }
        return new ArrayList<>(best.values());
    }

    private static List<Answer.Candidate> makeCandidates(String context, List<ScoredRange> ranges) {
        List<Answer.Candidate> candidates = new ArrayList<>();
        if (ranges.isEmpty()) {
            return candidates;
        }
        double[] scores = new double[ranges.size()];
        for (int index = 0; index < scores.length; index++) {
            scores[index] = ranges.get(index).score;
        }
        double[] probabilities = Numbers.softmax(scores);
        for (int index = 0; index < scores.length; index++) {
            int start = ranges.get(index).start;
            int end = ranges.get(index).end;
            String answer = context.substring(start, end);
            candidates.add(new Answer.Candidate(answer, start, end, scores[index], probabilities[index]));
        }
        return candidates;
    }
}
