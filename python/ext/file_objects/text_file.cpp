// The type of text files, and what their methods do at once.

#include "awaitable/ready_value.hpp"
#include "file_objects/binary_buffer.hpp"
#include "file_objects/file_classes.hpp"
#include "file_objects/file_types.hpp"
#include "file_objects/file_waits.hpp"
#include "file_objects/text_lines.hpp"
#include "file_objects/text_piece.hpp"
#include "file_objects/text_positions.hpp"

#include <algorithm>
#include <cstddef>

#include <structmember.h>

namespace penstock::python {

namespace {

TextFileObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<TextFileObject*>(object);
}

LineEnd line_end_of(const TextFileObject* file) noexcept {
    return static_cast<LineEnd>(file->line_end);
}

/// Takes the text from the position to `end`; null with an exception set.
PyObject* take_text(TextFileObject* file, Py_ssize_t end) noexcept {
    PyObject* taken = PyUnicode_Substring(file->piece->text, file->at, end);
    if (taken != nullptr) {
        file->at = end;
    }
    return taken;
}

/// Takes the rest of the piece and the beginning of the next one, which becomes the file's.
PyObject* take_over(TextFileObject* file, const Ref& next, Py_ssize_t end) noexcept {
    TextPieceObject* piece = piece_of(next.get());
    const Ref beginning(PyUnicode_Substring(piece->text, 0, end));
    const Py_ssize_t length = PyUnicode_GET_LENGTH(file->piece->text);
    if (!beginning || file->at == length) {
        if (beginning) {
            set_piece(file, next, end);
        }
        return Py_XNewRef(beginning.get());
    }
    const Ref rest(PyUnicode_Substring(file->piece->text, file->at, length));
    PyObject* joined = rest ? PyUnicode_Concat(rest.get(), beginning.get()) : nullptr;
    if (joined != nullptr) {
        set_piece(file, next, end);
    }
    return joined;
}

// ---- attempts
// -------------------------------------------------------------------------------------

/// `ended`: nothing follows what is buffered.
AtOnce read_line(TextFileObject* file, PyObject** result, bool ended = false) noexcept {
    if (!is_readable(file->base.binary)) {
        return AtOnce::slow;
    }
    if (const Py_ssize_t end = line_end_after(file->piece->text, file->at, line_end_of(file))) {
        return at_once_of(take_text(file, end), result);
    }
    // A line end of two characters may be divided between two pieces.
    if (line_end_of(file) == LineEnd::return_feed) {
        return AtOnce::slow;
    }
    Ref next;
    const AtOnce decoded = decode_piece(file, next, ended);
    if (decoded != AtOnce::done) {
        return decoded;
    }
    if (is_end(piece_of(next.get()))) {
        PyObject* rest = take_text(file, PyUnicode_GET_LENGTH(file->piece->text));
        drop_pieces(file);
        return at_once_of(rest, result);
    }
    file->has_decoded = 1;
    if (const Py_ssize_t end = line_end_after(piece_of(next.get())->text, 0, line_end_of(file))) {
        return at_once_of(take_over(file, next, end), result);
    }
    return append_piece(file, next) ? AtOnce::slow : AtOnce::failed;
}

AtOnce attempt_readline(FileObject* self, CallArguments given, PyObject** result) {
    return size_argument(given.first) == -1 ? read_line(text_of(self), result) : AtOnce::slow;
}

AtOnce attempt_next(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    const AtOnce outcome = read_line(text_of(self), result);
    return outcome == AtOnce::done ? end_iteration_at_nothing(result) : outcome;
}

/// Larger texts are decoded in slices, so that other tasks may run.
constexpr long long largest_direct_text = 128 << 10;

PyObject* decode_directly(const TextFileObject* file, PyObject* bytes) noexcept {
    const char* data = PyBytes_AS_STRING(bytes);
    const Py_ssize_t size = PyBytes_GET_SIZE(bytes);
    switch (static_cast<DirectEncoding>(file->direct_decoding)) {
    case DirectEncoding::ascii:
        return PyUnicode_DecodeASCII(data, size, nullptr);
    case DirectEncoding::latin_1:
        return PyUnicode_DecodeLatin1(data, size, nullptr);
    default:
        return PyUnicode_DecodeUTF8(data, size, nullptr);
    }
}

/// Reads the rest of a file from which no text was read before, without a decoder. Text with
/// carriage returns, and what cannot be decoded, is left to one.
AtOnce read_all(TextFileObject* file, PyObject** result) noexcept {
    BinaryFileObject* binary = file->base.binary;
    if (file->direct_decoding == 0 || has_decoder(file) || binary->base.turn_taken ||
        as_object(file->piece) != file->base.state->no_text) {
        return AtOnce::slow;
    }
    const long long position = binary->position;
    PyObject* read = nullptr;
    const AtOnce outcome = read_rest_from_cache(binary, largest_direct_text, &read);
    if (outcome != AtOnce::done) {
        return outcome;
    }
    ask_next_time(&file->base);
    const Ref data(read);
    const std::string_view bytes(PyBytes_AS_STRING(read),
                                 static_cast<std::size_t>(PyBytes_GET_SIZE(read)));
    *result = bytes.find('\r') == std::string_view::npos ? decode_directly(file, read) : nullptr;
    if (*result == nullptr) {
        PyErr_Clear();
        binary->position = position;
        return AtOnce::slow;
    }
    if (bytes.find('\n') != std::string_view::npos) {
        file->saw_feed = 1;
    }
    return AtOnce::done;
}

/// `ended`: nothing follows what is buffered.
AtOnce read_characters(TextFileObject* file, Py_ssize_t size, PyObject** result,
                       bool ended) noexcept {
    const Py_ssize_t there = PyUnicode_GET_LENGTH(file->piece->text) - file->at;
    if (size <= there) {
        return at_once_of(take_text(file, file->at + size), result);
    }
    Ref next;
    const AtOnce decoded = decode_piece(file, next, ended);
    if (decoded != AtOnce::done) {
        return decoded;
    }
    file->has_decoded = 1;
    if (is_end(piece_of(next.get()))) {
        PyObject* rest = take_text(file, file->at + there);
        if (rest != nullptr) {
            set_piece(file, next, 0);
        }
        return at_once_of(rest, result);
    }
    if (size - there <= PyUnicode_GET_LENGTH(piece_of(next.get())->text)) {
        return at_once_of(take_over(file, next, size - there), result);
    }
    return append_piece(file, next) ? AtOnce::slow : AtOnce::failed;
}

AtOnce attempt_read(FileObject* self, CallArguments given, PyObject** result) {
    const Py_ssize_t size = size_argument(given.first);
    if (size == -2 || !is_readable(self->binary)) {
        return AtOnce::slow;
    }
    return size < 0 ? read_all(text_of(self), result)
                    : read_characters(text_of(self), size, result, false);
}

/// The bytes of a text. Null without an exception if an encoder must make them, or find the error.
Ref encode_directly(const TextFileObject* file, PyObject* text) noexcept {
    const auto encoding = static_cast<DirectEncoding>(file->direct_encoding);
    Ref bytes;
    if (encoding == DirectEncoding::none) {
        return bytes;
    }
    if (PyUnicode_IS_ASCII(text)) {
        bytes = Ref(PyBytes_FromStringAndSize(static_cast<const char*>(PyUnicode_DATA(text)),
                                              PyUnicode_GET_LENGTH(text)));
    } else if (encoding == DirectEncoding::utf_8) {
        bytes = Ref(PyUnicode_AsUTF8String(text));
    } else if (encoding == DirectEncoding::latin_1) {
        bytes = Ref(PyUnicode_AsLatin1String(text));
    }
    if (!bytes) {
        PyErr_Clear();
    }
    return bytes;
}

/// By the names that programs use most; by others, an encoder and a decoder do the work.
DirectEncoding direct_encoding_of(PyObject* name) noexcept {
    for (const auto& [text, encoding] :
         {std::pair{"utf-8", DirectEncoding::utf_8}, std::pair{"UTF-8", DirectEncoding::utf_8},
          std::pair{"utf8", DirectEncoding::utf_8}, std::pair{"ascii", DirectEncoding::ascii},
          std::pair{"latin-1", DirectEncoding::latin_1}}) {
        if (PyUnicode_CompareWithASCIIString(name, text) == 0) {
            return encoding;
        }
    }
    return DirectEncoding::none;
}

/// Whether a text can be written without a coroutine, by its type and the state of the file.
bool writes_directly(const TextFileObject* file, PyObject* text) noexcept {
    const BinaryFileObject* binary = file->base.binary;
    return PyUnicode_CheckExact(text) && file->line_buffering == 0 && !has_decoder(file) &&
           binary->fd >= 0 && binary->writable != 0 &&
           PyUnicode_GET_LENGTH(text) < binary->buffer_size;
}

AtOnce attempt_write(FileObject* self, CallArguments given, PyObject** result) {
    TextFileObject* file = text_of(self);
    BinaryFileObject* binary = self->binary;
    if (!writes_directly(file, given.first) || binary->base.turn_taken) {
        return AtOnce::slow;
    }
    const Ref bytes = encode_directly(file, given.first);
    if (!bytes) {
        return AtOnce::slow;
    }
    const AtOnce outcome = write_at_once(binary, bytes.get());
    if (outcome != AtOnce::done) {
        return outcome;
    }
    drop_pieces(file);
    file->saw_feed = 0;
    return at_once_of(PyLong_FromSsize_t(PyUnicode_GET_LENGTH(given.first)), result);
}

// ---- what calls wait for
// --------------------------------------------------------------------------

/// Longer text that a pipe brings in parts is left to the coroutine methods, which keep them apart.
constexpr Py_ssize_t longest_joined = 64 << 10;

/// Whether a peek has found the end. A terminal must not be asked twice.
bool is_nothing(PyObject* answer) noexcept {
    return PyBytes_CheckExact(answer) && PyBytes_GET_SIZE(answer) == 0;
}

AtOnce take_characters(FileObject* self, CallArguments given, PyObject* answer, long long /*asked*/,
                       PyObject** result) {
    return is_readable(self->binary) ? read_characters(text_of(self), size_argument(given.first),
                                                       result, is_nothing(answer))
                                     : AtOnce::slow;
}

AtOnce take_text_line(FileObject* self, CallArguments /*unused*/, PyObject* answer,
                      long long /*asked*/, PyObject** result) {
    return read_line(text_of(self), result, is_nothing(answer));
}

AtOnce take_next_text_line(FileObject* self, CallArguments given, PyObject* answer, long long asked,
                           PyObject** result) {
    const AtOnce outcome = take_text_line(self, given, answer, asked, result);
    return outcome == AtOnce::done ? end_iteration_at_nothing(result) : outcome;
}

/// The next bytes, which the binary file has then read ahead.
FileWait wait_for_bytes(const TextFileObject* file, decltype(FileWait::take) take) noexcept {
    BinaryFileObject* binary = file->base.binary;
    const bool in_parts = binary->seekable == 0;
    const Py_ssize_t there = PyUnicode_GET_LENGTH(file->piece->text) - file->at;
    if (!has_decoder(file) || !is_readable(binary) || !can_wait(binary) ||
        !buffered(binary).empty() || (in_parts && there > longest_joined)) {
        return {};
    }
    return {.awaitable = make_peek(binary), .take = take, .in_parts = in_parts};
}

FileWait wait_for_text(FileObject* self, CallArguments given) {
    const Py_ssize_t size = size_argument(given.first);
    return size >= 0 && size <= longest_joined ? wait_for_bytes(text_of(self), &take_characters)
                                               : FileWait{};
}

/// Not for line ends of two characters, which the coroutine methods find.
FileWait wait_for_line_of(const TextFileObject* file, CallArguments given,
                          decltype(FileWait::take) take) noexcept {
    const bool found_here =
        size_argument(given.first) == -1 && line_end_of(file) != LineEnd::return_feed;
    return found_here ? wait_for_bytes(file, take) : FileWait{};
}

FileWait wait_for_text_line(FileObject* self, CallArguments given) {
    return wait_for_line_of(text_of(self), given, &take_text_line);
}

FileWait wait_for_next_text_line(FileObject* self, CallArguments given) {
    return wait_for_line_of(text_of(self), given, &take_next_text_line);
}

/// Room in the buffer of the binary file.
FileWait wait_for_room(FileObject* self, CallArguments given) {
    BinaryFileObject* binary = self->binary;
    if (!writes_directly(text_of(self), given.first) || binary->unwritten_size == 0 ||
        !can_wait(binary)) {
        return {};
    }
    return {.awaitable = make_flush(binary), .take = &attempt_again};
}

// ---- methods
// --------------------------------------------------------------------------------------

const FileMethod read_method = {
    .name = "read",
    .qualified_name = "TextFile.read",
    .attempt = &attempt_read,
    .slow = &ModuleState::name_read_in_turn,
    .wait = &wait_for_text,
};

const FileMethod readline_method = {
    .name = "readline",
    .qualified_name = "TextFile.readline",
    .attempt = &attempt_readline,
    .slow = &ModuleState::name_readline_in_turn,
    .wait = &wait_for_text_line,
};

const FileMethod next_method = {
    .name = "__anext__",
    .qualified_name = "TextFile.__anext__",
    .attempt = &attempt_next,
    .slow = &ModuleState::name_next_line_in_turn,
    .arguments = 0,
    .wait = &wait_for_next_text_line,
};

const FileMethod write_method = {
    .name = "write",
    .qualified_name = "TextFile.write",
    .attempt = &attempt_write,
    .slow = &ModuleState::name_write_in_turn,
    .wait = &wait_for_room,
};

template <const FileMethod& method>
PyObject* call_with_size(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* keywords) {
    return call_file_method(file_of(self), method, "size", arguments, count, keywords);
}

PyObject* call_write(PyObject* self, PyObject* text) {
    return make_file_step(file_of(self), write_method, {text});
}

/// A buffered line needs no coroutine, and not the turn, if nobody has it.
PyObject* next_line(PyObject* self) {
    TextFileObject* file = self_of(self);
    bool yields = false;
    if (!file->base.turn_taken && file->base.binary->fd >= 0) {
        if (const Py_ssize_t end = line_end_after(file->piece->text, file->at, line_end_of(file))) {
            yields = must_yield(&file->base);
            if (!yields) {
                return make_ready_value(file->base.state, take_text(file, end));
            }
        }
    }
    return make_file_step(&file->base, next_method, {}, yields);
}

// ---- the object
// -----------------------------------------------------------------------------------

/// An object over a binary file; null with an exception set.
PyObject* make_over(PyTypeObject* type, ModuleState* state, PyObject* binary) noexcept {
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) {
        TextFileObject* file = self_of(self);
        file->base.state = state;
        file->base.binary = reinterpret_cast<BinaryFileObject*>(Py_NewRef(binary));
        file->piece = piece_of(Py_NewRef(state->no_text));
    }
    return self;
}

