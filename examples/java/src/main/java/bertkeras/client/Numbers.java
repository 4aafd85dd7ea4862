package bertkeras.client;

/** Functions of arrays of numbers. */
final class Numbers {
    private Numbers() {}

    static double[] softmax(double[] logits) {
        double maximum = logits[findMaximum(logits)];
        double[] values = new double[logits.length];
        double sum = 0;
        for (int index = 0; index < logits.length; index++) {
            values[index] = Math.exp(logits[index] - maximum);
            sum += values[index];
        }
        for (int index = 0; index < logits.length; index++) {
            values[index] /= sum;
        }
        return values;
    }

    /** Returns the index of the first maximum. */
    static int findMaximum(double[] values) {
        int best = 0;
        for (int index = 1; index < values.length; index++) {
            if (values[index] > values[best]) {
                best = index;
            }
        }
        return best;
    }

    static double computeCosine(float[] one, float[] other) {
        double product = 0;
        double oneSquared = 0;
        double otherSquared = 0;
        for (int index = 0; index < one.length; index++) {
            product += (double) one[index] * other[index];
            oneSquared += (double) one[index] * one[index];
            otherSquared += (double) other[index] * other[index];
        }
        return product / Math.max(Math.sqrt(oneSquared) * Math.sqrt(otherSquared), 1e-12);
    }
}
