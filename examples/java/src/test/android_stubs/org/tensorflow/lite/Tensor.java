package org.tensorflow.lite;

/** The methods of LiteRT's interface that {@code LiteRtRunner} calls. */
public interface Tensor {
    int[] shape();

    int numElements();
}
