#pragma once

#include "files/file_engine.hpp"

#include <cstdint>

namespace penstock::python {

struct BinaryFileObject;

/// The common beginning of binary and text files.
///
/// The types of this folder are the bases of `penstock.files.BinaryFile` and `TextFile`. They hold
/// the state, and perform what is possible at once: what is in memory or in the page cache. All
/// else is done by coroutines of the Python classes, which read and write the same state.
///
/// **Turns**: one call at a time uses a file. A call that finds the turn taken waits in the order
/// of the calls (`penstock.files._file_objects.turns`).
struct FileObject {
    PyObject ob_base;
    ModuleState* state;
    BinaryFileObject* binary; ///< itself, or the file below a text file, which owns a reference
    PyObject* weak_references;
    PyObject* waiting; ///< owned; a queue of those who wait for the turn, or null
    bool turn_taken;
    unsigned char unchecked_calls; ///< since the clock was asked, see `may_continue`
};

/// Calls that complete in memory between two questions for the time.
inline constexpr unsigned char calls_between_checks = 32;

/// Lets the file's next call ask for the time: this one has made a system call.
inline void ask_next_time(FileObject* file) noexcept {
    file->unchecked_calls = calls_between_checks;
}

/// A file of bytes. `unwritten` and `ahead` are never both filled.
struct BinaryFileObject {
    FileObject base;
    PyObject* backend;        ///< owned, as all objects that follow
    FileEngineObject* engine; ///< `backend`, borrowed; null where that is another object
    PyObject* name;
    PyObject* mode;
    PyObject* current;   ///< the operation that the turn's call awaits, or null
    PyObject* ahead;     ///< bytes that were read ahead, from `ahead_at` on
    PyObject* unwritten; ///< a list of bytes to be written at `unwritten_at`
    long long position;
    long long ahead_at;
    long long next_read_ahead;
    long long unwritten_at;
    long long unwritten_size;
    long long buffer_size; ///< 0: unbuffered
    long long alignment;   ///< 1 except with O_DIRECT
    long long known_size;  ///< of a regular file when it was opened; only a hint
    int fd;                ///< negative once closed
    char readable;         ///< char: as the descriptors of members expect
    char writable;
    char appending;
    char owns_fd;
    char regular;
    char seekable;
    char cached; ///< written through the page cache
    char local;  ///< known to be of a file system that asks no server
    char plain;  ///< seekable, without alignment
    char writing_out;
};

/// Where lines end in decoded text.
enum class LineEnd : unsigned char {
    feed,        ///< "\n", even after translation
    universal,   ///< "\n", "\r" and "\r\n", each as it is
    carriage,    ///< "\r"
    return_feed, ///< "\r\n"
};

/// How text becomes bytes without an encoder's help.
enum class DirectEncoding : unsigned char { none, ascii, latin_1, utf_8 };

/// Decoded text, and what `tell` needs to find a position in it.
struct TextPieceObject {
    PyObject ob_base;
    PyObject* text;     ///< owned, as all that follow
    PyObject* flags;    ///< of the decoder before the piece; None: its position is not known
    PyObject* data;     ///< the bytes, which begin with what the decoder held
    Py_ssize_t pending; ///< how many bytes it held
};

/// A file of text over a file of bytes.
struct TextFileObject {
    FileObject base;
    TextPieceObject* piece; ///< owned; the text that was read ahead
    PyObject* decoder;      ///< owned, or null
    PyObject* encoder;      ///< owned, or null
    PyObject* mode;         ///< owned, as the next four; what the program asked for
    PyObject* encoding;
    PyObject* errors;
    PyObject* newline;
    PyObject* line_end_text; ///< what a line feed is written as
    Py_ssize_t at;           ///< the position in the piece
    int line_end;            ///< a `LineEnd`
    int direct_encoding;     ///< a `DirectEncoding`
    int direct_decoding;     ///< the same, for text without carriage returns
    char saw_feed;           ///< text with a line feed was decoded without a decoder
    char write_through;
    char has_decoded; ///< since the last seek or write
    char line_buffering;
};

inline FileObject* file_of(PyObject* object) noexcept {
    return reinterpret_cast<FileObject*>(object);
}

inline BinaryFileObject* binary_of(FileObject* file) noexcept {
    return reinterpret_cast<BinaryFileObject*>(file);
}

inline TextFileObject* text_of(FileObject* file) noexcept {
    return reinterpret_cast<TextFileObject*>(file);
}

/// Passes the turn on. It may call Python code; a raised exception stays raised.
void give_up_turn(FileObject* file) noexcept;

} // namespace penstock::python
