package bertkeras.client.android;

import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import bertkeras.client.Runner;
import java.io.FileInputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.nio.channels.FileChannel;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.tensorflow.lite.Interpreter;

/**
 * Runs a TFLite file on the CPU with the Interpreter of LiteRT ({@code com.google.ai.edge.litert:litert}).
 *
 * <p>Threads can share a runner; they take turns.
 */
public final class LiteRtRunner implements Runner, AutoCloseable {
    private final Interpreter interpreter;
    private final TreeMap<Integer, String> signatures = new TreeMap<>(); // keyed by their length

    /**
     * Creates a runner.
     *
     * @param model the content of the file: a mapped file, or a direct buffer in native byte order
     * @param numThreads number of threads
     */
    public LiteRtRunner(ByteBuffer model, int numThreads) {
        interpreter = new Interpreter(model, new Interpreter.Options().setNumThreads(numThreads));
        for (String signature : interpreter.getSignatureKeys()) {
            signatures.put(interpreter.getInputTensorFromSignature("input_ids", signature).shape()[1], signature);
        }
    }

    /**
     * Creates a runner of a file in the app's assets, which is mapped into memory.
     *
     * @param path the path in the assets
     * @throws IOException if there is no such file, or the APK has compressed it
     */
    public static LiteRtRunner fromAssets(AssetManager assets, String path, int numThreads) throws IOException {
        try (AssetFileDescriptor file = assets.openFd(path);
                FileInputStream stream = new FileInputStream(file.getFileDescriptor())) {
            FileChannel channel = stream.getChannel();
            long start = file.getStartOffset();
            return new LiteRtRunner(
                    channel.map(FileChannel.MapMode.READ_ONLY, start, file.getDeclaredLength()), numThreads);
        }
    }

    @Override
    public synchronized Map<String, float[]> run(int[] inputIds, int[] attentionMask, int[] tokenTypeIds) {
        Map.Entry<Integer, String> shortest = signatures.ceilingEntry(inputIds.length);
        if (shortest == null) {
            throw new IllegalArgumentException(
                    "the sequence has " + inputIds.length + " tokens; the file accepts up to " + signatures.lastKey()
                            + ": use the model.json that was exported with the file");
        }
        int length = shortest.getKey();
        String signature = shortest.getValue();
        Map<String, Object> inputs = new HashMap<>();
        inputs.put("input_ids", pad(inputIds, length));
        inputs.put("attention_mask", pad(attentionMask, length));
        inputs.put("token_type_ids", pad(tokenTypeIds, length));
        Map<String, Object> buffers = new HashMap<>();
        Map<String, float[]> outputs = new HashMap<>();
        for (String name : interpreter.getSignatureOutputs(signature)) {
            float[] values = new float[interpreter.getOutputTensorFromSignature(name, signature).numElements()];
            buffers.put(name, FloatBuffer.wrap(values));
            outputs.put(name, values);
        }
        interpreter.runSignature(inputs, buffers, signature);
        return outputs;
    }

    /** Returns the values with zeros after them, as a batch of one sequence. */
    private static int[][] pad(int[] values, int length) {
        return new int[][] {Arrays.copyOf(values, length)};
    }

    /** Frees the memory of the model. */
    @Override
    public synchronized void close() {
        interpreter.close();
    }
}
