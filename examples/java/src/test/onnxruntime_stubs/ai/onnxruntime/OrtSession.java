package ai.onnxruntime;

import java.util.Map;

/** The methods of ONNX Runtime's class that {@code OnnxRunner} calls. */
public class OrtSession implements AutoCloseable {
    public native Result run(Map<String, ? extends OnnxTensor> inputs) throws OrtException;

    @Override
    public native void close() throws OrtException;

    /** The options. */
    public static class SessionOptions implements AutoCloseable {
        @Override
        public native void close();
    }

    /** The outputs. */
    public abstract static class Result implements AutoCloseable, Iterable<Map.Entry<String, OnnxValue>> {
        @Override
        public native void close();
    }
}
