#pragma once

#include "file_objects/file_step.hpp"

namespace penstock::python {

inline TextPieceObject* piece_of(PyObject* object) noexcept {
    return reinterpret_cast<TextPieceObject*>(object);
}

inline bool has_decoder(const TextFileObject* file) noexcept {
    return file->decoder != nullptr && file->decoder != Py_None;
}

/// Makes `next` the piece of the file, and `at` the position in it.
inline void set_piece(TextFileObject* file, const Ref& next, Py_ssize_t at) noexcept {
    Ref before(as_object(std::exchange(file->piece, piece_of(Py_NewRef(next.get())))));
    file->at = at;
}

/// Drops the text that was read ahead.
void drop_pieces(TextFileObject* file) noexcept;

/// Makes an empty piece the file's, whose position is known: that of the bytes. False with an
/// exception set.
bool begin_piece(TextFileObject* file) noexcept;

/// Whether a piece was decoded at the end of the file, from nothing.
inline bool is_end(const TextPieceObject* piece) noexcept {
    return PyUnicode_GET_LENGTH(piece->text) == 0 &&
           PyBytes_GET_SIZE(piece->data) == piece->pending;
}

/// Decodes the next bytes, which are in memory or in the page cache. See `is_end` for the end of
/// the file. `ended`: nothing follows them.
AtOnce decode_piece(TextFileObject* file, Ref& next, bool ended) noexcept;

/// Joins the file's piece, from the position on needed, and the next one. False with an exception
/// set.
bool append_piece(TextFileObject* file, const Ref& next) noexcept;

} // namespace penstock::python
