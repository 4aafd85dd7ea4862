package bertkeras.client;

import java.util.Map;

/** The outputs of a model file for one sequence. */
final class Outputs {
    private final Map<String, float[]> values;

    Outputs(Map<String, float[]> values) {
        this.values = values;
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    /** Returns an output, flat. */
    float[] get(String name) {
        float[] output = values.get(name);
        if (output == null) {
            throw new IllegalArgumentException(
                    "the runner returned no output '" + name + "', but " + values.keySet()
                            + ": run the file that is described in model.json");
        }
        return output;
    }

    /** Returns a row of an output {@code (S, length)}. */
    double[] getRow(String name, int row, int length) {
        float[] output = get(name);
        double[] values = new double[length];
        for (int index = 0; index < length; index++) {
            values[index] = output[row * length + index];
        }
        return values;
    }
}
