/* Runs of frames, found in one call: the gate's hot path where a compiler was at hand.
 *
 * Under load a read holds dozens or hundreds of frames, and nearly all of them are SENDs of one producer, or
 * receipts for one, or messages to one consumer and its acknowledgements, written as every client and broker
 * writes them. scan() walks over such frames and adds up what the gate needs to know, so that Python decides once
 * per run instead of once per frame.
 *
 * It knows the canonical form only (frames.py) and never judges: at the first byte that is otherwise it stops, in
 * front of that frame, and coordinator/gate/protocol/stream.py goes on frame by frame, as it does where this module was
 * not built. So nothing depends on it but speed, and the tests hold both to the same outcome.
 *
 * Nothing is read outside of the buffer: every position is compared with an end before it is looked at.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { SEND = 6, SEND_RECEIPT = 7, MESSAGE = 9, ACK = 10 };

enum { VARINT = 0, FIXED64 = 1, LENGTH_DELIMITED = 2, FIXED32 = 5 };

#define SIZES 8                 /* totalSize and commandSize */
#define COMMAND_HEAD 4          /* 08 type tag length */
#define SHORT_LENGTH 0x7f       /* the longest that one byte can say */
#define DEPTH_MAX 4             /* of frames.py, as the next one */
#define MOST_FIELDS 4096
#define MESSAGE_SIZE_MIN 6      /* of payload.py, as the next one */
#define COMPRESSIONS 5

static const uint16_t ratio_max[COMPRESSIONS] = {1, 255, 1032, 14564, 22};

/* schema.py, as far as it is about SEND, ACK and the metadata of messages. */

enum { NONE, NUMBER64, NUMBER32, BOOLEAN, BYTES, NESTED, NUMBERS64, NUMBERS32 };

#define REPEATED 0x80
#define FIELDS_MAX 33

typedef struct Message Message;
struct Message {
    uint8_t kinds[FIELDS_MAX];              /* by field number */
    const Message *nested[FIELDS_MAX];
    uint64_t required;                      /* a bit for each field that must be there */
};

#define BIT(number) (1ULL << (number))

static const Message key_value = {{[1] = BYTES, [2] = BYTES}, {0}, BIT(1) | BIT(2)};
static const Message key_long_value = {{[1] = BYTES, [2] = NUMBER64}, {0}, 0};
static const Message message_id = {
    {[1] = NUMBER64, [2] = NUMBER64, [3] = NUMBER32, [4] = NUMBER32, [5] = NUMBERS64 | REPEATED, [6] = NUMBER32,
     [7] = NESTED},
    {[7] = &message_id}, BIT(1) | BIT(2),
};
static const Message encryption_keys = {
    {[1] = BYTES, [2] = BYTES, [3] = NESTED | REPEATED}, {[3] = &key_value}, BIT(1) | BIT(2),
};
static const Message send_command = {
    {[1] = NUMBER64, [2] = NUMBER64, [3] = NUMBER32, [4] = NUMBER64, [5] = NUMBER64, [6] = NUMBER64, [7] = BOOLEAN,
     [8] = BOOLEAN, [9] = NESTED},
    {[9] = &message_id}, 0,
};
static const Message ack_command = {
    {[1] = NUMBER64, [2] = NUMBER32, [3] = NESTED | REPEATED, [4] = NUMBER32, [5] = NESTED | REPEATED, [6] = NUMBER64,
     [7] = NUMBER64, [8] = NUMBER64},
    {[3] = &message_id, [5] = &key_long_value}, 0,
};
static const Message message_metadata = {
    {[1] = BYTES, [2] = NUMBER64, [3] = NUMBER64, [4] = NESTED | REPEATED, [5] = BYTES, [6] = BYTES,
     [7] = BYTES | REPEATED, [8] = NUMBER32, [9] = NUMBER32, [11] = NUMBER32, [12] = NUMBER64,
     [13] = NESTED | REPEATED, [14] = BYTES, [15] = BYTES, [16] = BYTES, [17] = BOOLEAN, [18] = BYTES,
     [19] = NUMBER64, [20] = NUMBER32, [22] = NUMBER64, [23] = NUMBER64, [24] = NUMBER64, [25] = BOOLEAN,
     [26] = BYTES, [27] = NUMBER32, [28] = NUMBER32, [29] = NUMBER32, [30] = BOOLEAN, [31] = NUMBERS32 | REPEATED,
     [32] = BYTES},
    {[4] = &key_value, [13] = &encryption_keys}, BIT(1) | BIT(2) | BIT(3),
};

