package bertkeras.client;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.List;
import java.util.Map;

/** Measures the tokenizer: {@code TokenizerSpeed FOLDER TEXT_FILE}. */
public final class TokenizerSpeed {
    private TokenizerSpeed() {}

    public static void main(String[] arguments) throws IOException {
        BertClient client = BertClient.load(new File(arguments[0]), TokenizerSpeed::run);
        File file = new File(arguments[1]);
        List<String> lines = Files.readAllLines(file.toPath(), StandardCharsets.UTF_8);
        for (int round = 0; round < 5; round++) { // the first ones include the compilation
            long start = System.nanoTime();
            long numTokens = 0;
            for (String line : lines) {
                numTokens += client.getTokenizer().tokenize(line).size();
            }
            double seconds = (System.nanoTime() - start) / 1e9;
            System.out.printf(
                    "%.1f MB/s, %.2f million tokens/s%n", file.length() / 1e6 / seconds, numTokens / 1e6 / seconds);
        }
    }

    private static Map<String, float[]> run(int[] inputIds, int[] attentionMask, int[] tokenTypeIds) {
        throw new UnsupportedOperationException("this program runs no model");
    }
}
