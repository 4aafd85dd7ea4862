package bertkeras.client;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Answers JSON lines on standard input with one line each, for the tests of bert_keras.
 *
 * <p>{@code tests/examples/clients/client_process.py} describes the lines. LiteRT has no library for the JDK, so this
 * program asks its caller to run the model: it writes {@code {"run": [ids], "segments": [ids]}} and reads a line with
 * the outputs, {@code {"name": [floats], ...}}.
 */
public final class AnswerLines {
    private final BufferedReader input = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8), 1 << 16);
    private final PrintStream output = new PrintStream(System.out, false);
    private BertClient client;

    private AnswerLines() {}

    public static void main(String[] arguments) throws IOException {
        new AnswerLines().answerAll();
    }

    private void answerAll() throws IOException {
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            Object answer;
            try {
                answer = answerRequest(asMap(Json.parse(line)));
            } catch (IOException | RuntimeException error) {
                answer = mapOf("error", String.valueOf(error.getMessage()));
            }
            write(answer);
        }
    }

    private Object answerRequest(Map<String, Object> request) throws IOException {
        if (request.containsKey("folder")) {
            client = BertClient.load(new File((String) request.get("folder")), this::run);
            return mapOf();
        }
        if (request.containsKey("tokenize")) {
            return listTokens(client.getTokenizer().tokenize((String) request.get("tokenize")));
        }
        List<?> texts = (List<?>) request.get("answer");
        return describe(client.answer((String) texts.get(0), texts.size() > 1 ? (String) texts.get(1) : null));
    }

    private static Object listTokens(List<Token> tokens) {
        int[][] columns = new int[5][tokens.size()];
        for (int index = 0; index < tokens.size(); index++) {
            Token token = tokens.get(index);
            columns[0][index] = token.id;
            columns[1][index] = token.start;
            columns[2][index] = token.end;
            columns[3][index] = token.wordStart;
            columns[4][index] = token.wordEnd;
        }
        return mapOf(
                "ids", columns[0], "starts", columns[1], "ends", columns[2],
                "wordStarts", columns[3], "wordEnds", columns[4]);
    }

    private Map<String, float[]> run(int[] inputIds, int[] attentionMask, int[] tokenTypeIds) {
        for (int value : attentionMask) {
            if (value != 1) {
                throw new IllegalStateException("the attention mask has a value " + value);
            }
        }
        write(mapOf("run", inputIds, "segments", tokenTypeIds));
        Map<String, float[]> outputs = new HashMap<>();
        try {
            for (Map.Entry<String, Object> entry : asMap(Json.parse(input.readLine())).entrySet()) {
                List<?> values = (List<?>) entry.getValue();
                float[] array = new float[values.size()];
                for (int index = 0; index < array.length; index++) {
                    array[index] = ((Double) values.get(index)).floatValue();
                }
                outputs.put(entry.getKey(), array);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return outputs;
    }

    /** Returns an answer with the names of the Python client. */
    private static Map<String, Object> describe(Answer answer) {
        if (answer instanceof Answer.Label) {
            Answer.Label one = (Answer.Label) answer;
            return mapOf("label", one.label, "probability", one.probability, "probabilities", one.probabilities);
        }
        if (answer instanceof Answer.Labels) {
            Answer.Labels one = (Answer.Labels) answer;
            return mapOf("labels", one.labels, "probabilities", one.probabilities);
        }
        if (answer instanceof Answer.Value) {
            return mapOf("value", ((Answer.Value) answer).value);
        }
        if (answer instanceof Answer.Entities) {
            Answer.Entities one = (Answer.Entities) answer;
            return mapOf("tags", one.tags, "entities", describeSpans(one.entities));
        }
        if (answer instanceof Answer.Words) {
            Answer.Words one = (Answer.Words) answer;
            return mapOf("tags", one.tags, "words", describeSpans(one.words));
        }
        if (answer instanceof Answer.Extract) {
            return describe((Answer.Extract) answer);
        }
        if (answer instanceof Answer.Embedding) {
            return mapOf("embedding", ((Answer.Embedding) answer).embedding);
        }
        return mapOf("cosine", ((Answer.Similarity) answer).cosine);
    }

    private static Map<String, Object> describe(Answer.Extract answer) {
        List<Object> best = new ArrayList<>();
        for (Answer.Candidate one : answer.best) {
            best.add(describe(one));
        }
        Map<String, Object> described = answer.chosen != null
                ? describe(answer.chosen)
                : mapOf("answer", "", "start", null, "end", null, "score", answer.nullScore, "probability", null);
        described.put("null_score", answer.nullScore);
        described.put("best", best);
        return described;
    }

    private static Map<String, Object> describe(Answer.Candidate one) {
        return mapOf(
                "answer", one.answer, "start", one.start, "end", one.end,
                "score", one.score, "probability", one.probability);
    }

    private static List<Object> describeSpans(List<Answer.Span> spans) {
        List<Object> described = new ArrayList<>();
        for (Answer.Span span : spans) {
            described.add(mapOf(
                    "label", span.label, "text", span.text, "start", span.start, "end", span.end,
                    "probability", span.probability));
        }
        return described;
    }

    @SuppressWarnings("unchecked") // the keys of JSON objects are strings
    private static Map<String, Object> asMap(Object value) {
        return (Map<String, Object>) value;
    }

    private static Map<String, Object> mapOf(Object... entries) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int index = 0; index < entries.length; index += 2) {
            map.put((String) entries[index], entries[index + 1]);
        }
        return map;
    }

    private void write(Object value) {
        StringBuilder line = new StringBuilder();
        writeJson(line, value);
        output.println(line);
        output.flush();
    }

    private static void writeJson(StringBuilder line, Object value) {
        if (value instanceof String) {
            writeString(line, (String) value);
        } else if (value instanceof Map) {
            char separator = '{';
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                writeString(line.append(separator), (String) entry.getKey());
                writeJson(line.append(':'), entry.getValue());
                separator = ',';
            }
            line.append(separator == '{' ? "{}" : "}");
        } else if (value instanceof int[] || value instanceof double[] || value instanceof float[]) {
            int length = java.lang.reflect.Array.getLength(value);
            line.append('[');
            for (int index = 0; index < length; index++) {
                line.append(index == 0 ? "" : ",").append(java.lang.reflect.Array.get(value, index));
            }
            line.append(']');
        } else if (value instanceof List) {
            char separator = '[';
            for (Object one : (List<?>) value) {
                writeJson(line.append(separator), one);
                separator = ',';
            }
            line.append(separator == '[' ? "[]" : "]");
        } else {
            line.append(value); // a number, true, false or null
        }
    }

    private static void writeString(StringBuilder line, String string) {
        line.append('"');
        for (int index = 0; index < string.length(); index++) {
            char unit = string.charAt(index);
            if (unit < ' ' || unit > '~' || unit == '"' || unit == '\\') {
                line.append(String.format("\\u%04x", (int) unit));
            } else {
                line.append(unit);
            }
        }
        line.append('"');
    }
}
