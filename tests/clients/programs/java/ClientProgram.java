import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.*;

/**
 * What a Pulsar application does, with the Java client of any release from 2.8 on.
 *
 * <p>Arguments: service URL, namespace, and the scenes to run (all but those of ONLY_BY_NAME if none is
 * named). Topic `parts` of the namespace has three partitions. One line of JSON per scene goes to standard
 * output; a line such as `unload TOPIC` asks the caller to unload a topic and to answer with a line.
 */
public final class ClientProgram {
    private interface Scene {
        void run() throws Exception;
    }

    private interface Closing {
        void close(PulsarClient client, Producer<byte[]> producer) throws Exception;
    }

    private static final int TIMEOUT_S = 30;
    /**
     * A client that reconnects before the broker has answered its seek drops all that it got meanwhile, with a
     * gate or without (apache/pulsar#10671): it has to seek once more.
     */
    private static final int SOUGHT_S = 10;

    /** Scenes that take a minute, or a caller that limits the topic. */
    private static final List<String> ONLY_BY_NAME =
        Arrays.asList("idle", "closing_held", "closing_at_once", "client_closed_held");
    /** Longer than a scene takes, unless a close waits for all that is held. */
    private static final int PATIENCE_S = 120;

    private final String url;
    private final String namespace;
    private final BufferedReader answers = new BufferedReader(new InputStreamReader(System.in));
    private final PulsarClient client;
    private final Map<String, Scene> scenes = new LinkedHashMap<>();

    private ClientProgram(String url, String namespace) throws Exception {
        this.url = url;
        this.namespace = namespace;
        this.client = connecting().build();
        scenes.put("plain", this::plain);
        scenes.put("partitioned", this::partitioned);
        scenes.put("batched", this::batched);
        scenes.put("compressed", this::compressed);
        scenes.put("chunked", this::chunked);
        scenes.put("delayed", this::delayed);
        scenes.put("keyed", this::keyed);
        scenes.put("failover", this::failover);
        scenes.put("busy", this::busy);
        scenes.put("reader", this::reader);
        scenes.put("seek", this::seek);
        scenes.put("redelivery", this::redelivery);
        scenes.put("cumulative", this::cumulative);
        scenes.put("batch_index", this::batchIndex);
        scenes.put("queues", this::queues);
        scenes.put("unloaded", this::unloaded);
        scenes.put("closing", this::closing);
        scenes.put("many", this::many);
        scenes.put("schemas", this::schemas);
        scenes.put("several_topics", this::severalTopics);
        scenes.put("transactions", this::transactions);
        scenes.put("dead_letter", this::deadLetter);
        scenes.put("non_persistent", this::nonPersistent);
        scenes.put("short_names", this::shortNames);
        scenes.put("access_modes", this::accessModes);
        scenes.put("idle", this::idle);
        scenes.put("closing_held", () -> closeWhileHeld(true, (own, producer) -> producer.close()));
        scenes.put("closing_at_once", () -> closeWhileHeld(false, (own, producer) -> producer.close()));
        scenes.put("client_closed_held", () -> closeWhileHeld(true, (own, producer) -> own.close()));
    }

