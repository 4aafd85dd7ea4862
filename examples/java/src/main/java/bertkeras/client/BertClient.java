package bertkeras.client;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Answers texts with a model that {@code bert-keras export} wrote.
 *
 * <p>The token ids equal those of {@code bert_keras.BertTokenizer}, and the answers those of
 * {@code bert_keras.Predictor}. Several threads can share a client if its runner allows it.
 */
public final class BertClient {
    private static final int FORMAT = 1; // of model.json

    private final Tokenizer tokenizer;
    private final Settings task; // null: the model has none
    private final Runner runner;

    /**
     * Creates a client.
     *
     * @param description the content of {@code model.json}
     * @param vocabulary the tokens in the order of their ids
     * @param runner runs the model on a sequence
     * @throws IllegalArgumentException if this client cannot run the model
     */
    public BertClient(Map<String, Object> description, List<String> vocabulary, Runner runner) {
        Settings settings = new Settings(description);
        int format = settings.getInt("format");
        if (format != FORMAT) {
            throw new IllegalArgumentException(
                    "model.json has the format " + format + "; this client reads " + FORMAT
                            + ": use the client of the release that exported the model");
        }
        this.tokenizer = new Tokenizer(vocabulary, settings.getMap("tokenizer"));
        this.task = settings.getSettingsOrNull("task");
        this.runner = runner;
    }

    /**
     * Loads a model from the {@code tflite/} or {@code onnx/} folder that {@code bert-keras export} wrote.
     *
     * @throws IOException if a file cannot be read
     * @throws IllegalArgumentException if this client cannot run the model
     */
    public static BertClient load(File folder, Runner runner) throws IOException {
        return load(name -> new FileInputStream(new File(folder, name)), runner);
    }

    /**
     * Loads a model from files that {@code opener} opens, such as the assets of an app.
     *
     * @throws IOException if a file cannot be read
     * @throws IllegalArgumentException if this client cannot run the model
     */
    @SuppressWarnings("unchecked") // the keys of JSON objects are strings
    public static BertClient load(InputStreamOpener opener, Runner runner) throws IOException {
        Map<String, Object> description = (Map<String, Object>) Json.parse(readText(opener, "model.json"));
        String path = new Settings(new Settings(description).getMap("tokenizer")).getString("vocabulary");
        return new BertClient(description, splitLines(readText(opener, path)), runner);
    }

    /** Returns the tokenizer, for a program that runs the model itself. */
    public Tokenizer getTokenizer() {
        return tokenizer;
    }

    /** Answers a text. */
    public Answer answer(String text) {
        return answer(text, null);
    }

    /**
     * Answers a text, or a pair of texts: for a model that answers questions, a question and its context.
     *
     * @param secondText the second text of a pair, or null
     * @throws IllegalArgumentException if a text is missing or is not wanted, or the model has no task
     */
    public Answer answer(String text, String secondText) {
        switch (getTask().getString("name")) {
            case "classify":
                return Classification.classify(runAll(makeWindows(text, secondText)), task);
            case "tag": {
                List<Window> windows = makeWindows(text, secondText);
                return Tagging.tag(text, Tokenizer.splitWords(text), windows, runAll(windows), task);
            }
            case "answer": {
                List<Window> windows = makeWindows(text, secondText);
                return AnswerExtraction.extract(secondText, windows, runAll(windows), task);
            }
            default:
                float[] embedding = embed(text);
                return secondText == null
                        ? new Answer.Embedding(embedding)
                        : new Answer.Similarity(Numbers.computeCosine(embedding, embed(secondText)));
        }
    }

    /** Returns the vector of a text. */
    public float[] embed(String text) {
        return runAll(makeWindows(text, null)).get(0).get("sentence_embedding");
    }

    /**
     * Returns the sequences of a text or a pair of texts.
     *
     * @param secondText the second text of a pair, or null
     * @throws IllegalArgumentException see {@link #answer(String, String)}
     */
    public List<Window> makeWindows(String text, String secondText) {
        String name = getTask().getString("name");
        checkTexts(name, secondText != null);
        String whole = name.equals("tag") ? Tagging.joinWords(text, Tokenizer.splitWords(text)) : text;
        return Windows.make(
                tokenizer,
                task.getStringOrEmpty("prompt") + whole,
                secondText,
                task.getInt("max_sequence_length"),
                task.getIntOrNull("window_overlap"),
                task.getIntOrNull("max_question_length"));
    }

    private void checkTexts(String name, boolean isPair) {
        boolean isClassifier = name.equals("classify");
        String problem = null;
        if (name.equals("answer") && !isPair) {
            problem = "a question needs a context, and there is none; expected a pair of texts: give both";
        } else if (name.equals("tag") && isPair) {
            problem = "tagging needs single texts, and a second text was given: leave it out";
        } else if (isClassifier && !isPair && task.getBoolean("has_pairs")) {
            problem = "the model classifies pairs of texts, and there is one text: give both";
        } else if (isClassifier && isPair && !task.getBoolean("has_pairs")) {
            problem = "the model classifies single texts, and a second text was given: leave it out";
        }
        if (problem != null) {
            throw new IllegalArgumentException(problem);
        }
    }

    private Settings getTask() {
        if (task == null) {
            throw new IllegalArgumentException(
                    "the model has no task, so there is nothing to answer: use tokenizer and its outputs");
        }
        return task;
    }

    private List<Outputs> runAll(List<Window> windows) {
        List<Outputs> outputs = new ArrayList<>();
        for (Window window : windows) {
            int[] attentionMask = new int[window.tokenIds.length];
            Arrays.fill(attentionMask, 1);
            outputs.add(new Outputs(runner.run(window.tokenIds, attentionMask, window.segmentIds)));
        }
        return outputs;
    }

    private static String readText(InputStreamOpener opener, String name) throws IOException {
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        try (InputStream stream = opener.open(name)) {
            byte[] buffer = new byte[1 << 16];
            for (int size = stream.read(buffer); size >= 0; size = stream.read(buffer)) {
                content.write(buffer, 0, size);
            }
        }
        return content.toString("UTF-8");
    }

    /** Returns the lines of a vocabulary, which end with a line feed; other control characters belong to tokens. */
    private static List<String> splitLines(String text) {
        List<String> lines = new ArrayList<>();
        int start = 0;
        for (int end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
            lines.add(text.substring(start, end));
            start = end + 1;
        }
        return lines;
    }
}
