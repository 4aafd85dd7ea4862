package ai.onnxruntime;

/** The methods of ONNX Runtime's class that {@code OnnxRunner} calls. */
public final class OrtEnvironment {
    public static native OrtEnvironment getEnvironment();

    public native OrtSession createSession(String modelPath, OrtSession.SessionOptions options) throws OrtException;
}
