// Pieces of decoded text.

#include "file_objects/text_piece.hpp"

#include "file_objects/binary_buffer.hpp"
#include "file_objects/file_types.hpp"

#include <algorithm>
#include <cstddef>

#include <structmember.h>

namespace penstock::python {

namespace {

/// Bytes that are decoded at once, as in io.TextIOWrapper.
constexpr std::size_t chunk = 8192;

/// A new piece; null with an exception set. The texts and bytes are taken over.
Ref make_piece(PyTypeObject* type, Ref text, Ref flags, Ref data, Py_ssize_t pending) noexcept {
    auto* piece = PyObject_New(TextPieceObject, type);
    if (piece != nullptr) {
        piece->text = text.release();
        piece->flags = flags.release();
        piece->data = data.release();
        piece->pending = pending;
    }
    return Ref(as_object(piece));
}

PyObject* piece_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"text", "flags", "data", "pending", nullptr};
    PyObject* text = nullptr;
    PyObject* flags = Py_None;
    PyObject* data = nullptr;
    Py_ssize_t pending = 0;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "U|OSn:TextPiece",
                                    const_cast<char**>(names), &text, &flags, &data,
                                    &pending) == 0) {
        return nullptr;
    }
    Ref bytes(data != nullptr ? Py_NewRef(data) : PyBytes_FromStringAndSize(nullptr, 0));
    return bytes
               ? make_piece(type, Ref::borrow(text), Ref::borrow(flags), std::move(bytes), pending)
                     .release()
               : nullptr;
}

