package bertkeras.client;

import java.util.Collections;
import java.util.List;

/**
 * The answer of a model: one of the nested classes, depending on the model's task.
 *
 * <p>Ranges count UTF-16 units: {@code text.substring(start, end)}.
 */
public abstract class Answer {
    private Answer() {}

    /** The class of a text. */
    public static final class Label extends Answer {
        public final String label;
        public final double probability;

        /** One for each label, in the order of the labels in {@code model.json}. */
        public final double[] probabilities;

        Label(String label, double probability, double[] probabilities) {
            this.label = label;
            this.probability = probability;
            this.probabilities = probabilities;
        }
    }

    /** The classes of a text, none or several. */
    public static final class Labels extends Answer {
        public final List<String> labels;

        /** One for each label of {@code model.json}, also for those that were not chosen. */
        public final double[] probabilities;

        Labels(List<String> labels, double[] probabilities) {
            this.labels = Collections.unmodifiableList(labels);
            this.probabilities = probabilities;
        }
    }

    /** The number that a regression model predicts for a text. */
    public static final class Value extends Answer {
        public final double value;

        Value(double value) {
            this.value = value;
        }
    }

    /** The entities in a text, for labels such as "B-person" and "I-person". */
    public static final class Entities extends Answer {
        /** The tag of each word. */
        public final List<String> tags;

        public final List<Span> entities;

        Entities(List<String> tags, List<Span> entities) {
            this.tags = Collections.unmodifiableList(tags);
            this.entities = Collections.unmodifiableList(entities);
        }
    }

    /** The tagged words of a text, for labels that are not entities, such as parts of speech. */
    public static final class Words extends Answer {
        /** The tag of each word. */
        public final List<String> tags;

        public final List<Span> words;

        Words(List<String> tags, List<Span> words) {
            this.tags = Collections.unmodifiableList(tags);
            this.words = Collections.unmodifiableList(words);
        }
    }

    /** The answer to a question in a context. */
    public static final class Extract extends Answer {
        /** The chosen answer; null: the context has none. */
        public final Candidate chosen;

        /** The score of "the context has no answer". */
        public final double nullScore;

        /** The best answers, the one with the highest score first. */
        public final List<Candidate> best;

        Extract(Candidate chosen, double nullScore, List<Candidate> best) {
            this.chosen = chosen;
            this.nullScore = nullScore;
            this.best = Collections.unmodifiableList(best);
        }
    }

    /** The vector of a text. */
    public static final class Embedding extends Answer {
        public final float[] embedding;

        Embedding(float[] embedding) {
            this.embedding = embedding;
        }
    }

    /** The similarity of two texts. */
    public static final class Similarity extends Answer {
        public final double cosine;

        Similarity(double cosine) {
            this.cosine = cosine;
        }
    }

    /** An entity or a tagged word. */
    public static final class Span {
        public final String label;
        public final String text;
        public final int start;
        public final int end;

        /** The mean over the words. */
        public final double probability;

        Span(String label, String text, int start, int end, double probability) {
            this.label = label;
            this.text = text;
            this.start = start;
            this.end = end;
            this.probability = probability;
        }
    }

    /** A possible answer to a question. */
    public static final class Candidate {
        public final String answer;
        public final int start;
        public final int end;
        public final double score;

        /** The probability among the best answers. */
        public final double probability;

        Candidate(String answer, int start, int end, double score, double probability) {
            this.answer = answer;
            this.start = start;
            this.end = end;
            this.score = score;
            this.probability = probability;
        }
    }
}
