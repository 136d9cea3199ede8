import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.pulsar.common.api.proto.BaseCommand;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.protocol.Commands;

/**
 * Reads frames as a broker of the Pulsar on the class path does, and says what it has read.
 *
 * Frames come on standard input, each behind its length (4 bytes). For each of them one record goes to standard output,
 * behind its length as well, as JSON: {"refused": reason}, or {"command": {...}, "type": ..., "end": ...}, and of a frame with
 * a payload "metadata" and "metadataEnd" as well. Every field that is present stands there under its name in PulsarApi.proto
 * without underscores and in lower case. "end" is where the command was read to, from the beginning of the frame.
 */
final class Judge {
    private static final int PAYLOAD_OF_SEND = 6;
    private static final int PAYLOAD_OF_MESSAGE = 9;

    private final Map<Class<?>, List<Field>> fields = new HashMap<>();
    private final BaseCommand command = new BaseCommand();
    private final MessageMetadata metadata = new MessageMetadata();

    public static void main(String[] arguments) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        Judge judge = new Judge();
        while (true) {
            // What was asked for is answered before the next question is waited for.
            if (in.available() == 0) {
                out.flush();
            }
            int size;
            try {
                size = in.readInt();
            } catch (EOFException end) {
                out.flush();
                return;
            }
            byte[] frame = new byte[size];
            in.readFully(frame);
            byte[] answer = judge.read(frame).getBytes(StandardCharsets.UTF_8);
            out.writeInt(answer.length);
            out.write(answer);
        }
    }

    private String read(byte[] frame) {
        StringBuilder out = new StringBuilder(256);
        try {
            // As PulsarDecoder.channelRead does it, behind a LengthFieldBasedFrameDecoder that takes off the first size.
            ByteBuf buffer = Unpooled.wrappedBuffer(frame);
            buffer.skipBytes(4);
            int size = (int) buffer.readUnsignedInt();
            command.parseFrom(buffer, size);
            int end = buffer.readerIndex();
            out.append("{\"command\":");
            write(out, command);
            int number = command.getType().getValue();
            out.append(",\"type\":").append(number);
            out.append(",\"end\":").append(end);
            if (number == PAYLOAD_OF_SEND || number == PAYLOAD_OF_MESSAGE) {
                out.append(",\"metadata\":");
                readMetadata(out, buffer);
                out.append(",\"metadataEnd\":").append(buffer.readerIndex());
            }
            return out.append('}').toString();
        } catch (RuntimeException refusal) {
            return refused(refusal);
        }
    }

    private void readMetadata(StringBuilder out, ByteBuf payload) {
        int start = out.length();
        try {
            Commands.parseMessageMetadata(payload, metadata);
            write(out, metadata);
        } catch (RuntimeException refusal) {
            out.setLength(start);
            out.append(refused(refusal));
        }
    }

    private static String refused(RuntimeException refusal) {
        StringBuilder out = new StringBuilder("{\"refused\":");
        quote(out, refusal.getClass().getSimpleName() + ": " + refusal.getMessage());
        return out.append('}').toString();
    }

    private void write(StringBuilder out, Object message) {
        char separator = '{';
        for (Field field : fields.computeIfAbsent(message.getClass(), Judge::fieldsOf)) {
            if (field.isPresent(message)) {
                out.append(separator);
                quote(out, field.name);
                out.append(':');
                field.write(this, out, message);
                separator = ',';
            }
        }
        out.append(separator == '{' ? "{}" : "}");
    }

    private void writeValue(StringBuilder out, Object value) {
        if (value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof String || value instanceof Enum) {
            quote(out, value.toString());
        } else if (value instanceof byte[]) {
            quote(out, new String((byte[]) value, StandardCharsets.ISO_8859_1));
        } else {
            write(out, value);
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (int at = 0; at < text.length(); at++) {
            char each = text.charAt(at);
            if (each >= ' ' && each <= '~' && each != '"' && each != '\\') {
                out.append(each);
            } else {
                out.append("\\u").append(Integer.toHexString(0x10000 | each), 1, 5);
            }
        }
        out.append('"');
    }

    /** LightProto gives single fields hasX and getX or isX, and repeated ones getXsCount or so and getXAt. */
    private static List<Field> fieldsOf(Class<?> message) {
        List<Field> found = new ArrayList<>();
        Map<String, Method> methods = new HashMap<>();
        for (Method method : message.getMethods()) {
            methods.putIfAbsent(method.getName() + method.getParameterCount(), method);
        }
        for (Method method : message.getMethods()) {
            String name = method.getName();
            if (method.getParameterCount() == 0 && name.startsWith("has") && method.getReturnType() == boolean.class) {
                String property = name.substring(3);
                Method get = methods.get("get" + property + "0");
                found.add(new Field(property, method, get != null ? get : methods.get("is" + property + "0"), null));
            } else if (method.getParameterCount() == 1 && name.startsWith("get") && name.endsWith("At")
                    && method.getParameterTypes()[0] == int.class) {
                String property = name.substring(3, name.length() - 2);
                Method count = null;
                for (String plural : List.of(property, property + "s", property.replaceFirst("y$", "ies"))) {
                    count = count != null ? count : methods.get("get" + plural + "Count0");
                }
                found.add(new Field(property, null, method, count));
            }
        }
        return found;
    }

    private static final class Field {
        private final String name;
        private final Method has;
        private final Method get;
        private final Method count;

        Field(String property, Method has, Method get, Method count) {
            this.name = property.toLowerCase(java.util.Locale.ROOT);
            this.has = has;
            this.get = get;
            this.count = count;
            if (get == null || has == null && count == null) {
                throw new AssertionError("LightProto has no reader for " + property);
            }
        }

        boolean isPresent(Object message) {
            return count == null ? (Boolean) call(has, message) : (Integer) call(count, message) > 0;
        }

        void write(Judge judge, StringBuilder out, Object message) {
            if (count == null) {
                judge.writeValue(out, call(get, message));
                return;
            }
            int size = (Integer) call(count, message);
            for (int at = 0; at < size; at++) {
                out.append(at == 0 ? '[' : ',');
                judge.writeValue(out, call(get, message, at));
            }
            out.append(']');
        }

        private static Object call(Method method, Object message, Object... arguments) {
            try {
                return method.invoke(message, arguments);
            } catch (InvocationTargetException failure) {
                throw new IllegalStateException(failure.getCause());
            } catch (IllegalAccessException failure) {
                throw new AssertionError(failure);
            }
        }
    }
}
