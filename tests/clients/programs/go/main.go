// What a Pulsar application does, with the Go client.
//
// Arguments: service URL, namespace, and the scenes to run (all but those of `onlyByName` if none is
// named). Topic `parts` of the namespace has three partitions. One line of JSON per scene goes to standard
// output; a line such as `unload TOPIC` asks the caller to unload a topic and to answer with a line.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	plog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

type application struct {
	url, namespace string
	client         pulsar.Client
	answers        *bufio.Reader
}

type scene struct {
	name string
	run  func(*application)
}

var scenes = []scene{
	{"plain", plain}, {"partitioned", partitioned}, {"batched", batched}, {"compressed", compressed},
	{"chunked", chunked}, {"delayed", delayed}, {"keyed", keyed}, {"failover", failover}, {"busy", busy},
	{"reader", reader}, {"seek", seek}, {"redelivery", redelivery}, {"cumulative", cumulative},
	{"queues", queues}, {"unloaded", unloaded}, {"closing", closing}, {"many", many},
	{"schemas", schemas}, {"several_topics", severalTopics}, {"table_view", tableView},
	{"dead_letter", deadLetter}, {"non_persistent", nonPersistent}, {"short_names", shortNames},
	{"access_modes", accessModes}, {"idle", idle}, {"closing_held", closingHeld},
	{"closing_at_once", closingAtOnce}, {"client_closed_held", clientClosedHeld},
}

// Scenes that take a minute, or a caller that limits the topic.
var onlyByName = map[string]bool{
	"idle": true, "closing_held": true, "closing_at_once": true, "client_closed_held": true,
}

func main() {
	app := &application{url: os.Args[1], namespace: os.Args[2], answers: bufio.NewReader(os.Stdin)}
	app.client = app.connect(20 * time.Second)
	wanted := map[string]bool{}
	unwanted := map[string]bool{}
	for _, name := range os.Args[3:] {
		if left, out := strings.CutPrefix(name, "-"); out {
			unwanted[left] = true
		} else {
			wanted[name] = true
		}
	}
	for _, each := range scenes {
		if len(wanted) == 0 && onlyByName[each.name] || len(wanted) > 0 && !wanted[each.name] || unwanted[each.name] {
			continue
		}
		app.report(each)
	}
	app.client.Close()
}

func (app *application) report(each scene) {
	began := time.Now()
	outcome, why := "done", ""
	func() {
		defer func() {
			if wrong := recover(); wrong != nil {
				outcome, why = "failed", fmt.Sprint(wrong)
			}
		}()
		each.run(app)
	}()
	line, _ := json.Marshal(map[string]any{
		"scene": each.name, "outcome": outcome, "why": why,
		"seconds": float64(time.Since(began).Milliseconds()) / 1000,
	})
	fmt.Println(string(line))
}

func (app *application) connect(operationTimeout time.Duration) pulsar.Client {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	client, err := pulsar.NewClient(pulsar.ClientOptions{
		URL: app.url, OperationTimeout: operationTimeout, Logger: plog.NewLoggerWithLogrus(quiet),
	})
	must(err)
	return client
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(condition bool, what string) {
	if !condition {
		panic(what)
	}
}

func within() context.Context {
	limited, _ := context.WithTimeout(context.Background(), 15*time.Second) //nolint:govet
	return limited
}

func (app *application) topic(name string) string {
	return "persistent://" + app.namespace + "/" + name
}

func (app *application) subscribe(topic, name string, kind pulsar.SubscriptionType) pulsar.Consumer {
	return app.subscribed(pulsar.ConsumerOptions{Topic: topic, SubscriptionName: name, Type: kind})
}

func (app *application) subscribed(options pulsar.ConsumerOptions) pulsar.Consumer {
	options.SubscriptionInitialPosition = pulsar.SubscriptionPositionEarliest
	consumer, err := app.client.Subscribe(options)
	must(err)
	return consumer
}

func (app *application) producer(options pulsar.ProducerOptions) pulsar.Producer {
	producer, err := app.client.CreateProducer(options)
	must(err)
	return producer
}

func (app *application) unbatched(topic string) pulsar.Producer {
	return app.producer(pulsar.ProducerOptions{Topic: topic, DisableBatching: true})
}

func send(producer pulsar.Producer, first, count int) {
	var group sync.WaitGroup
	var lock sync.Mutex
	var failed error
	for number := first; number < first+count; number++ {
		group.Add(1)
		message := &pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(number))}
		producer.SendAsync(context.Background(), message,
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				lock.Lock()
				if err != nil {
					failed = err
				}
				lock.Unlock()
				group.Done()
			})
	}
	must(producer.Flush())
	group.Wait()
	must(failed)
}

