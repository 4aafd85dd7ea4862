package bertkeras.client.onnxruntime;

import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OnnxValue;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import bertkeras.client.Runner;
import java.nio.FloatBuffer;
import java.util.HashMap;
import java.util.Map;

/**
 * Runs an ONNX file on the JVM of a server with ONNX Runtime ({@code com.microsoft.onnxruntime:onnxruntime}).
 *
 * <p>Threads can share a runner. ONNX files accept sequences of any length, so nothing is padded.
 */
public final class OnnxRunner implements Runner, AutoCloseable {
    private final OrtEnvironment environment = OrtEnvironment.getEnvironment();
    private final OrtSession session;

    /**
     * Creates a runner.
     *
     * @param path the path of the file
     * @throws OrtException if the file cannot be read
     */
    public OnnxRunner(String path) throws OrtException {
        session = environment.createSession(path, new OrtSession.SessionOptions());
    }

    @Override
    public Map<String, float[]> run(int[] inputIds, int[] attentionMask, int[] tokenTypeIds) {
        Map<String, float[]> outputs = new HashMap<>();
        try (OnnxTensor ids = makeTensor(inputIds);
                OnnxTensor mask = makeTensor(attentionMask);
                OnnxTensor types = makeTensor(tokenTypeIds)) {
            Map<String, OnnxTensor> inputs = new HashMap<>();
            inputs.put("input_ids", ids);
            inputs.put("attention_mask", mask);
            inputs.put("token_type_ids", types);
            try (OrtSession.Result result = session.run(inputs)) {
                for (Map.Entry<String, OnnxValue> output : result) {
                    FloatBuffer buffer = ((OnnxTensor) output.getValue()).getFloatBuffer();
                    float[] values = new float[buffer.remaining()];
                    buffer.get(values);
                    outputs.put(output.getKey(), values);
                }
            }
        } catch (OrtException error) {
            throw new IllegalStateException("ONNX Runtime cannot run the file", error);
        }
        return outputs;
    }

    /** Returns a batch of one sequence. */
    private OnnxTensor makeTensor(int[] values) throws OrtException {
        long[][] batch = new long[1][values.length];
        for (int index = 0; index < values.length; index++) {
            batch[0][index] = values[index];
        }
        return OnnxTensor.createTensor(environment, batch);
    }

    /** Frees the memory of the model. */
    @Override
    public void close() throws OrtException {
        session.close();
    }
}
