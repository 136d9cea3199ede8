/* Runs of frames, found in one call: the gate's hot path where a compiler was at hand.
 *
 * Under load a read holds dozens or hundreds of frames, and nearly all of them are SENDs of one producer, or
 * receipts for one, or messages to one consumer, written as every client and broker writes them. scan()
 * walks over such frames and adds up what the gate needs to know, so that Python decides once per run
 * instead of once per frame.
 *
 * It knows the usual layout only and never judges: at the first byte that is otherwise it stops, in front of
 * that frame, and coordinator/gate/stream.py goes on frame by frame, as it does where this module was not
 * built. So nothing depends on it but speed, and the tests hold both to the same outcome.
 *
 * Nothing is read outside of the buffer: every position is compared with an end before it is looked at.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

enum { SEND = 6, SEND_RECEIPT = 7, MESSAGE = 9 };

enum { VARINT = 0, FIXED64 = 1, LENGTH_DELIMITED = 2, FIXED32 = 5 };

#define NUM_MESSAGES 3          /* of SEND */
#define NUM_MESSAGES_IN_BATCH 11 /* of MessageMetadata */
#define DELIVER_AT_TIME 19      /* of the same */
#define SIZES 8                 /* totalSize and commandSize */
#define COMMAND_HEAD 4          /* 08 type tag length */
#define SHORT_LENGTH 0x7f       /* the longest that one byte can say */

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Span;

typedef struct {
    uint64_t owner;    /* producer or consumer id */
    uint64_t messages;
    size_t size;       /* all of it, arrived or not */
    size_t payload;    /* what of that lies behind the command */
} Frame;

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Reads a varint of at most 9 bytes, so that it fits whatever the last byte is; 0 is "look elsewhere". */
static int read_varint(Span *span, uint64_t *value)
{
    uint64_t read = 0;
    for (int shift = 0; shift < 63 && span->at < span->end; shift += 7) {
        uint8_t byte = *span->at++;
        read |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = read;
            return 1;
        }
    }
    return 0;
}

static int skip_value(Span *span, uint64_t tag)
{
    uint64_t value = 0;
    switch (tag & 7) {
    case VARINT:
        return read_varint(span, &value);
    case FIXED64:
        value = 8;
        break;
    case FIXED32:
        value = 4;
        break;
    case LENGTH_DELIMITED:
        if (!read_varint(span, &value)) return 0;
        break;
    default:
        return 0;
    }
    if (value > (uint64_t)(span->end - span->at)) return 0;
    span->at += value;
    return 1;
}

/* Looks for one number among the fields of a message; the last one wins, as protobuf has it. */
static int find_number(Span span, uint64_t field, uint64_t *value)
{
    while (span.at < span.end) {
        uint64_t tag;
        int is_long = *span.at >= 0x80;
        if (!read_varint(&span, &tag) || (is_long && tag < 0x80)) return 0;
        if (tag == (field << 3 | VARINT)) {
            if (!read_varint(&span, value)) return 0;
        } else if (!skip_value(&span, tag)) {
            return 0;
        }
    }
    return 1;
}

/* The id that a command is about stands first wherever it is usual; leaves the span behind it. */
static int read_owner(Span *command, Frame *frame)
{
    if (command->at == command->end || *command->at != (1 << 3 | VARINT)) return 0;
    command->at++;
    return read_varint(command, &frame->owner);
}

static int read_send(Span command, Frame *frame)
{
    uint64_t again;
    if (!read_owner(&command, frame)) return 0;
    again = frame->owner;
    return find_number(command, 1, &again) && again == frame->owner &&
           find_number(command, NUM_MESSAGES, &frame->messages);
}

/* A consumer id, a message id, and nothing else: so there is no ack_set. */
static int read_delivery(Span command, Frame *frame)
{
    if (!read_owner(&command, frame)) return 0;
    return command.end - command.at >= 2 && command.at[0] == (2 << 3 | LENGTH_DELIMITED) &&
           command.at[1] == command.end - command.at - 2;
}

/* The metadata of a message, once it has arrived and lies inside its frame. */
static int find_metadata(const uint8_t *at, const uint8_t *end, Span *metadata)
{
    if (end - at >= 6 && at[0] == 0x0e && at[1] == 0x02) { /* broker entry */
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

/* Whether a message says nothing about when to deliver it; all of its metadata must be there for that. */
static int is_prompt(const uint8_t *at, const uint8_t *end)
{
    const uint64_t unset = UINT64_MAX; /* more than read_varint() ever reads */
    uint64_t when = unset;
    Span metadata;
    return find_metadata(at, end, &metadata) && find_number(metadata, DELIVER_AT_TIME, &when) && when == unset;
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
    Span fields = {head + COMMAND_HEAD, head + command};
    const uint8_t *arrived = frame->size < (size_t)(end - at) ? at + frame->size : end;
    if (kind == SEND) {
        if (!read_send(fields, frame)) return 0;
        if (prompt_only && !is_prompt(fields.end, arrived)) return 0;
    } else if (kind == SEND_RECEIPT) {
        return !frame->payload && read_owner(&fields, frame);
    } else {
        Span metadata;
        if (kind != MESSAGE || !read_delivery(fields, frame)) return 0;
        if (!find_metadata(fields.end, arrived, &metadata)) return 0;
        if (!find_number(metadata, NUM_MESSAGES_IN_BATCH, &frame->messages)) return 0;
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
    {"end", "where they end; behind the data, if the last one has not arrived in full"},
    {NULL, NULL},
};

static PyStructSequence_Desc run_description = {
    "coordinator.gate._runs.Run",
    "Frames that follow each other: SENDs of one producer, receipts for it, or messages to a consumer.",
    run_fields,
    8,
};

static PyTypeObject *run_type;

static PyObject *new_run(const uint64_t numbers[8])
{
    PyObject *run = PyStructSequence_New(run_type);
    for (int i = 0; run && i < 8; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(numbers[i]);
        if (number) PyStructSequence_SetItem(run, i, number);
        else Py_CLEAR(run);
    }
    return run;
}

static PyObject *find_run(PyObject *const *args, Py_ssize_t count, int prompt_only)
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
    uint64_t owner = 0, frames = 0, messages = 0, size = 0, most = 0, largest = 0;
    Frame frame;
    while (pos < arrived &&
           read_frame(data + pos, data + arrived, kind, prompt_only, (uint32_t)frame_max, &frame)) {
        if (frames && frame.owner != owner) break;
        owner = frame.owner;
        frames++;
        messages += frame.messages;
        size += frame.payload;
        if (frame.messages > most) most = frame.messages;
        if (frame.payload > largest) largest = frame.payload;
        pos += (Py_ssize_t)frame.size;
    }
    if (!frames) Py_RETURN_NONE;
    return new_run((uint64_t[]){kind, owner, frames, messages, size, most, largest, (uint64_t)pos});
}

PyDoc_STRVAR(scan_doc,
"scan(data, pos, frame_max) -> Run, or None where no frame of a usual kind and layout begins");

static PyObject *scan(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return find_run(args, count, 0);
}

PyDoc_STRVAR(scan_prompt_doc,
"scan_prompt(data, pos, frame_max) -> Run, as scan, but SENDs with a time of delivery are no part of one");

static PyObject *scan_prompt(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    return find_run(args, count, 1);
}

static PyMethodDef methods[] = {
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, scan_doc},
    {"scan_prompt", (PyCFunction)(void (*)(void))scan_prompt, METH_FASTCALL, scan_prompt_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "coordinator.gate._runs", "Runs of frames, found in one call.", -1, methods,
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
