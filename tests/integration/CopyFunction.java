/** A function of Pulsar Functions that publishes what it gets. */
public class CopyFunction implements java.util.function.Function<String, String> {
    @Override
    public String apply(String message) {
        return message;
    }
}