PyObject* text_new(PyTypeObject* type, PyObject* arguments, PyObject* /*keywords*/) {
    ModuleState* state = state_of(type);
    PyObject* binary = PyTuple_GET_SIZE(arguments) > 0 ? PyTuple_GET_ITEM(arguments, 0) : nullptr;
    if (binary == nullptr || PyObject_TypeCheck(binary, state->binary_file_type) == 0) {
        PyErr_SetString(PyExc_TypeError, "a text file needs a binary file as its first argument");
        return nullptr;
    }
    return make_over(type, state, binary);
}

PyObject* get_binary(PyObject* self, void* /*unused*/) {
    return Py_NewRef(as_object(self_of(self)->base.binary));
}

PyObject* get_piece(PyObject* self, void* /*unused*/) {
    return Py_NewRef(as_object(self_of(self)->piece));
}

int set_piece_attribute(PyObject* self, PyObject* value, void* /*unused*/) {
    TextFileObject* file = self_of(self);
    if (value == nullptr || !Py_IS_TYPE(value, file->base.state->text_piece_type)) {
        PyErr_SetString(PyExc_TypeError, "the piece must be a TextPiece");
        return -1;
    }
    Py_XSETREF(file->piece, piece_of(Py_NewRef(value)));
    file->at = std::min(file->at, PyUnicode_GET_LENGTH(file->piece->text));
    return 0;
}