func (app *application) publish(topic string, count int) {
	producer := app.unbatched(topic)
	send(producer, 0, count)
	producer.Close()
}

func receive(consumer pulsar.Consumer, count int) []string {
	received := []string{}
	for range count {
		message, err := consumer.Receive(within())
		must(err)
		must(consumer.Ack(message))
		received = append(received, string(message.Payload()))
	}
	return received
}

func numbers(first, count int) []string {
	numbers := []string{}
	for number := first; number < first+count; number++ {
		numbers = append(numbers, strconv.Itoa(number))
	}
	return numbers
}

func equal(received, expected []string) {
	expect(fmt.Sprint(received) == fmt.Sprint(expected), fmt.Sprintf("%v instead of %v", received, expected))
}

func same(received []string, first, count int) {
	equal(received, numbers(first, count))
}

func sameSet(received []string, count int) {
	sort.Slice(received, func(i, j int) bool {
		a, _ := strconv.Atoi(received[i])
		b, _ := strconv.Atoi(received[j])
		return a < b
	})
	same(received, 0, count)
}

func (app *application) ask(request, topic string) {
	fmt.Println(request + " " + topic)
	_, err := app.answers.ReadString('\n')
	must(err)
}

func plain(app *application) {
	consumer := app.subscribe(app.topic("plain"), "s", pulsar.Exclusive)
	app.publish(app.topic("plain"), 50)
	same(receive(consumer, 50), 0, 50)
	consumer.Close()
}

func partitioned(app *application) {
	consumer := app.subscribe(app.topic("parts"), "s", pulsar.Shared)
	app.publish(app.topic("parts"), 60)
	sameSet(receive(consumer, 60), 60)
	must(consumer.Unsubscribe())
}

func batched(app *application) {
	consumer := app.subscribe(app.topic("batched"), "s", pulsar.Exclusive)
	producer := app.producer(pulsar.ProducerOptions{Topic: app.topic("batched")})
	send(producer, 0, 500)
	producer.Close()
	same(receive(consumer, 500), 0, 500)
	consumer.Close()
}

func compressed(app *application) {
	consumer := app.subscribe(app.topic("compressed"), "s", pulsar.Exclusive)
	for index, kind := range []pulsar.CompressionType{pulsar.LZ4, pulsar.ZLib, pulsar.ZSTD} {
		producer := app.producer(pulsar.ProducerOptions{
			Topic: app.topic("compressed"), CompressionType: kind, DisableBatching: index == 1,
		})
		send(producer, index*20, 20)
		producer.Close()
	}
	same(receive(consumer, 60), 0, 60)
	consumer.Close()
}

func chunked(app *application) {
	consumer := app.subscribe(app.topic("chunked"), "s", pulsar.Exclusive)
	producer := app.producer(pulsar.ProducerOptions{
		Topic: app.topic("chunked"), DisableBatching: true, EnableChunking: true,
	})
	_, err := producer.Send(within(), &pulsar.ProducerMessage{Payload: make([]byte, 12<<20)})
	must(err)
	message, err := consumer.Receive(within())
	must(err)
	expect(len(message.Payload()) == 12<<20, "size")
	must(consumer.Ack(message))
	producer.Close()
	consumer.Close()
}

func delayed(app *application) {
	consumer := app.subscribe(app.topic("delayed"), "s", pulsar.Shared)
	producer := app.unbatched(app.topic("delayed"))
	began := time.Now()
	late := &pulsar.ProducerMessage{Payload: []byte("late"), DeliverAfter: 3 * time.Second}
	_, err := producer.Send(within(), late)
	must(err)
	receive(consumer, 1)
	expect(time.Since(began) > time.Second, "too early")
	producer.Close()
	consumer.Close()
}

func keyed(app *application) {
	channel := make(chan pulsar.ConsumerMessage, 100)
	options := pulsar.ConsumerOptions{
		Topic: app.topic("keyed"), SubscriptionName: "s", Type: pulsar.KeyShared, MessageChannel: channel,
	}
	one, two := app.subscribed(options), app.subscribed(options)
	producer := app.producer(pulsar.ProducerOptions{
		Topic: app.topic("keyed"), BatcherBuilderType: pulsar.KeyBasedBatchBuilder,
	})
	for number := range 40 {
		message := &pulsar.ProducerMessage{Payload: make([]byte, 8), Key: fmt.Sprint("k", number%7)}
		producer.SendAsync(context.Background(), message,
			func(pulsar.MessageID, *pulsar.ProducerMessage, error) {})
	}
	must(producer.Flush())
	for range 40 {
		select {
		case message := <-channel:
			must(message.Ack(message))
		case <-time.After(15 * time.Second):
			panic("nothing came")
		}
	}
	producer.Close()
	one.Close()
	two.Close()
}

