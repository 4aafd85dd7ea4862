package org.tensorflow.lite;

import java.nio.ByteBuffer;
import java.util.Map;

/** The methods of LiteRT's class that {@code LiteRtRunner} calls, so that the tests can compile it. */
public final class Interpreter implements AutoCloseable {
    public Interpreter(ByteBuffer byteBuffer, Options options) {}

    public native String[] getSignatureKeys();

    public native String[] getSignatureOutputs(String signatureKey);

    public native Tensor getInputTensorFromSignature(String inputName, String signatureKey);

    public native Tensor getOutputTensorFromSignature(String outputName, String signatureKey);

    public native void runSignature(Map<String, Object> inputs, Map<String, Object> outputs, String signatureKey);

    @Override
    public native void close();

    /** The options. */
    public static class Options {
        public native Options setNumThreads(int numThreads);
    }
}