#define NUM_MESSAGES 3           /* of SEND */
#define COMPRESSION 8            /* of MessageMetadata */
#define UNCOMPRESSED_SIZE 9
#define NUM_MESSAGES_IN_BATCH 11
#define DELIVER_AT_TIME 19

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Span;

/* The numbers of a message's first level; `seen` has a bit for each field that is there. */
typedef struct {
    uint64_t seen;
    uint64_t values[FIELDS_MAX];
    uint64_t fields;   /* on all levels */
} Numbers;

typedef struct {
    uint64_t owner;    /* producer or consumer id */
    uint64_t messages;
    size_t size;       /* all of it, arrived or not */
    size_t payload;    /* what of that lies behind the command */
    uint64_t fields;   /* that were read */
} Frame;

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Reads a varint of at most 64 bits that has no more bytes than it needs; 0 is "look elsewhere". */
static int read_varint(Span *span, uint64_t *value)
{
    uint64_t read = 0;
    for (int shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        read |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = read;
            return !(shift && !byte) && !(shift == 63 && byte > 1);
        }
    }
    return 0;
}

/* Numbers that fit their field and are not negative; what is negative is for Python to judge. */
static int fits(uint64_t value, int kind)
{
    switch (kind) {
    case NUMBER64:
    case NUMBERS64:
        return 1;
    case BOOLEAN:
        return value <= 1;
    default:
        return value <= INT32_MAX || value >= UINT64_MAX - INT32_MAX;
    }
}

static int read_packed(Span span, int kind, int *left)
{
    while (span.at < span.end) {
        uint64_t value;
        if (--*left < 0 || !read_varint(&span, &value) || !fits(value, kind)) return 0;
    }
    return 1;
}

/* Whether a message is in canonical form and complete, at every level; fills in its numbers if asked. `left` counts
 * down the fields that it may have. */
static int read_level(Span span, const Message *message, Numbers *numbers, int depth, int *left)
{
    uint64_t seen = 0;
    if (depth > DEPTH_MAX) return 0;
    while (span.at < span.end) {
        uint64_t tag, value;
        if (--*left < 0 || !read_varint(&span, &tag)) return 0;
        const uint64_t number = tag >> 3;
        if (!number || number >= FIELDS_MAX) return 0;
        const int kind = message->kinds[number] & ~REPEATED;
        if (kind == NONE || (seen >> number & 1 && !(message->kinds[number] & REPEATED))) return 0;
        seen |= BIT(number);
        if (!read_varint(&span, &value)) return 0;
        if ((tag & 7) == VARINT) {
            if (kind == BYTES || kind == NESTED || !fits(value, kind)) return 0;
            if (numbers) numbers->values[number] = value;
            continue;
        }
        if ((tag & 7) != LENGTH_DELIMITED || value > (uint64_t)(span.end - span.at)) return 0;
        const Span inner = {span.at, span.at + value};
        if (kind == NESTED) {
            if (!read_level(inner, message->nested[number], NULL, depth + 1, left)) return 0;
        } else if (kind == NUMBERS64 || kind == NUMBERS32) {
            if (!read_packed(inner, kind, left)) return 0;
        } else if (kind != BYTES) {
            return 0;
        }
        span.at = inner.end;
    }
    if (numbers) numbers->seen = seen;
    return (seen & message->required) == message->required;
}

static int read_message(Span span, const Message *message, Numbers *numbers)
{
    int left = MOST_FIELDS;
    const int readable = read_level(span, message, numbers, 0, &left);
    numbers->fields = (uint64_t)(MOST_FIELDS - left);
    return readable;
}

static uint64_t number_or(const Numbers *numbers, int field, uint64_t otherwise)
{
    return numbers->seen >> field & 1 ? numbers->values[field] : otherwise;
}

/* The metadata of a message, once it has arrived and lies inside its frame. */
static int find_metadata(const uint8_t *at, const uint8_t *end, int from_client, Span *metadata)
{
    if (!from_client && end - at >= 6 && at[0] == 0x0e && at[1] == 0x02) { /* broker entry */
        uint32_t size = big_endian(at + 2);
        at += 6;
        if (size > (size_t)(end - at)) return 0;
        at += size;
    }
    if (end - at >= 6 && at[0] == 0x0e && at[1] == 0x01) at += 6; /* checksum */
    if (end - at < 4) return 0;
    uint32_t size = big_endian(at);
    at += 4;
    if (size > (size_t)(end - at)) return 0;
    metadata->at = at;
    metadata->end = at + size;
    return 1;
}