func failover(app *application) {
	topic := app.topic("failover")
	// With two consumers the broker chooses by a hash of the topic's name, a second after the second came.
	first := app.subscribed(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: pulsar.Failover, Name: "a",
	})
	app.publish(topic, 30)
	same(receive(first, 30), 0, 30)
	second := app.subscribed(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: pulsar.Failover, Name: "b",
	})
	first.Close()
	app.publish(topic, 10)
	same(receive(second, 10), 0, 10)
	must(second.Unsubscribe())
}

func busy(app *application) {
	topic := app.topic("busy")
	first := app.subscribe(topic, "s", pulsar.Exclusive)
	options := pulsar.ConsumerOptions{Topic: topic, SubscriptionName: "s"}
	for range 3 {
		_, err := app.client.Subscribe(options)
		expect(err != nil, "two exclusive consumers")
	}
	named := app.producer(pulsar.ProducerOptions{Topic: topic, Name: "named"})
	_, err := app.client.CreateProducer(pulsar.ProducerOptions{Topic: topic, Name: "named"})
	expect(err != nil, "two producers of one name")
	send(named, 0, 10)
	same(receive(first, 10), 0, 10)
	named.Close()
	first.Close()
}

func reader(app *application) {
	topic := app.topic("reader")
	app.publish(topic, 30)
	one, err := app.client.CreateReader(pulsar.ReaderOptions{
		Topic: topic, StartMessageID: pulsar.EarliestMessageID(),
	})
	must(err)
	received := []string{}
	var first pulsar.MessageID
	for one.HasNext() {
		message, err := one.Next(within())
		must(err)
		if first == nil {
			first = message.ID()
		}
		received = append(received, string(message.Payload()))
	}
	same(received, 0, 30)
	must(one.Seek(first))
	_, err = one.Next(within())
	must(err)
	one.Close()
}

func seek(app *application) {
	topic := app.topic("seek")
	consumer := app.subscribe(topic, "s", pulsar.Exclusive)
	app.publish(topic, 30)
	message, err := consumer.Receive(within())
	must(err)
	same(receive(consumer, 29), 1, 29)
	must(consumer.Seek(message.ID()))
	receive(consumer, 29)
	must(consumer.SeekByTime(time.Now().Add(-time.Minute)))
	receive(consumer, 1)
	must(consumer.Unsubscribe())
}

func redelivery(app *application) {
	topic := app.topic("redelivery")
	consumer := app.subscribed(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: pulsar.Shared,
		NackRedeliveryDelay: 300 * time.Millisecond,
	})
	app.publish(topic, 20)
	for range 20 {
		message, err := consumer.Receive(within())
		must(err)
		consumer.Nack(message)
	}
	sameSet(receive(consumer, 20), 20)
	consumer.Close()
}

func cumulative(app *application) {
	topic := app.topic("cumulative")
	options := pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", AckWithResponse: true,
	}
	consumer := app.subscribed(options)
	producer := app.producer(pulsar.ProducerOptions{Topic: topic})
	send(producer, 0, 40)
	var last pulsar.Message
	for range 40 {
		message, err := consumer.Receive(within())
		must(err)
		last = message
	}
	must(consumer.AckCumulative(last))
	consumer.Close()
	again := app.subscribed(options)
	send(producer, 40, 1)
	same(receive(again, 1), 40, 1)
	producer.Close()
	again.Close()
}

func queues(app *application) {
	topic := app.topic("queues")
	app.publish(topic, 30)
	for _, size := range []int{1, 1000} {
		consumer := app.subscribed(pulsar.ConsumerOptions{
			Topic: topic, SubscriptionName: fmt.Sprint("s", size), ReceiverQueueSize: size,
		})
		same(receive(consumer, 30), 0, 30)
		consumer.Close()
	}
}

