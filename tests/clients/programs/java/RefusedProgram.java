import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.*;

/**
 * An application that publishes faster than its limit, and then slowly again.
 *
 * <p>Arguments: service URL, topic, whether to batch, messages sent at once, messages sent slowly. A line
 * goes to standard output for each of them: its number, and `ok` or the class of its error. The last one
 * says when the producer was disconnected; 0 is never.
 */
public final class RefusedProgram {
    public static void main(String[] arguments) throws Exception {
        int fast = Integer.parseInt(arguments[3]);
        int slow = Integer.parseInt(arguments[4]);
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build();
                Producer<byte[]> producer =
                        client.newProducer()
                                .topic(arguments[1])
                                .producerName("refused")
                                .enableBatching(Boolean.parseBoolean(arguments[2]))
                                .batchingMaxMessages(10)
                                .maxPendingMessages(fast + slow)
                                .create()) {
            List<CompletableFuture<String>> outcomes = new ArrayList<>();
            for (int number = 0; number < fast; number++) {
                outcomes.add(send(producer, number));
            }
            producer.flushAsync().exceptionally(error -> null).get(60, TimeUnit.SECONDS);
            for (CompletableFuture<String> outcome : outcomes) {
                outcome.get(60, TimeUnit.SECONDS);
            }
            for (int number = fast; number < fast + slow; number++) {
                Thread.sleep(100);
                outcomes.add(send(producer, number));
                outcomes.get(number).get(60, TimeUnit.SECONDS);
            }
            for (int number = 0; number < outcomes.size(); number++) {
                System.out.println(number + " " + outcomes.get(number).get());
            }
            System.out.println("disconnected " + producer.getLastDisconnectedTimestamp());
        }
    }

    private static CompletableFuture<String> send(Producer<byte[]> producer, int number) {
        return producer
                .sendAsync(Integer.toString(number).getBytes())
                .handle(
                        (id, error) -> {
                            if (error == null) {
                                return "ok";
                            }
                            Throwable cause = error.getCause() == null ? error : error.getCause();
                            return cause.getClass().getSimpleName();
                        });
    }
}