    public static void main(String[] arguments) throws Exception {
        ClientProgram program = new ClientProgram(arguments[0], arguments[1]);
        List<String> named = Arrays.asList(arguments).subList(2, arguments.length);
        List<String> wanted = new ArrayList<>(named);
        wanted.removeIf(name -> name.startsWith("-"));
        if (wanted.isEmpty()) {
            wanted.addAll(program.scenes.keySet());
            wanted.removeAll(ONLY_BY_NAME);
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
        } catch (LinkageError error) {
            outcome = "not in this release";
        } catch (Throwable error) {
            outcome = "failed";
            StringBuilder text = new StringBuilder(String.valueOf(error));
            for (StackTraceElement at : error.getStackTrace()) {
                if (at.getClassName().startsWith("ClientProgram")) {
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

    private ClientBuilder connecting() {
        return PulsarClient.builder().serviceUrl(url).operationTimeout(20, TimeUnit.SECONDS);
    }

    private String topic(String name) {
        return "persistent://" + namespace + "/" + name;
    }

    private ConsumerBuilder<byte[]> subscribing(String topic, String name, SubscriptionType kind) {
        return client.newConsumer().topic(topic).subscriptionName(name).subscriptionType(kind)
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    private Consumer<byte[]> subscribe(String topic, String name, SubscriptionType kind) throws Exception {
        return subscribing(topic, name, kind).subscribe();
    }

    private Consumer<byte[]> subscribe(String topic, String name) throws Exception {
        return subscribe(topic, name, SubscriptionType.Exclusive);
    }

    private ProducerBuilder<byte[]> producing(String topic) {
        return client.newProducer().topic(topic).enableBatching(false).blockIfQueueFull(true);
    }

    private static List<String> numbers(int first, int count) {
        List<String> numbers = new ArrayList<>();
        for (int number = first; number < first + count; number++) {
            numbers.add(String.valueOf(number));
        }
        return numbers;
    }

    private static void send(Producer<byte[]> producer, int first, int count) throws Exception {
        List<CompletableFuture<MessageId>> answers = new ArrayList<>();
        for (String number : numbers(first, count)) {
            answers.add(producer.sendAsync(number.getBytes()));
        }
        producer.flush();
        for (CompletableFuture<MessageId> answer : answers) {
            answer.get(30, TimeUnit.SECONDS);
        }
    }

    private void publish(String topic, int first, int count) throws Exception {
        try (Producer<byte[]> producer = producing(topic).create()) {
            send(producer, first, count);
        }
    }

    private static Message<byte[]> next(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = consumer.receive(TIMEOUT_S, TimeUnit.SECONDS);
        expect(message != null, "nothing came");
        return message;
    }

    private static List<String> receive(Consumer<byte[]> consumer, int count) throws Exception {
        List<String> received = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message<byte[]> message = next(consumer);
            received.add(new String(message.getData()));
            consumer.acknowledge(message);
        }
        return received;
    }

    private static void expect(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    private static List<String> sorted(List<String> list) {
        List<String> copy = new ArrayList<>(list);
        Collections.sort(copy);
        return copy;
    }

    private void ask(String request, String topic) throws Exception {
        System.out.println(request + " " + topic);
        System.out.flush();
        answers.readLine();
    }

    private void plain() throws Exception {
        try (Consumer<byte[]> consumer = subscribe(topic("plain"), "s")) {
            publish(topic("plain"), 0, 50);
            expect(receive(consumer, 50).equals(numbers(0, 50)), "order");
        }
    }

    private void partitioned() throws Exception {
        Consumer<byte[]> consumer = subscribe(topic("parts"), "s", SubscriptionType.Shared);
        try (Producer<byte[]> producer = producing(topic("parts"))
                .messageRoutingMode(MessageRoutingMode.RoundRobinPartition).create()) {
            send(producer, 0, 60);
        }
        expect(sorted(receive(consumer, 60)).equals(sorted(numbers(0, 60))), "all");
        consumer.unsubscribe();
        consumer.close();
    }

    private void batched() throws Exception {
        try (Consumer<byte[]> consumer = subscribe(topic("batched"), "s")) {
            try (Producer<byte[]> producer = producing(topic("batched")).enableBatching(true)
                    .batchingMaxPublishDelay(20, TimeUnit.MILLISECONDS).create()) {
                send(producer, 0, 500);
            }
            expect(receive(consumer, 500).equals(numbers(0, 500)), "order");
        }
    }

    private void compressed() throws Exception {
        try (Consumer<byte[]> consumer = subscribe(topic("compressed"), "s")) {
            int first = 0;
            for (CompressionType kind : CompressionType.values()) {
                try (Producer<byte[]> producer = producing(topic("compressed")).compressionType(kind)
                        .enableBatching(first % 40 == 0).create()) {
                    send(producer, first, 20);
                }
                first += 20;
            }
            expect(receive(consumer, first).equals(numbers(0, first)), "order");
        }
    }

    private void chunked() throws Exception {
        try (Consumer<byte[]> consumer = subscribe(topic("chunked"), "s")) {
            try (Producer<byte[]> producer = producing(topic("chunked")).enableChunking(true).create()) {
                producer.send(new byte[12 << 20]);
            }
            expect(next(consumer).getData().length == 12 << 20, "size");
        }
    }

    private void delayed() throws Exception {
        try (Consumer<byte[]> consumer = subscribe(topic("delayed"), "s", SubscriptionType.Shared);
                Producer<byte[]> producer = producing(topic("delayed")).create()) {
            long began = System.nanoTime();
            producer.newMessage().value("late".getBytes()).deliverAfter(3000, TimeUnit.MILLISECONDS).send();
            consumer.acknowledge(next(consumer));
            expect(System.nanoTime() - began > 1e9, "too early");
        }
    }

    private void keyed() throws Exception {
        try (Consumer<byte[]> one = subscribe(topic("keyed"), "s", SubscriptionType.Key_Shared);
                Consumer<byte[]> two = subscribe(topic("keyed"), "s", SubscriptionType.Key_Shared);
                Producer<byte[]> producer = producing(topic("keyed")).enableBatching(true)
                    .batcherBuilder(BatcherBuilder.KEY_BASED).create()) {
            for (int number = 0; number < 40; number++) {
                producer.newMessage().key("k" + number % 7).value(new byte[8]).sendAsync();
            }
            producer.flush();
            int received = 0;
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (received < 40 && System.nanoTime() < deadline) {
                for (Consumer<byte[]> consumer : Arrays.asList(one, two)) {
                    Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
                    if (message != null) {
                        consumer.acknowledge(message);
                        received++;
                    }
                }
            }
            expect(received == 40, received + " of 40");
        }
    }

    private void failover() throws Exception {
        String topic = topic("failover");
        Consumer<byte[]> first = subscribing(topic, "s", SubscriptionType.Failover).consumerName("a").subscribe();
        Consumer<byte[]> second = subscribing(topic, "s", SubscriptionType.Failover).consumerName("b").subscribe();
        publish(topic, 0, 30);
        Set<String> received = new HashSet<>();
        Message<byte[]> message;
        while ((message = first.receive(1, TimeUnit.SECONDS)) != null) {
            first.acknowledge(message);
            received.add(new String(message.getData()));
        }
        first.close();
        publish(topic, 30, 10);
        while (received.size() < 40) {
            received.addAll(receive(second, 1));
        }
        second.unsubscribe();
        second.close();
    }

    private void busy() throws Exception {
        String topic = topic("busy");
        Consumer<byte[]> first = subscribe(topic, "s");
        for (int i = 0; i < 3; i++) {
            try {
                subscribe(topic, "s");
                throw new AssertionError("two exclusive consumers");
            } catch (PulsarClientException.ConsumerBusyException expected) {
                // So it should be.
            }
        }
        Producer<byte[]> named = producing(topic).producerName("named").create();
        try {
            producing(topic).producerName("named").create();
            throw new AssertionError("two producers of one name");
        } catch (PulsarClientException.ProducerBusyException expected) {
            // So it should be.
        }
        send(named, 0, 10);
        expect(receive(first, 10).equals(numbers(0, 10)), "the first goes on");
        named.close();
        first.close();
    }

    private void reader() throws Exception {
        publish(topic("reader"), 0, 30);
        try (Reader<byte[]> reader = client.newReader().topic(topic("reader"))
                .startMessageId(MessageId.earliest).create()) {
            List<String> received = new ArrayList<>();
            while (reader.hasMessageAvailable()) {
                received.add(new String(reader.readNext(TIMEOUT_S, TimeUnit.SECONDS).getData()));
            }
            expect(received.equals(numbers(0, 30)), "order");
            reader.seek(MessageId.earliest);
            Message<byte[]> first = reader.readNext(SOUGHT_S, TimeUnit.SECONDS);
            if (first == null) {
                reader.seek(MessageId.earliest);
                first = reader.readNext(TIMEOUT_S, TimeUnit.SECONDS);
            }
            expect(new String(first.getData()).equals("0"), "again");
        }
    }

    private void seek() throws Exception {
        Consumer<byte[]> consumer = subscribe(topic("seek"), "s");
        publish(topic("seek"), 0, 30);
        Message<byte[]> tenth = null;
        for (int i = 0; i < 30; i++) {
            Message<byte[]> message = next(consumer);
            tenth = i == 10 ? message : tenth;
        }
        consumer.seek(MessageId.earliest);
        expect(receive(consumer, 30).equals(numbers(0, 30)), "all again");
        consumer.seek(tenth.getPublishTime());
        next(consumer);
        consumer.unsubscribe();
        consumer.close();
    }

    private void redelivery() throws Exception {
        try (Consumer<byte[]> consumer = subscribing(topic("redelivery"), "s", SubscriptionType.Shared)
                .negativeAckRedeliveryDelay(200, TimeUnit.MILLISECONDS).subscribe()) {
            publish(topic("redelivery"), 0, 20);
            for (int i = 0; i < 20; i++) {
                consumer.negativeAcknowledge(next(consumer));
            }
            for (int i = 0; i < 20; i++) {
                next(consumer);
            }
            consumer.redeliverUnacknowledgedMessages();
            expect(sorted(receive(consumer, 20)).equals(sorted(numbers(0, 20))), "once more");
        }
    }

    private void cumulative() throws Exception {
        String topic = topic("cumulative");
        Producer<byte[]> producer = producing(topic).enableBatching(true).create();
        try (Consumer<byte[]> consumer = subscribing(topic, "s", SubscriptionType.Exclusive)
                .isAckReceiptEnabled(true).subscribe()) {
            send(producer, 0, 40);
            Message<byte[]> last = null;
            for (int i = 0; i < 40; i++) {
                last = next(consumer);
            }
            consumer.acknowledgeCumulative(last);
        }
        try (Consumer<byte[]> consumer = subscribe(topic, "s")) {
            send(producer, 40, 1);
            expect(receive(consumer, 1).equals(numbers(40, 1)), "what was acknowledged stays so");
        }
        producer.close();
    }

    private void batchIndex() throws Exception {
        String topic = topic("batch-index");
        Producer<byte[]> producer = producing(topic).enableBatching(true)
            .batchingMaxPublishDelay(100, TimeUnit.MILLISECONDS).create();
        try (Consumer<byte[]> consumer = subscribing(topic, "s", SubscriptionType.Shared)
                .enableBatchIndexAcknowledgment(true).subscribe()) {
            send(producer, 0, 10);
            for (int i = 0; i < 10; i++) {
                Message<byte[]> message = next(consumer);
                if (i % 2 == 1) {
                    consumer.acknowledge(message);
                }
            }
        }
        try (Consumer<byte[]> consumer = subscribing(topic, "s", SubscriptionType.Shared)
                .enableBatchIndexAcknowledgment(true).subscribe()) {
            expect(sorted(receive(consumer, 5)).equals(Arrays.asList("0", "2", "4", "6", "8")), "the others");
        }
        producer.close();
    }

    private void queues() throws Exception {
        publish(topic("queues"), 0, 30);
        for (int size : new int[] {0, 1, 1000}) {
            try (Consumer<byte[]> consumer = subscribing(topic("queues"), "s" + size, SubscriptionType.Exclusive)
                    .receiverQueueSize(size).subscribe()) {
                List<String> received = new ArrayList<>();
                for (int i = 0; i < 30; i++) {
                    Message<byte[]> message = size == 0 ? consumer.receive() : next(consumer);
                    consumer.acknowledge(message);
                    received.add(new String(message.getData()));
                }
                expect(received.equals(numbers(0, 30)), "order");
            }
        }
    }

    private void unloaded() throws Exception {
        String topic = topic("unloaded");
        List<Consumer<byte[]>> consumers = new ArrayList<>();
        for (SubscriptionType kind : SubscriptionType.values()) {
            consumers.add(subscribe(topic, kind.name(), kind));
        }
        Producer<byte[]> other = producing(topic("unloaded-other")).create();
        List<Producer<byte[]>> producers = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            producers.add(producing(topic).create());
        }
        Map<String, CompletableFuture<MessageId>> sent = new LinkedHashMap<>();
        for (int turn = 0; turn < 3; turn++) {
            for (int i = 0; i < 200; i++) {
                for (Producer<byte[]> producer : producers) {
                    String body = String.valueOf(sent.size());
                    sent.put(body, producer.sendAsync(body.getBytes()));
                }
                other.sendAsync("o".getBytes());
                Thread.sleep(1);
            }
            if (turn < 2) {
                ask("unload", topic);
            }
        }
        for (CompletableFuture<MessageId> answer : sent.values()) {
            answer.get(30, TimeUnit.SECONDS);
        }
        for (Consumer<byte[]> consumer : consumers) {
            Set<String> missing = new HashSet<>(sent.keySet());
            while (!missing.isEmpty()) {
                missing.removeAll(receive(consumer, 1));
            }
            consumer.close();
        }
        for (Producer<byte[]> producer : producers) {
            producer.close();
        }
        other.close();
    }

    private void closing() throws Exception {
        PulsarClient own = connecting().build();
        Consumer<byte[]> consumer = own.newConsumer().topic(topic("closing")).subscriptionName("s")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        Producer<byte[]> first = own.newProducer().topic(topic("closing")).create();
        first.send("x".getBytes());
        Producer<byte[]> second = own.newProducer().topic(topic("closing")).create();
        for (int i = 0; i < 50; i++) {
            first.sendAsync("x".getBytes());
        }
        first.closeAsync();
        next(consumer);
        consumer.closeAsync();
        second.send("last".getBytes());
        Producer<byte[]> third = own.newProducer().topic(topic("closing")).create();
        for (int i = 0; i < 50; i++) {
            third.sendAsync("x".getBytes());
        }
        own.newConsumer().topic(topic("closing")).subscriptionName("t").subscribe().unsubscribeAsync();
        third.closeAsync();
        second.closeAsync();
        own.close();
    }

    private void many() throws Exception {
        List<CompletableFuture<Producer<byte[]>>> producers = new ArrayList<>();
        List<CompletableFuture<Consumer<byte[]>>> consumers = new ArrayList<>();
        for (int number = 0; number < 30; number++) {
            producers.add(producing(topic("many-" + number % 5)).createAsync());
            consumers.add(subscribing(topic("many-" + number % 5), "s" + number, SubscriptionType.Exclusive)
                .subscribeAsync());
        }
        for (CompletableFuture<Producer<byte[]>> producer : producers) {
            producer.get(30, TimeUnit.SECONDS).send("x".getBytes());
            producer.get().close();
        }
        for (CompletableFuture<Consumer<byte[]>> consumer : consumers) {
            consumer.get(30, TimeUnit.SECONDS).close();
        }
    }

    /** What the schema scene sends. */
    public static final class Example {
        public String name = "a";
        public int number = 3;
    }

    private void schemas() throws Exception {
        for (Schema<Example> schema : Arrays.asList(Schema.JSON(Example.class), Schema.AVRO(Example.class))) {
            String topic = topic("schema-" + schema.getSchemaInfo().getType());
            try (Consumer<Example> consumer = client.newConsumer(schema).topic(topic).subscriptionName("s")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
                    Producer<Example> producer = client.newProducer(schema).topic(topic).create()) {
                producer.send(new Example());
                expect(consumer.receive(TIMEOUT_S, TimeUnit.SECONDS).getValue().number == 3, "value");
            }
            try (Consumer<?> consumer = client.newConsumer(Schema.AUTO_CONSUME()).topic(topic)
                        .subscriptionName("auto")
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
                expect(consumer.receive(TIMEOUT_S, TimeUnit.SECONDS) != null, "auto");
            }
        }
    }

    private void severalTopics() throws Exception {
        List<String> topics = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            topics.add(topic("several-" + i));
            publish(topics.get(i), 0, 5);
        }
        try (Consumer<byte[]> consumer = client.newConsumer().topics(topics).subscriptionName("list")
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe()) {
            receive(consumer, 15);
        }
        Consumer<byte[]> consumer = client.newConsumer().topicsPattern(Pattern.compile(topic("several-.*")))
            .patternAutoDiscoveryPeriod(1, TimeUnit.SECONDS).subscriptionName("regex")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        receive(consumer, 15);
        publish(topic("several-9"), 0, 5);
        receive(consumer, 5);
        consumer.unsubscribe();
        consumer.close();
    }

    private void transactions() throws Exception {
        PulsarClient own = connecting().enableTransaction(true).build();
        Producer<byte[]> producer = own.newProducer().topic(topic("transactions"))
            .sendTimeout(0, TimeUnit.SECONDS).create();
        Consumer<byte[]> consumer = own.newConsumer().topic(topic("transactions")).subscriptionName("s")
            .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe();
        for (boolean commits : new boolean[] {true, false, true}) {
            org.apache.pulsar.client.api.transaction.Transaction transaction = own.newTransaction()
                .withTransactionTimeout(30, TimeUnit.SECONDS).build().get(20, TimeUnit.SECONDS);
            for (int i = 0; i < 5; i++) {
                producer.newMessage(transaction).value(String.valueOf(commits).getBytes()).send();
            }
            if (commits) {
                transaction.commit().get(20, TimeUnit.SECONDS);
                Message<byte[]> message = null;
                for (int i = 0; i < 5; i++) {
                    message = next(consumer);
                    expect(new String(message.getData()).equals("true"), "what was aborted came");
                    transaction = own.newTransaction().withTransactionTimeout(30, TimeUnit.SECONDS).build().get();
                    consumer.acknowledgeAsync(message.getMessageId(), transaction).get(20, TimeUnit.SECONDS);
                    transaction.commit().get(20, TimeUnit.SECONDS);
                }
            } else {
                transaction.abort().get(20, TimeUnit.SECONDS);
            }
        }
        own.close();
    }

    private void deadLetter() throws Exception {
        try (Consumer<byte[]> consumer = subscribing(topic("dead"), "s", SubscriptionType.Shared)
                    .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).enableRetry(true)
                    .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(2)
                        .deadLetterTopic(topic("letters")).build()).subscribe();
                Consumer<byte[]> letters = subscribe(topic("letters"), "l")) {
            publish(topic("dead"), 0, 2);
            consumer.reconsumeLater(next(consumer), 100, TimeUnit.MILLISECONDS);
            Message<byte[]> letter = null;
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (letter == null && System.nanoTime() < deadline) {
                Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
                if (message != null) {
                    consumer.negativeAcknowledge(message);
                }
                letter = letters.receive(200, TimeUnit.MILLISECONDS);
            }
            expect(letter != null, "no dead letter");
        }
    }

    private void nonPersistent() throws Exception {
        String topic = "non-persistent://" + namespace + "/np";
        try (Consumer<byte[]> consumer = subscribe(topic, "s")) {
            publish(topic, 0, 20);
            receive(consumer, 1);
        }
    }

    private void shortNames() throws Exception {
        String name = "short-" + System.nanoTime();
        for (String each : Arrays.asList(name, namespace + "/" + name)) {
            Consumer<byte[]> consumer = subscribe(each, "s");
            publish(each, 0, 5);
            receive(consumer, 5);
            consumer.unsubscribe();
            consumer.close();
        }
    }

    private void accessModes() throws Exception {
        String topic = topic("access");
        Producer<byte[]> first = producing(topic).accessMode(ProducerAccessMode.Exclusive).create();
        try {
            producing(topic).accessMode(ProducerAccessMode.Exclusive).create();
            throw new AssertionError("two exclusive producers");
        } catch (PulsarClientException.ProducerFencedException expected) {
            // So it should be.
        }
        CompletableFuture<Producer<byte[]>> waiting =
            producing(topic).accessMode(ProducerAccessMode.WaitForExclusive).createAsync();
        Thread.sleep(500);
        expect(!waiting.isDone(), "it waits");
        first.close();
        send(waiting.get(20, TimeUnit.SECONDS), 0, 5);
        waiting.get().close();
    }

    private void idle() throws Exception {
        try (Consumer<byte[]> consumer = subscribe(topic("idle"), "s");
                Producer<byte[]> producer = producing(topic("idle")).create()) {
            Thread.sleep(70_000);
            send(producer, 0, 5);
            receive(consumer, 5);
        }
    }

    /**
     * The caller has limited the topic to one message per second. `held` asks it to wait until the gate holds
     * what has not passed, `lift` to lift the limit.
     */
    private void closeWhileHeld(boolean held, Closing closing) throws Exception {
        String topic = topic("held");
        PulsarClient own = patient();
        Producer<byte[]> producer = named(own, topic);
        List<CompletableFuture<MessageId>> answers = new ArrayList<>();
        for (String number : numbers(0, 200)) {
            answers.add(producer.sendAsync(number.getBytes()));
        }
        if (held) {
            ask("held", topic);
        }
        long began = System.nanoTime();
        closing.close(own, producer);
        expect(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(PATIENCE_S / 2), "the close waits");
        int acknowledged = 0;
        while (acknowledged < answers.size() && !answers.get(acknowledged).isCompletedExceptionally()) {
            answers.get(acknowledged++).get(0, TimeUnit.SECONDS);
        }
        for (CompletableFuture<MessageId> answer : answers.subList(acknowledged, answers.size())) {
            try {
                answer.get(0, TimeUnit.SECONDS);
                throw new AssertionError("acknowledged after one that failed");
            } catch (ExecutionException error) {
                expect(error.getCause() instanceof PulsarClientException.AlreadyClosedException, error.toString());
            }
        }
        List<String> published = numbers(0, acknowledged);
        published.add("last");
        try (PulsarClient next = patient()) {
            Producer<byte[]> again = named(next, topic);
            ask("lift", topic);
            again.send("last".getBytes());
            again.close();
        }
        own.close();
        try (Consumer<byte[]> consumer = subscribe(topic, "s")) {
            expect(receive(consumer, published.size()).equals(published), "published but not acknowledged");
        }
    }

    private PulsarClient patient() throws Exception {
        return connecting().operationTimeout(PATIENCE_S, TimeUnit.SECONDS).build();
    }

    private static Producer<byte[]> named(PulsarClient client, String topic) throws Exception {
        return client.newProducer().topic(topic).producerName("orders").enableBatching(false)
            .sendTimeout(PATIENCE_S, TimeUnit.SECONDS).create();
    }
}