PyObject* get_at(PyObject* self, void* /*unused*/) {
    return PyLong_FromSsize_t(self_of(self)->at);
}

int set_at(PyObject* self, PyObject* value, void* /*unused*/) {
    TextFileObject* file = self_of(self);
    const Py_ssize_t at = value != nullptr ? PyLong_AsSsize_t(value) : -1;
    if (at == -1 && PyErr_Occurred() != nullptr) {
        return -1;
    }
    if (at < 0 || at > PyUnicode_GET_LENGTH(file->piece->text)) {
        PyErr_Format(PyExc_ValueError, "%zd is not in the piece", at);
        return -1;
    }
    file->at = at;
    return 0;
}

int text_traverse(PyObject* self, visitproc visit, void* arg) {
    const TextFileObject* file = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(file->base.binary);
    Py_VISIT(file->base.waiting);
    Py_VISIT(file->piece);
    Py_VISIT(file->decoder);
    Py_VISIT(file->encoder);
    return 0;
}

/// Keeps the binary file and the piece, which the methods use without asking. The cycle that the
/// collector breaks is through the others.
int text_clear(PyObject* self) {
    TextFileObject* file = self_of(self);
    Py_CLEAR(file->base.waiting);
    Py_CLEAR(file->decoder);
    Py_CLEAR(file->encoder);
    return 0;
}

