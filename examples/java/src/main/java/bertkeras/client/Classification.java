package bertkeras.client;

import java.util.ArrayList;
import java.util.List;

/** The task "classify": one class, several classes or a number. */
final class Classification {
    private static final double MIN_PROBABILITY = 1e-30; // so that there is a logarithm

    private Classification() {}

    /** Returns the label, the labels or the value of a text, whose windows are averaged. */
    static Answer classify(List<Outputs> outputs, Settings task) {
        String problem = task.getString("problem");
        double[] logits = averageLogits(outputs, problem);
        if (problem.equals("regression")) {
            return new Answer.Value(logits[0]);
        }
        List<String> labels = task.getStrings("labels");
        if (problem.equals("multi_label")) {
            return chooseLabels(logits, labels, task.getDouble("threshold"));
        }
        double[] probabilities = Numbers.softmax(logits);
        int best = Numbers.findMaximum(probabilities);
        return new Answer.Label(labels.get(best), probabilities[best], probabilities);
    }

    private static Answer.Labels chooseLabels(double[] logits, List<String> labels, double threshold) {
        List<String> chosen = new ArrayList<>();
        double[] probabilities = new double[logits.length];
        for (int index = 0; index < logits.length; index++) {
            probabilities[index] = 1 / (1 + Math.exp(-logits[index]));
            if (probabilities[index] >= threshold) {
                chosen.add(labels.get(index));
            }
        }
        return new Answer.Labels(chosen, probabilities);
    }

    private static double[] averageLogits(List<Outputs> outputs, String problem) {
        double[] mean = getLogits(outputs.get(0), problem);
        for (Outputs one : outputs.subList(1, outputs.size())) {
            double[] logits = getLogits(one, problem);
            for (int index = 0; index < mean.length; index++) {
                mean[index] += logits[index];
            }
        }
        for (int index = 0; index < mean.length; index++) {
            mean[index] /= outputs.size();
        }
        return mean;
    }

    /** Returns a classifier's logits; a TFLite file has probabilities, from which they follow up to a constant. */
    private static double[] getLogits(Outputs outputs, String problem) {
        boolean hasLogits = outputs.has("logits");
        boolean isRegression = problem.equals("regression");
        float[] values = outputs.get(hasLogits ? "logits" : isRegression ? "scores" : "probabilities");
        double[] logits = new double[values.length];
        for (int index = 0; index < values.length; index++) {
            if (hasLogits || isRegression) {
                logits[index] = values[index];
                continue;
            }
            double probability = Math.max(values[index], MIN_PROBABILITY);
            logits[index] = Math.log(probability);
            if (problem.equals("multi_label")) {
                logits[index] -= Math.log(Math.max(1 - probability, MIN_PROBABILITY));
            }
        }
        return logits;
    }
}