func unloaded(app *application) {
	topic := app.topic("unloaded")
	consumers := []pulsar.Consumer{}
	for index, kind := range []pulsar.SubscriptionType{
		pulsar.Exclusive, pulsar.Shared, pulsar.Failover, pulsar.KeyShared,
	} {
		consumers = append(consumers, app.subscribe(topic, fmt.Sprint("s", index), kind))
	}
	producers := []pulsar.Producer{app.unbatched(topic), app.unbatched(topic), app.unbatched(topic)}
	other := app.unbatched(app.topic("unloaded-other"))
	var group sync.WaitGroup
	var lock sync.Mutex
	var failed error
	sent := 0
	for turn := range 3 {
		for range 200 {
			for _, producer := range producers {
				group.Add(1)
				message := &pulsar.ProducerMessage{Payload: []byte(strconv.Itoa(sent))}
				producer.SendAsync(context.Background(), message,
					func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
						lock.Lock()
						if err != nil {
							failed = err
						}
						lock.Unlock()
						group.Done()
					})
				sent++
			}
			time.Sleep(time.Millisecond)
		}
		if turn < 2 {
			app.ask("unload", topic)
		}
	}
	group.Wait()
	must(failed)
	for _, consumer := range consumers {
		missing := map[string]bool{}
		for number := range sent {
			missing[strconv.Itoa(number)] = true
		}
		for len(missing) > 0 {
			delete(missing, receive(consumer, 1)[0])
		}
		consumer.Close()
	}
	for _, producer := range append(producers, other) {
		producer.Close()
	}
}

func closing(app *application) {
	topic := app.topic("closing")
	own := &application{url: app.url, namespace: app.namespace}
	own.client = own.connect(20 * time.Second)
	consumer := own.subscribe(topic, "s", pulsar.Exclusive)
	first, second := own.unbatched(topic), own.unbatched(topic)
	ignore := func(pulsar.MessageID, *pulsar.ProducerMessage, error) {}
	for range 50 {
		first.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte("x")}, ignore)
	}
	first.Close()
	send(second, 0, 1)
	receive(consumer, 1)
	consumer.Close()
	third := own.unbatched(topic)
	for range 50 {
		third.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: []byte("x")}, ignore)
	}
	must(own.subscribe(topic, "t", pulsar.Exclusive).Unsubscribe())
	own.client.Close()
}

func many(app *application) {
	var group sync.WaitGroup
	failed := make(chan any, 30)
	for number := range 30 {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if wrong := recover(); wrong != nil {
					failed <- wrong
				}
			}()
			topic := app.topic(fmt.Sprint("many-", number%5))
			producer := app.unbatched(topic)
			consumer := app.subscribe(topic, fmt.Sprint("s", number), pulsar.Exclusive)
			send(producer, 0, 1)
			producer.Close()
			consumer.Close()
		}()
	}
	group.Wait()
	if len(failed) > 0 {
		panic(<-failed)
	}
}

func schemas(app *application) {
	definition := `{"type":"record","name":"Example","namespace":"test",` +
		`"fields":[{"name":"name","type":"string"},{"name":"number","type":"int"}]}`
	for name, schema := range map[string]pulsar.Schema{
		"json": pulsar.NewJSONSchema(definition, nil), "avro": pulsar.NewAvroSchema(definition, nil),
	} {
		topic := app.topic("schema-" + name)
		consumer := app.subscribed(pulsar.ConsumerOptions{
			Topic: topic, SubscriptionName: "s", Schema: schema,
		})
		producer := app.producer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
		value := map[string]any{"name": "a", "number": 3}
		_, err := producer.Send(within(), &pulsar.ProducerMessage{Value: value})
		must(err)
		receive(consumer, 1)
		producer.Close()
		consumer.Close()
	}
}

func severalTopics(app *application) {
	topics := []string{}
	for number := range 3 {
		topics = append(topics, app.topic(fmt.Sprint("several-", number)))
		app.publish(topics[number], 5)
	}
	consumer := app.subscribed(pulsar.ConsumerOptions{
		Topics: topics, SubscriptionName: "list", Type: pulsar.Shared,
	})
	receive(consumer, 15)
	consumer.Close()
	consumer = app.subscribed(pulsar.ConsumerOptions{
		TopicsPattern: app.topic("several-.*"), SubscriptionName: "regex", Type: pulsar.Shared,
		AutoDiscoveryPeriod: time.Second,
	})
	receive(consumer, 15)
	app.publish(app.topic("several-9"), 5)
	receive(consumer, 5)
	must(consumer.Unsubscribe())
}

func tableView(app *application) {
	topic := app.topic("table")
	schema := pulsar.NewStringSchema(nil)
	producer := app.producer(pulsar.ProducerOptions{Topic: topic, Schema: schema})
	_, err := producer.Send(within(), &pulsar.ProducerMessage{Value: "1", Key: "a"})
	must(err)
	value := ""
	view, err := app.client.CreateTableView(pulsar.TableViewOptions{
		Topic: topic, Schema: schema, SchemaValueType: reflect.TypeOf(&value),
	})
	must(err)
	deadline := time.Now().Add(15 * time.Second)
	for !view.ContainsKey("a") {
		expect(time.Now().Before(deadline), "the key never came")
		time.Sleep(50 * time.Millisecond)
	}
	view.Close()
	producer.Close()
}