/* Reads metadata whose frame ends at a position, arrived or not; tells how many messages its content can hold. */
static int read_metadata(Span metadata, const uint8_t *frame_end, Numbers *numbers, uint64_t *most)
{
    if (!read_message(metadata, &message_metadata, numbers)) return 0;
    uint64_t content = (uint64_t)(frame_end - metadata.end);
    const uint64_t compression = number_or(numbers, COMPRESSION, 0);
    if (compression > 0 && compression < COMPRESSIONS) { /* the broker reads any other as none */
        const uint64_t most_size = content * ratio_max[compression];
        uint64_t size = number_or(numbers, UNCOMPRESSED_SIZE, 0);
        if (size > most_size) size = most_size;
        if (size > content) content = size;
    }
    *most = content / MESSAGE_SIZE_MIN ? content / MESSAGE_SIZE_MIN : 1;
    return 1;
}

static int read_send(Span fields, const uint8_t *at, size_t payload, const uint8_t *arrived, int prompt_only,
                     Frame *frame)
{
    Numbers send, metadata;
    Span span;
    uint64_t most;
    if (!read_message(fields, &send_command, &send) || (send.seen & 6) != 6) return 0;
    if (!find_metadata(at, arrived, 1, &span)) return 0;
    if (!read_metadata(span, at + payload, &metadata, &most)) return 0;
    if (prompt_only && metadata.seen >> DELIVER_AT_TIME & 1) return 0;
    const uint64_t counted = number_or(&send, NUM_MESSAGES, 1);
    const uint64_t batch = number_or(&metadata, NUM_MESSAGES_IN_BATCH, 1);
    if (counted > INT32_MAX || batch > INT32_MAX) return 0;
    frame->owner = send.values[1];
    frame->fields = send.fields + metadata.fields;
    frame->messages = counted > batch ? counted : batch;
    if (frame->messages > most) frame->messages = most;
    return 1;
}

/* A consumer id, a message id, and nothing else: so there is no ack_set. */
static int read_delivery(Span command, const uint8_t *at, size_t payload, const uint8_t *arrived, Frame *frame)
{
    Numbers metadata;
    Span span;
    uint64_t most;
    if (command.at == command.end || *command.at++ != (1 << 3 | VARINT)) return 0;
    if (!read_varint(&command, &frame->owner)) return 0;
    if (command.end - command.at < 2 || command.at[0] != (2 << 3 | LENGTH_DELIMITED)) return 0;
    if (command.at[1] != command.end - command.at - 2) return 0;
    if (!find_metadata(at, arrived, 0, &span)) return 0;
    if (!read_metadata(span, at + payload, &metadata, &most)) return 0;
    frame->fields = metadata.fields;
    frame->messages = number_or(&metadata, NUM_MESSAGES_IN_BATCH, 1);
    return frame->messages <= most;
}

static int read_receipt(Span fields, Frame *frame)
{
    return fields.at < fields.end && *fields.at++ == (1 << 3 | VARINT) && read_varint(&fields, &frame->owner);
}

static int read_ack(Span fields, Frame *frame)
{
    Numbers ack;
    if (!read_message(fields, &ack_command, &ack) || !(ack.seen & 2)) return 0;
    frame->owner = ack.values[1];
    frame->fields = ack.fields;
    return 1;
}

/* Reads the frame at a position if it is a usual one of this kind. */
static int read_frame(const uint8_t *at, const uint8_t *end, int kind, int prompt_only, uint32_t frame_max,
                      Frame *frame)
{
    if (end - at < SIZES + COMMAND_HEAD) return 0;
    uint32_t total = big_endian(at), command = big_endian(at + 4);
    if (command < COMMAND_HEAD || total < 4 || command > total - 4 || total > frame_max - 4) return 0;
    if (command - COMMAND_HEAD > SHORT_LENGTH || command > (size_t)(end - at - SIZES)) return 0;
    const uint8_t *head = at + SIZES;
    if (head[0] != 0x08 || head[1] != kind || head[2] != (kind << 3 | LENGTH_DELIMITED)) return 0;
    if (head[3] != command - COMMAND_HEAD) return 0;

    frame->size = (size_t)total + 4;
    frame->payload = (size_t)total - 4 - command;
    frame->messages = 1;
    frame->fields = 1;
    const Span fields = {head + COMMAND_HEAD, head + command};
    const uint8_t *arrived = frame->size < (size_t)(end - at) ? at + frame->size : end;
    switch (kind) {
    case SEND:
        if (!read_send(fields, fields.end, frame->payload, arrived, prompt_only, frame)) return 0;
        break;
    case MESSAGE:
        if (!read_delivery(fields, fields.end, frame->payload, arrived, frame)) return 0;
        break;
    case SEND_RECEIPT:
        return !frame->payload && read_receipt(fields, frame);
    case ACK:
        return !frame->payload && read_ack(fields, frame);
    default:
        return 0;
    }
    if (frame->messages == 0) frame->messages = 1;
    return frame->messages <= INT32_MAX;
}

