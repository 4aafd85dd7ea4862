package android.content.res;

import java.io.IOException;

/** The method of Android's class that {@code LiteRtRunner} calls. */
public final class AssetManager {
    public native AssetFileDescriptor openFd(String fileName) throws IOException;
}
