package bertkeras.client;

import java.io.IOException;
import java.io.InputStream;

/** Opens a file of a model by its name, such as "model.json". */
public interface InputStreamOpener {
    InputStream open(String name) throws IOException;
}
