package ai.onnxruntime;

/** The method of ONNX Runtime's interface that {@code OnnxRunner} calls. */
public interface OnnxValue extends AutoCloseable {
    @Override
    void close();
}
