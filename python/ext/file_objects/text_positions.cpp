// The position of a text file, where it is the number of bytes before it.
//
// `penstock.files._file_objects.text_position` has the general form, with the decoder's state.

#include "file_objects/text_positions.hpp"

#include "file_objects/binary_buffer.hpp"
#include "file_objects/seeking.hpp"
#include "file_objects/text_piece.hpp"

#include <cstddef>

#include <unistd.h>

namespace penstock::python {

namespace {

bool has_encoder(const TextFileObject* file) noexcept {
    return file->encoder != nullptr && file->encoder != Py_None;
}

/// The length of the first `count` characters in UTF-8, which holds no surrogates.
long long utf_8_size(PyObject* text, Py_ssize_t count) noexcept {
    if (PyUnicode_IS_ASCII(text)) {
        return count;
    }
    const auto kind = static_cast<int>(PyUnicode_KIND(text));
    const void* data = PyUnicode_DATA(text);
    long long size = 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        const Py_UCS4 character = PyUnicode_READ(kind, data, i);
        size += 1 + (character >= 0x80 ? 1 : 0) + (character >= 0x800 ? 1 : 0) +
                (character >= 0x10000 ? 1 : 0);
    }
    return size;
}

/// Whether the bytes of a piece are the characters one after the other, without translation and
/// with nothing from the piece before.
bool is_direct(const TextFileObject* file) noexcept {
    const TextPieceObject* piece = file->piece;
    if (file->direct_decoding == 0 || piece->pending != 0 || !PyLong_CheckExact(piece->flags)) {
        return false;
    }
    int overflow = 0;
    const std::string_view bytes(PyBytes_AS_STRING(piece->data),
                                 static_cast<std::size_t>(PyBytes_GET_SIZE(piece->data)));
    return PyLong_AsLongLongAndOverflow(piece->flags, &overflow) == 0 && overflow == 0 &&
           bytes.find('\r') == std::string_view::npos;
}

AtOnce attempt_tell(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    const TextFileObject* file = text_of(self);
    const BinaryFileObject* binary = self->binary;
    if (binary->fd < 0 || binary->seekable == 0 || binary->base.turn_taken ||
        has_open_position(binary)) {
        return AtOnce::slow;
    }
    long long position = binary->position;
    const TextPieceObject* piece = file->piece;
    if (has_decoder(file) && piece->flags != Py_None) {
        if (!is_direct(file)) {
            return AtOnce::slow;
        }
        const bool utf_8 =
            static_cast<DirectEncoding>(file->direct_decoding) == DirectEncoding::utf_8;
        position -= PyBytes_GET_SIZE(piece->data);
        position += utf_8 ? utf_8_size(piece->text, file->at) : file->at;
    }
    return at_once_of(PyLong_FromLongLong(position), result);
}

/// Lets decoding begin at `position`.
bool begin_decoding(const Ref& decoder, long long position) noexcept {
    // Not the same for `newlines`: only a return to the beginning forgets them.
    const Ref begun(position == 0
                        ? PyObject_CallMethod(decoder.get(), "reset", nullptr)
                        : PyObject_CallMethod(decoder.get(), "setstate", "((yi))", "", 0));
    return static_cast<bool>(begun);
}

/// To the end, or to a position that is a number of bytes.
AtOnce attempt_seek(FileObject* self, CallArguments given, PyObject** result) {
    TextFileObject* file = text_of(self);
    BinaryFileObject* binary = self->binary;
    SeekTarget target = {};
    if (!read_target(given, target) || target.whence == SEEK_CUR || has_encoder(file) ||
        binary->base.turn_taken || (target.whence == SEEK_END && target.offset != 0)) {
        return AtOnce::slow;
    }
    const bool decodes = has_decoder(file);
    if (decodes ? file->direct_decoding == 0 : target.offset != 0 && binary->readable != 0) {
        return AtOnce::slow;
    }
    long long position = 0;
    const AtOnce moved = move_position(binary, target, position);
    if (moved != AtOnce::done) {
        return moved;
    }
    drop_pieces(file);
    if (!decodes || target.whence == SEEK_END) {
        file->saw_feed = 0;
    }
    if (decodes) {
        const Ref decoder = Ref::borrow(file->decoder);
        const bool to_the_end = target.whence == SEEK_END;
        if (!begin_decoding(decoder, to_the_end ? 0 : position) ||
            (!to_the_end && !begin_piece(file))) {
            return AtOnce::failed;
        }
    }
    return at_once_of(PyLong_FromLongLong(position), result);
}

const FileMethod tell_method = {
    .name = "tell",
    .qualified_name = "TextFile.tell",
    .attempt = &attempt_tell,
    .slow = &ModuleState::name_tell_in_turn,
    .arguments = 0,
};

const FileMethod seek_method = {
    .name = "seek",
    .qualified_name = "TextFile.seek",
    .attempt = &attempt_seek,
    .slow = &ModuleState::name_seek_in_turn,
    .arguments = 2,
};

} // namespace

PyObject* call_text_tell(PyObject* self, PyObject* /*unused*/) {
    return make_file_step(file_of(self), tell_method);
}

PyObject* call_text_seek(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* keywords) {
    return call_seek(self, seek_method, arguments, count, keywords);
}

} // namespace penstock::python