func deadLetter(app *application) {
	topic, letters := app.topic("dead"), app.topic("letters")
	consumer := app.subscribed(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: "s", Type: pulsar.Shared,
		NackRedeliveryDelay: 100 * time.Millisecond,
		DLQ:                 &pulsar.DLQPolicy{MaxDeliveries: 2, DeadLetterTopic: letters},
	})
	reading := app.subscribe(letters, "l", pulsar.Exclusive)
	app.publish(topic, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := reading.Receive(within())
		_ = err
	}()
	for {
		select {
		case <-done:
			consumer.Close()
			reading.Close()
			return
		default:
		}
		short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		if message, err := consumer.Receive(short); err == nil {
			consumer.Nack(message)
		}
		cancel()
	}
}

func nonPersistent(app *application) {
	topic := "non-persistent://" + app.namespace + "/np"
	consumer := app.subscribe(topic, "s", pulsar.Exclusive)
	app.publish(topic, 20)
	receive(consumer, 1)
	consumer.Close()
}

func shortNames(app *application) {
	name := fmt.Sprint("short-", time.Now().UnixNano())
	for _, each := range []string{name, app.namespace + "/" + name} {
		consumer := app.subscribe(each, "s", pulsar.Exclusive)
		app.publish(each, 5)
		same(receive(consumer, 5), 0, 5)
		must(consumer.Unsubscribe())
	}
}

func accessModes(app *application) {
	topic := app.topic("access")
	exclusive := pulsar.ProducerOptions{
		Topic: topic, ProducerAccessMode: pulsar.ProducerAccessModeExclusive,
	}
	first := app.producer(exclusive)
	_, err := app.client.CreateProducer(exclusive)
	expect(err != nil, "two exclusive producers")
	first.Close()
}

func idle(app *application) {
	consumer := app.subscribe(app.topic("idle"), "s", pulsar.Exclusive)
	producer := app.unbatched(app.topic("idle"))
	time.Sleep(70 * time.Second)
	send(producer, 0, 5)
	same(receive(consumer, 5), 0, 5)
	producer.Close()
	consumer.Close()
}

// Longer than a scene takes, unless a close waits for all that is held.
const patience = 120 * time.Second

func closingHeld(app *application) {
	closeWhileHeld(app, true, func(_ pulsar.Client, producer pulsar.Producer) { producer.Close() })
}

func closingAtOnce(app *application) {
	closeWhileHeld(app, false, func(_ pulsar.Client, producer pulsar.Producer) { producer.Close() })
}

func clientClosedHeld(app *application) {
	closeWhileHeld(app, true, func(client pulsar.Client, _ pulsar.Producer) { client.Close() })
}

// The caller has limited the topic to one message per second. `held` asks it to wait until the gate holds
// what has not passed, `lift` to lift the limit. A client that closes at once may not have sent all, and
// then gives some messages no answer.
func closeWhileHeld(app *application, held bool, closes func(pulsar.Client, pulsar.Producer)) {
	topic := app.topic("held")
	client := app.connect(patience)
	producer := app.named(client, topic)
	var lock sync.Mutex
	acknowledged, failed := []string{}, 0
	for _, number := range numbers(0, 200) {
		message := &pulsar.ProducerMessage{Payload: []byte(number)}
		producer.SendAsync(context.Background(), message,
			func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				lock.Lock()
				defer lock.Unlock()
				if err == nil {
					acknowledged = append(acknowledged, number)
				} else if errors.Is(err, pulsar.ErrProducerClosed) {
					failed++
				}
			})
	}
	if held {
		app.ask("held", topic)
	}
	began := time.Now()
	closes(client, producer)
	expect(time.Since(began) < patience/2, "the close waits for what is held")
	next := app.connect(patience)
	again := app.named(next, topic)
	app.ask("lift", topic)
	_, err := again.Send(context.Background(), &pulsar.ProducerMessage{Payload: []byte("last")})
	must(err)
	next.Close()
	client.Close()
	lock.Lock()
	defer lock.Unlock()
	expect(!held || len(acknowledged)+failed == 200, fmt.Sprint("failed as closed: ", failed))
	consumer := app.subscribe(topic, "s", pulsar.Exclusive)
	equal(receive(consumer, len(acknowledged)+1), append(acknowledged, "last"))
	consumer.Close()
}

func (app *application) named(client pulsar.Client, topic string) pulsar.Producer {
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, Name: "orders", DisableBatching: true, SendTimeout: patience,
	})
	must(err)
	return producer
}