void text_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    TextFileObject* file = self_of(self);
    if (file->base.weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    text_clear(self);
    Py_CLEAR(file->piece);
    Py_CLEAR(file->base.binary);
    Py_CLEAR(file->mode);
    Py_CLEAR(file->encoding);
    Py_CLEAR(file->errors);
    Py_CLEAR(file->newline);
    Py_CLEAR(file->line_end_text);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* close_text(PyObject* self, PyObject* /*unused*/) {
    return PyObject_CallMethodNoArgs(as_object(self_of(self)->base.binary),
                                     self_of(self)->base.state->name_close);
}

PyMethodDef text_methods[] = {
    {"close", &close_text, METH_NOARGS,
     "close($self)\n--\n\n"
     "Flush and close; waits for the operations in flight. Does nothing the second time.\n\n"
     "The descriptor is closed in any case. If flushing fails, the error is raised. If the await\n"
     "is cancelled, the buffered data are still written."},
    {"read", as_function(&call_with_size<read_method>), METH_FASTCALL | METH_KEYWORDS,
     "read($self, size=-1)\n--\n\n"
     "Read ``size`` characters, or the rest of the file.\n\n"
     "The result is shorter only at the end of the file, and empty there."},
    {"readline", as_function(&call_with_size<readline_method>), METH_FASTCALL | METH_KEYWORDS,
     "readline($self, size=-1)\n--\n\n"
     "Read a line with its end, at most ``size`` long; empty at the end of the file.\n\n"
     "Lines that were read ahead are returned without a system call."},
    {"write", &call_write, METH_O,
     "write($self, text, /)\n--\n\n"
     "Write all of ``text``; returns its length.\n\n"
     "Buffered data are in the file after ``flush`` or ``close``."},
    {"tell", &call_text_tell, METH_NOARGS,
     "tell($self)\n--\n\nReturn the position, as a number for ``seek`` only."},
    {"seek", as_function(&call_text_seek), METH_FASTCALL | METH_KEYWORDS,
     "seek($self, offset, whence=0)\n--\n\n"
     "Move the position: to the end, or to one that ``tell`` has returned; returns it."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef text_attributes[] = {
    {"_binary", &get_binary, nullptr, nullptr, nullptr},
    {"_piece", &get_piece, &set_piece_attribute, nullptr, nullptr},
    {"_at", &get_at, &set_at, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef text_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FileObject, weak_references), READONLY, nullptr},
    {"_turn_taken", T_BOOL, offsetof(FileObject, turn_taken), 0, nullptr},
    {"_turn_waiting", T_OBJECT, offsetof(FileObject, waiting), 0, nullptr},
    {"_decoder", T_OBJECT, offsetof(TextFileObject, decoder), 0, nullptr},
    {"_encoder", T_OBJECT, offsetof(TextFileObject, encoder), 0, nullptr},
    {"_line_end_kind", T_INT, offsetof(TextFileObject, line_end), 0, nullptr},
    {"_direct_encoding", T_INT, offsetof(TextFileObject, direct_encoding), 0, nullptr},
    {"_direct_decoding", T_INT, offsetof(TextFileObject, direct_decoding), 0, nullptr},
    {"_mode", T_OBJECT, offsetof(TextFileObject, mode), 0, nullptr},
    {"_encoding", T_OBJECT, offsetof(TextFileObject, encoding), 0, nullptr},
    {"_errors", T_OBJECT, offsetof(TextFileObject, errors), 0, nullptr},
    {"_newline", T_OBJECT, offsetof(TextFileObject, newline), 0, nullptr},
    {"_line_end", T_OBJECT, offsetof(TextFileObject, line_end_text), 0, nullptr},
    {"_saw_feed", T_BOOL, offsetof(TextFileObject, saw_feed), 0, nullptr},
    {"_write_through", T_BOOL, offsetof(TextFileObject, write_through), 0, nullptr},
    {"_has_decoded", T_BOOL, offsetof(TextFileObject, has_decoded), 0, nullptr},
    {"_line_buffering", T_BOOL, offsetof(TextFileObject, line_buffering), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot text_slots[] = {
    {Py_tp_doc, const_cast<char*>("The native part of penstock.files.TextFile.")},
    {Py_tp_new, reinterpret_cast<void*>(&text_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&text_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&text_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&text_clear)},
    {Py_tp_methods, text_methods},
    {Py_tp_members, text_members},
    {Py_tp_getset, text_attributes},
    {Py_am_anext, reinterpret_cast<void*>(&next_line)},
    {0, nullptr},
};

PyType_Spec text_spec = {
    .name = "penstock._core.TextFileCore",
    .basicsize = sizeof(TextFileObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = text_slots,
};

} // namespace

PyObject* make_text_file(ModuleState* state, PyObject* binary, PyObject* mode,
                         PyObject* encoding) noexcept {
    PyObject* self =
        make_over(reinterpret_cast<PyTypeObject*>(state->text_file_class), state, binary);
    if (self == nullptr) {
        return nullptr;
    }
    TextFileObject* file = self_of(self);
    file->mode = Py_NewRef(mode);
    file->encoding = Py_NewRef(encoding);
    file->errors = Py_NewRef(state->name_strict);
    file->line_end_text = Py_NewRef(state->name_line_feed);
    file->direct_decoding = static_cast<int>(direct_encoding_of(encoding));
    file->direct_encoding = file->direct_decoding;
    return self;
}

bool add_text_file_type(PyObject* module, ModuleState* state) {
    state->text_file_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &text_spec, nullptr));
    return state->text_file_type != nullptr && PyModule_AddType(module, state->text_file_type) == 0;
}

} // namespace penstock::python