void piece_dealloc(PyObject* self) {
    TextPieceObject* piece = piece_of(self);
    Py_XDECREF(piece->text);
    Py_XDECREF(piece->flags);
    Py_XDECREF(piece->data);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyMemberDef piece_members[] = {
    {"text", T_OBJECT, offsetof(TextPieceObject, text), READONLY, nullptr},
    {"flags", T_OBJECT, offsetof(TextPieceObject, flags), READONLY, nullptr},
    {"data", T_OBJECT, offsetof(TextPieceObject, data), READONLY, nullptr},
    {"pending", T_PYSSIZET, offsetof(TextPieceObject, pending), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot piece_slots[] = {
    {Py_tp_doc, const_cast<char*>("TextPiece(text, flags=None, data=b'', pending=0)\n--\n\n"
                                  "Decoded text, its bytes, and the decoder's state before them.")},
    {Py_tp_new, reinterpret_cast<void*>(&piece_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&piece_dealloc)},
    {Py_tp_members, piece_members},
    {0, nullptr},
};

/// Not tracked by the garbage collector: it holds only strings, bytes and a number.
PyType_Spec piece_spec = {
    .name = "penstock._core.TextPiece",
    .basicsize = sizeof(TextPieceObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = piece_slots,
};

/// The decoder's state: the bytes that it holds, and its flags. False if it is not usable here.
struct DecoderState {
    Ref pending;
    Ref flags;
};

bool read_state(PyObject* decoder, PyObject* name, DecoderState& state) noexcept {
    const Ref pair(PyObject_CallMethodNoArgs(decoder, name));
    if (!pair) {
        return false;
    }
    if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2 ||
        !PyBytes_CheckExact(PyTuple_GET_ITEM(pair.get(), 0)) ||
        !PyLong_CheckExact(PyTuple_GET_ITEM(pair.get(), 1))) {
        PyErr_SetString(PyExc_TypeError, "the decoder's state must be bytes and an integer");
        return false;
    }
    state.pending = Ref::borrow(PyTuple_GET_ITEM(pair.get(), 0));
    state.flags = Ref::borrow(PyTuple_GET_ITEM(pair.get(), 1));
    return true;
}

/// The first bytes behind those that the decoder holds. Null with an exception set.
Ref joined(const Ref& first, const Ref& second, Py_ssize_t from) noexcept {
    if (from == 0 && PyBytes_GET_SIZE(first.get()) == 0) {
        return Ref::borrow(second.get());
    }
    PyObject* whole = Py_NewRef(first.get());
    const Ref rest(PyBytes_FromStringAndSize(PyBytes_AS_STRING(second.get()) + from,
                                             PyBytes_GET_SIZE(second.get()) - from));
    PyBytes_Concat(&whole, rest.get());
    return Ref(whole);
}

} // namespace

void drop_pieces(TextFileObject* file) noexcept {
    set_piece(file, Ref::borrow(file->base.state->no_text), 0);
    file->has_decoded = 0;
}

bool begin_piece(TextFileObject* file) noexcept {
    ModuleState* module = file->base.state;
    const TextPieceObject* none = piece_of(module->no_text);
    const Ref piece = make_piece(module->text_piece_type, Ref::borrow(none->text),
                                 Ref(PyLong_FromLong(0)), Ref::borrow(none->data), 0);
    if (!piece) {
        return false;
    }
    set_piece(file, piece, 0);
    return true;
}

AtOnce decode_piece(TextFileObject* file, Ref& next, bool ended) noexcept {
    ModuleState* module = file->base.state;
    BinaryFileObject* binary = file->base.binary;
    if (!has_decoder(file) || binary->base.turn_taken || !is_readable(binary) ||
        (buffered(binary).empty() && !ended && !fill_from_cache(binary, 0))) {
        return AtOnce::slow;
    }
    ask_next_time(&file->base);
    const Ref decoder = Ref::borrow(file->decoder);
    DecoderState state;
    if (!read_state(decoder.get(), module->name_getstate, state)) {
        return AtOnce::failed;
    }
    // Decoders may be Python code: the buffer is looked at after the call.
    const std::string_view available = buffered(binary);
    const Ref data(take_buffered(binary, available.substr(0, chunk)));
    if (!data) {
        return AtOnce::failed;
    }
    const bool at_end = PyBytes_GET_SIZE(data.get()) == 0;
    Ref text(PyObject_CallMethodObjArgs(decoder.get(), module->name_decode, data.get(),
                                        at_end ? Py_True : Py_False, nullptr));
    if (!text) {
        return AtOnce::failed;
    }
    if (!PyUnicode_Check(text.get())) {
        PyErr_Format(PyExc_TypeError, "decoder should return a string result, not '%s'",
                     Py_TYPE(text.get())->tp_name);
        return AtOnce::failed;
    }
    Ref bytes = joined(state.pending, data, 0);
    if (!bytes) {
        return AtOnce::failed;
    }
    next = make_piece(module->text_piece_type, std::move(text), std::move(state.flags),
                      std::move(bytes), PyBytes_GET_SIZE(state.pending.get()));
    return next ? AtOnce::done : AtOnce::failed;
}

bool append_piece(TextFileObject* file, const Ref& next) noexcept {
    TextPieceObject* first = file->piece;
    const TextPieceObject* second = piece_of(next.get());
    if (file->at == PyUnicode_GET_LENGTH(first->text)) {
        set_piece(file, next, 0);
        return true;
    }
    Ref text(PyUnicode_Concat(first->text, second->text));
    const bool known = first->flags != Py_None;
    Ref data = joined(Ref::borrow(first->data), Ref::borrow(second->data), second->pending);
    if (!text || !data) {
        return false;
    }
    const Ref whole = make_piece(file->base.state->text_piece_type, std::move(text),
                                 Ref::borrow(known ? first->flags : second->flags),
                                 known ? std::move(data) : Ref::borrow(second->data),
                                 known ? first->pending : second->pending);
    if (!whole) {
        return false;
    }
    set_piece(file, whole, file->at);
    return true;
}

bool add_text_piece_type(PyObject* module, ModuleState* state) {
    state->text_piece_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &piece_spec, nullptr));
    if (state->text_piece_type == nullptr ||
        PyModule_AddType(module, state->text_piece_type) != 0) {
        return false;
    }
    const Ref arguments(Py_BuildValue("(s)", ""));
    state->no_text = arguments
                         ? PyObject_CallObject(as_object(state->text_piece_type), arguments.get())
                         : nullptr;
    return state->no_text != nullptr &&
           PyModule_AddObjectRef(module, "NO_TEXT", state->no_text) == 0;
}

} // namespace penstock::python
