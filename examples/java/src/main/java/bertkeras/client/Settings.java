package bertkeras.client;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** A JSON object of {@code model.json}, with a clear error for a value that is missing. */
final class Settings {
    private final Map<String, Object> values;

    Settings(Map<String, Object> values) {
        this.values = values;
    }

    String getString(String name) {
        return get(name, String.class, "string");
    }

    boolean getBoolean(String name) {
        return get(name, Boolean.class, "true or false");
    }

    double getDouble(String name) {
        return get(name, Double.class, "number");
    }

    int getInt(String name) {
        return (int) getDouble(name);
    }

    /** Returns a whole number; null if it is missing or null. */
    Integer getIntOrNull(String name) {
        return values.get(name) == null ? null : (Integer) getInt(name);
    }

    /** Returns a string; "" if it is missing. */
    String getStringOrEmpty(String name) {
        return values.get(name) == null ? "" : getString(name);
    }

    List<String> getStrings(String name) {
        List<String> strings = new ArrayList<>();
        for (Object value : get(name, List.class, "list")) {
            strings.add((String) value);
        }
        return strings;
    }

    /** Returns an object as a map. */
    @SuppressWarnings("unchecked") // the keys of JSON objects are strings
    Map<String, Object> getMap(String name) {
        return (Map<String, Object>) get(name, Map.class, "object");
    }

    /** Returns an object; null if it is null. */
    Settings getSettingsOrNull(String name) {
        return values.get(name) == null ? null : new Settings(getMap(name));
    }

    private <T> T get(String name, Class<T> type, String kind) {
        Object value = values.get(name);
        if (!type.isInstance(value)) {
            throw new IllegalArgumentException(
                    "in model.json \"" + name + "\" is " + value + "; expected a value of the kind: " + kind
                            + ": export the model again");
        }
        return type.cast(value);
    }
}
