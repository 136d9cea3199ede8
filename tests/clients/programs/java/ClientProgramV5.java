import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.pulsar.client.api.v5.*;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * What an application does with the client of Pulsar 5, on scalable and on classic topics.
 *
 * <p>Arguments and output are those of ClientProgram. A line `scale TOPIC SEGMENTS` asks the caller to
 * create a scalable topic, `split TOPIC SEGMENT` and `merge TOPIC SEGMENT SEGMENT` to change its layout; the
 * caller answers each with a line. The scenes `steady_together` and `hot_key` run only if they are named:
 * they publish as fast as they may for some seconds, without an end of their own in between.
 */
public final class ClientProgramV5 {
    private interface Scene {
        void run() throws Exception;
    }

    private interface Receiver {
        Message<byte[]> receive(Duration timeout) throws Exception;
    }

    private static final Duration TIMEOUT = Duration.ofSeconds(15);
    private static final Duration PATIENCE = Duration.ofSeconds(40);
    private static final int KEYS = 16;
    private static final int MANY_KEYS = 64;
    private static final int STEADY_S = 36;
    private static final int HOT_S = 20;
    private static final int RESCALED_S = 24;

    private final String url;
    private final String namespace;
    private final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in));
    private final PulsarClient client;
    private final Map<String, Scene> scenes = new LinkedHashMap<>();

    private ClientProgramV5(String url, String namespace) throws Exception {
        this.url = url;
        this.namespace = namespace;
        this.client = PulsarClient.builder().serviceUrl(url).operationTimeout(Duration.ofSeconds(20)).build();
        scenes.put("scalable_stream", this::scalableStream);
        scenes.put("scalable_queue", this::scalableQueue);
        scenes.put("scalable_checkpoint", this::scalableCheckpoint);
        scenes.put("scalable_batched", this::scalableBatched);
        scenes.put("scalable_delayed", this::scalableDelayed);
        scenes.put("scalable_shared", this::scalableShared);
        scenes.put("scalable_namespace", this::scalableNamespace);
        scenes.put("rescaled", this::rescaled);
        scenes.put("classic_queue", this::classicQueue);
        scenes.put("classic_partitioned", this::classicPartitioned);
        scenes.put("classic_together", this::classicTogether);
        scenes.put("steady_together", this::steadyTogether);
        scenes.put("hot_key", this::hotKey);
    }

    public static void main(String[] arguments) throws Exception {
        ClientProgramV5 program = new ClientProgramV5(arguments[0], arguments[1]);
        List<String> named = Arrays.asList(arguments).subList(2, arguments.length);
        List<String> wanted = new ArrayList<>(named);
        wanted.removeIf(name -> name.startsWith("-"));
        if (wanted.isEmpty()) {
            wanted.addAll(program.scenes.keySet());
            wanted.remove("steady_together");
            wanted.remove("hot_key");
        }
        wanted.removeIf(name -> named.contains("-" + name));
        for (String name : wanted) {
            program.report(name, program.scenes.get(name));
        }
        program.client.close();
        System.exit(0);
    }

    private void report(String name, Scene scene) {
        long began = System.nanoTime();
        String outcome = "done";
        String why = "";
        try {
            scene.run();
        } catch (Throwable error) {
            outcome = "failed";
            StringBuilder text = new StringBuilder(String.valueOf(error));
            for (StackTraceElement at : error.getStackTrace()) {
                if (at.getClassName().startsWith("ClientProgramV5")) {
                    text.append(" at ").append(at.getMethodName()).append(':').append(at.getLineNumber());
                }
            }
            why = text.toString().replaceAll("[\\\\\"\\p{Cntrl}]", " ");
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf(
            java.util.Locale.ROOT,
            "{\"scene\": \"%s\", \"outcome\": \"%s\", \"seconds\": %.2f, \"why\": \"%s\"}%n",
            name, outcome, seconds, why);
        System.out.flush();
    }

    private synchronized void ask(String request) throws Exception {
        System.out.println(request);
        System.out.flush();
        answers.readLine();
    }

    private String scalable(String name) throws Exception {
        String topic = "topic://" + namespace + "/" + name;
        ask("scale " + topic + " 2");
        return topic;
    }

    private String classic(String name) {
        return "persistent://" + namespace + "/" + name;
    }

    private Producer<byte[]> producer(String topic, BatchingPolicy batching) throws Exception {
        return client.newProducer(Schema.bytes()).topic(topic).batchingPolicy(batching)
            .blockIfQueueFull(true).create();
    }

    private StreamConsumer<byte[]> stream(String topic, String name) throws Exception {
        return client.newStreamConsumer(Schema.bytes()).topic(topic).subscriptionName(name)
            .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
    }

    private QueueConsumer<byte[]> queue(String topic, String name) throws Exception {
        return client.newQueueConsumer(Schema.bytes()).topic(topic).subscriptionName(name)
            .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
    }

    /** Publish numbers, each under one of a few keys, and wait for all answers. */
    private void publish(String topic, int count, BatchingPolicy batching) throws Exception {
        try (Producer<byte[]> producer = producer(topic, batching)) {
            List<CompletableFuture<MessageId>> acknowledged = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                acknowledged.add(producer.async().newMessage().key("k" + number % KEYS)
                    .value(String.valueOf(number).getBytes()).send());
            }
            for (CompletableFuture<MessageId> answer : acknowledged) {
                answer.get(30, TimeUnit.SECONDS);
            }
        }
    }

    private void publish(String topic, int count) throws Exception {
        publish(topic, count, BatchingPolicy.ofDisabled());
    }

    private static Message<byte[]> next(Receiver receiver) throws Exception {
        Message<byte[]> message = receiver.receive(TIMEOUT);
        expect(message != null, "nothing came");
        return message;
    }

    private static int number(Message<byte[]> message) {
        return Integer.parseInt(new String(message.value()));
    }

    /** Expect every number below `count` once, those of a key in order. */
    private static void expectAllInOrder(List<Message<byte[]>> received, int count) {
        Map<String, Integer> last = new LinkedHashMap<>();
        List<Integer> numbers = new ArrayList<>();
        for (Message<byte[]> message : received) {
            int number = number(message);
            String key = message.key().orElse("");
            expect(last.getOrDefault(key, -1) < number, number + " of " + key + " came late");
            last.put(key, number);
            numbers.add(number);
        }
        expectAll(numbers, count);
    }

    private static void expectAll(List<Integer> numbers, int count) {
        Collections.sort(numbers);
        expect(numbers.size() == count, numbers.size() + " of " + count);
        for (int number = 0; number < count; number++) {
            expect(numbers.get(number) == number, number + " is missing");
        }
    }

    private static void expect(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    private void checkStream(String topic, int count) throws Exception {
        try (StreamConsumer<byte[]> consumer = stream(topic, "stream")) {
            checkStream(consumer, count);
        }
    }

    private static void checkStream(StreamConsumer<byte[]> consumer, int count) throws Exception {
        List<Message<byte[]>> received = new ArrayList<>();
        while (received.size() < count) {
            Message<byte[]> message = consumer.receive(TIMEOUT);
            expect(message != null, "nothing came after " + received.size() + " of " + count);
            received.add(message);
        }
        consumer.acknowledgeCumulative(received.get(count - 1).id());
        expectAllInOrder(received, count);
    }

    private void checkQueue(String topic, int count) throws Exception {
        try (QueueConsumer<byte[]> consumer = queue(topic, "queue")) {
            List<Integer> received = new ArrayList<>();
            while (received.size() < count) {
                Message<byte[]> message = next(consumer::receive);
                consumer.acknowledge(message.id());
                received.add(number(message));
            }
            expectAll(received, count);
        }
    }

    private void scalableStream() throws Exception {
        String topic = scalable("stream");
        publish(topic, 60);
        checkStream(topic, 60);
    }

    private void scalableQueue() throws Exception {
        String topic = scalable("queue");
        publish(topic, 60);
        checkQueue(topic, 60);
    }

    private void scalableCheckpoint() throws Exception {
        String topic = scalable("checkpoint");
        publish(topic, 60);
        List<Integer> received = new ArrayList<>();
        Checkpoint checkpoint;
        try (CheckpointConsumer<byte[]> consumer = client.newCheckpointConsumer(Schema.bytes())
                .topic(topic).startPosition(Checkpoint.earliest()).create()) {
            while (received.size() < 25) {
                received.add(number(next(consumer::receive)));
            }
            checkpoint = consumer.checkpoint();
        }
        try (CheckpointConsumer<byte[]> consumer = client.newCheckpointConsumer(Schema.bytes())
                .topic(topic).startPosition(Checkpoint.fromByteArray(checkpoint.toByteArray())).create()) {
            while (received.size() < 60) {
                received.add(number(next(consumer::receive)));
            }
        }
        expectAll(received, 60);
    }

    private void scalableBatched() throws Exception {
        String topic = scalable("batched");
        publish(topic, 500, BatchingPolicy.builder().maxPublishDelay(Duration.ofMillis(20)).build());
        checkStream(topic, 500);
    }

    private void scalableDelayed() throws Exception {
        String topic = scalable("delayed");
        try (QueueConsumer<byte[]> consumer = queue(topic, "queue");
                Producer<byte[]> producer = producer(topic, BatchingPolicy.ofDisabled())) {
            long began = System.nanoTime();
            producer.newMessage().value("0".getBytes()).deliverAfter(Duration.ofSeconds(3)).send();
            consumer.acknowledge(next(consumer::receive).id());
            expect(System.nanoTime() - began > 1e9, "too early");
        }
    }

    private void scalableShared() throws Exception {
        String topic = scalable("shared");
        try (QueueConsumer<byte[]> one = queue(topic, "queue"); QueueConsumer<byte[]> two = queue(topic, "queue")) {
            publish(topic, 200);
            List<Integer> received = new ArrayList<>();
            long deadline = System.nanoTime() + TIMEOUT.toNanos();
            while (received.size() < 200 && System.nanoTime() < deadline) {
                for (QueueConsumer<byte[]> consumer : Arrays.asList(one, two)) {
                    Message<byte[]> message = consumer.receive(Duration.ofMillis(20));
                    if (message != null) {
                        consumer.acknowledge(message.id());
                        received.add(number(message));
                    }
                }
            }
            expectAll(received, 200);
        }
    }

    /** A consumer of all scalable topics of a namespace; those of other scenes are in it, too. */
    private void scalableNamespace() throws Exception {
        String topic = scalable("watched");
        publish(topic, 20);
        try (QueueConsumer<byte[]> consumer = client.newQueueConsumer(Schema.bytes()).namespace(namespace)
                .subscriptionName("everything")
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe()) {
            List<Integer> received = new ArrayList<>();
            while (received.size() < 20) {
                Message<byte[]> message = next(consumer::receive);
                consumer.acknowledge(message.id());
                if (message.topic().contains("/watched")) {
                    received.add(number(message));
                }
            }
            expectAll(received, 20);
        }
    }

    /** Publish under keys through one split and one merge; nothing is lost, and keys stay in order. */
    private void rescaled() throws Exception {
        String topic = scalable("rescaled");
        AtomicReference<Integer> expected = new AtomicReference<>(Integer.MAX_VALUE);
        // A segment that is sealed without a subscription has nothing to keep for a later one.
        try (StreamConsumer<byte[]> consumer = stream(topic, "stream")) {
            CompletableFuture<Void> checked = new CompletableFuture<>();
            new Thread(() -> {
                try {
                    follow(consumer, expected);
                    checked.complete(null);
                } catch (Throwable error) {
                    checked.completeExceptionally(error);
                }
            }).start();
            expected.set(publishThroughLayouts(topic));
            checked.get();
        }
    }

    /** Receive until as many numbers as expected have come; again is allowed, late for its key is not. */
    private static void follow(StreamConsumer<byte[]> consumer, AtomicReference<Integer> expected)
            throws Exception {
        Map<String, Integer> last = new LinkedHashMap<>();
        Set<Integer> seen = new HashSet<>();
        long came = System.nanoTime();
        while (seen.size() < expected.get()) {
            Message<byte[]> message = consumer.receive(Duration.ofSeconds(1));
            if (message == null) {
                boolean patient = System.nanoTime() - came < PATIENCE.toNanos();
                expect(patient, "nothing came after " + seen.size() + " of " + expected.get());
                continue;
            }
            came = System.nanoTime();
            int number = number(message);
            if (seen.add(number)) {
                String key = message.key().orElse("");
                expect(last.getOrDefault(key, -1) < number, number + " of " + key + " came late");
                last.put(key, number);
            }
            consumer.acknowledgeCumulative(message.id());
        }
    }

    private int publishThroughLayouts(String topic) throws Exception {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Thread layout = new Thread(() -> {
            try {
                Thread.sleep(RESCALED_S * 250);
                ask("split " + topic + " 0");
                Thread.sleep(RESCALED_S * 250);
                ask("merge " + topic + " 2 3");
            } catch (Throwable error) {
                failure.set(error);
            }
        });
        layout.start();
        int sent = publishFor(topic, RESCALED_S, MANY_KEYS, 1); // the client itself sends more again in any order
        layout.join();
        expect(failure.get() == null, String.valueOf(failure.get()));
        return sent;
    }

    /** This client on a scalable and on a classic topic, and a classic client, all at once. */
    private void steadyTogether() throws Exception {
        String topic = scalable("steady");
        List<CompletableFuture<Void>> publishers = List.of(
            beside(() -> publishFor(topic, STEADY_S, MANY_KEYS, 2)),
            beside(() -> publishFor(classic("five"), STEADY_S, MANY_KEYS, 2)),
            beside(() -> publishWithClassicClient(classic("old"), STEADY_S)));
        for (CompletableFuture<Void> publisher : publishers) {
            publisher.get();
        }
    }

    /** All messages have one key, so that one of the two segments gets them all. */
    private void hotKey() throws Exception {
        publishFor(scalable("hot"), HOT_S, 1, 64);
    }

    private static CompletableFuture<Void> beside(Scene scene) {
        CompletableFuture<Void> over = new CompletableFuture<>();
        new Thread(() -> {
            try {
                scene.run();
                over.complete(null);
            } catch (Throwable error) {
                over.completeExceptionally(error);
            }
        }).start();
        return over;
    }

    private void publishWithClassicClient(String topic, int seconds) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        try (var old = org.apache.pulsar.client.api.PulsarClient.builder().serviceUrl(url).build();
                var producer = old.newProducer().topic(topic).enableBatching(false)
                    .maxPendingMessages(128).blockIfQueueFull(true).create()) {
            List<CompletableFuture<org.apache.pulsar.client.api.MessageId>> answers = new ArrayList<>();
            while (System.nanoTime() < deadline) {
                answers.add(producer.sendAsync(new byte[] {1}));
            }
            for (CompletableFuture<org.apache.pulsar.client.api.MessageId> answer : answers) {
                answer.get(60, TimeUnit.SECONDS);
            }
        }
    }

    /**
     * Publish for some seconds, with at most so many publishes of each key under way at a time; return the
     * number of acknowledged ones, which is the number of all.
     */
    private int publishFor(String topic, int seconds, int keys, int unanswered) throws Exception {
        AtomicReference<Throwable> failure = new AtomicReference<>();
        Semaphore[] rooms = new Semaphore[keys];
        Arrays.setAll(rooms, key -> new Semaphore(unanswered));
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        int sent = 0;
        try (Producer<byte[]> producer = producer(topic, BatchingPolicy.ofDisabled())) {
            for (int turn = 0; System.nanoTime() < deadline; turn++) {
                Semaphore room = rooms[turn % keys];
                if (!room.tryAcquire(1, TimeUnit.MILLISECONDS)) {
                    continue;
                }
                producer.async().newMessage().key("k" + turn % keys)
                    .value(String.valueOf(sent).getBytes()).send().whenComplete((id, error) -> {
                        failure.compareAndSet(null, error);
                        room.release();
                    });
                sent++;
            }
            for (Semaphore room : rooms) {
                expect(room.tryAcquire(unanswered, 60, TimeUnit.SECONDS), "publishes without an answer");
            }
        }
        expect(failure.get() == null, String.valueOf(failure.get()));
        return sent;
    }

    // Brokers of 5.0.0-M1 refuse stream consumers of classic topics ("Failed to initialize controller").

    private void classicQueue() throws Exception {
        publish(classic("five-queue"), 60);
        checkQueue(classic("five-queue"), 60);
    }

    private void classicPartitioned() throws Exception {
        publish(classic("parts"), 60);
        checkQueue(classic("parts"), 60);
    }

    /** A classic client and one of Pulsar 5 at both ends of one topic. */
    private void classicTogether() throws Exception {
        String topic = classic("together");
        try (var old = org.apache.pulsar.client.api.PulsarClient.builder().serviceUrl(url).build();
                var producer = old.newProducer().topic(topic).enableBatching(false).create();
                var consumer = old.newConsumer().topic(topic).subscriptionName("old").subscribe()) {
            for (int number = 0; number < 30; number++) {
                producer.send(String.valueOf(number).getBytes());
            }
            checkQueue(topic, 30);
            publish(topic, 30);
            for (int received = 0; received < 60; received++) {
                var message = consumer.receive(15, TimeUnit.SECONDS);
                expect(message != null, received + " of 60");
                consumer.acknowledge(message);
            }
        }
    }
}