static PyStructSequence_Field run_fields[] = {
    {"kind", "the type of all these commands"},
    {"owner", "the id of the producer or consumer"},
    {"frames", "how many"},
    {"messages", "what is in them, batches counted by their real number"},
    {"size", "bytes behind the commands: what Pulsar calls the size of messages"},
    {"most_messages", "in one of them"},
    {"largest", "the largest size of one of them"},
    {"fields", "that were read of them, on all levels"},
    {"end", "where they end; behind the data, if the last one has not arrived in full"},
    {NULL, NULL},
};

static PyStructSequence_Desc run_description = {
    "coordinator.gate.protocol._runs.Run",
    "Frames that follow each other: SENDs of one producer, receipts for it, messages to a consumer, or its ACKs.",
    run_fields,
    9,
};

static PyTypeObject *run_type;

static PyObject *new_run(const uint64_t numbers[9])
{
    PyObject *run = PyStructSequence_New(run_type);
    for (int i = 0; run && i < 9; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);
        if (number) PyStructSequence_SetItem(run, i, number);
        else Py_CLEAR(run);
    }
    return run;
}

static PyObject *find_run(PyObject *const *args, Py_ssize_t count, int prompt_only, uint64_t most_frames)
{
    if (count != 3 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "scan takes bytes, a position and the size of the largest frame");
        return NULL;
    }
    Py_ssize_t pos = PyLong_AsSsize_t(args[1]), frame_max = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred()) return NULL;
    const uint8_t *data = (const uint8_t *)PyBytes_AS_STRING(args[0]);
    const Py_ssize_t arrived = PyBytes_GET_SIZE(args[0]);
    if (pos < 0 || arrived - pos < SIZES + COMMAND_HEAD || frame_max < 16 || frame_max > INT32_MAX) {
        Py_RETURN_NONE;
    }
    const int kind = data[pos + SIZES + 1];
    uint64_t owner = 0, frames = 0, messages = 0, size = 0, most = 0, largest = 0, fields = 0;
    Frame frame;
    while (pos < arrived && frames < most_frames &&
           read_frame(data + pos, data + arrived, kind, prompt_only, (uint32_t)frame_max, &frame)) {
        if (frames && frame.owner != owner) break;
        owner = frame.owner;
        frames++;
        messages += frame.messages;
        size += frame.payload;
        fields += frame.fields;
        if (frame.messages > most) most = frame.messages;
        if (frame.payload > largest) largest = frame.payload;
        pos += (Py_ssize_t)frame.size;
    }
    if (!frames) Py_RETURN_NONE;
    return new_run((uint64_t[]){kind, owner, frames, messages, size, most, largest, fields, (uint64_t)pos});
}

PyDoc_STRVAR(scan_doc,
"scan(data, pos, frame_max) -> Run, or None where no frame of a usual kind and layout begins");

static PyObject *scan(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return find_run(args, count, 0, UINT64_MAX);
}

PyDoc_STRVAR(scan_prompt_doc,
"scan_prompt(data, pos, frame_max) -> Run, as scan, but SENDs with a time of delivery are no part of one");

static PyObject *scan_prompt(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return find_run(args, count, 1, UINT64_MAX);
}

PyDoc_STRVAR(scan_one_doc, "scan_one(data, pos, frame_max) -> Run of one frame, as scan");

static PyObject *scan_one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return find_run(args, count, 0, 1);
}

PyDoc_STRVAR(scan_prompt_one_doc, "scan_prompt_one(data, pos, frame_max) -> Run of one frame, as scan_prompt");

static PyObject *scan_prompt_one(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return find_run(args, count, 1, 1);
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"scan_prompt", (PyCFunction)(void (*)(void))scan_prompt, METH_FASTCALL, scan_prompt_doc},
    {"scan_one", (PyCFunction)(void (*)(void))scan_one, METH_FASTCALL, scan_one_doc},
    {"scan_prompt_one", (PyCFunction)(void (*)(void))scan_prompt_one, METH_FASTCALL, scan_prompt_one_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "coordinator.gate.protocol._runs", "Runs of frames, found in one call.", -1, methods,
    NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__runs(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    run_type = PyStructSequence_NewType(&run_description);
    if (!run_type || PyModule_AddObjectRef(module, "Run", (PyObject *)run_type) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
