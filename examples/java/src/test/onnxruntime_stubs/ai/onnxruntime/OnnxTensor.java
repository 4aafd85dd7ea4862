package ai.onnxruntime;

import java.nio.FloatBuffer;

/** The methods of ONNX Runtime's class that {@code OnnxRunner} calls. */
public class OnnxTensor implements OnnxValue {
    public static native OnnxTensor createTensor(OrtEnvironment env, Object data) throws OrtException;

    public native FloatBuffer getFloatBuffer();

    @Override
    public native void close();
}
