package android.content.res;

import java.io.Closeable;
import java.io.FileDescriptor;
import java.io.IOException;

/** The methods of Android's class that {@code LiteRtRunner} calls. */
public class AssetFileDescriptor implements Closeable {
    public native FileDescriptor getFileDescriptor();

    public native long getStartOffset();

    public native long getDeclaredLength();

    @Override
    public native void close() throws IOException;
}
