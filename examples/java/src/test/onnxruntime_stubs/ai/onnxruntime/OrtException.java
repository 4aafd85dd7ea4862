package ai.onnxruntime;

/** ONNX Runtime's exception, for compiling {@code OnnxRunner} in the tests. */
public class OrtException extends Exception {
    private static final long serialVersionUID = 1L;
}
