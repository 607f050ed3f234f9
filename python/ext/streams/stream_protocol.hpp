#pragma once

#include "streams/stream_reader.hpp"

namespace penstock::python {

/// The native base of `penstock.loop._streams.StreamProtocol`: its steps for every read and drain.
struct StreamProtocolObject {
    PyObject ob_base;
    StreamReaderObject* reader; ///< owned
    PyObject* transport;        ///< set by connection_made, null after connection_lost
    bool paused;                ///< between pause_writing and resume_writing
    bool lost;                  ///< connection_lost was called
};

/// Whether a transport of any kind is closing. True with an exception set when asking it fails.
bool is_closing(PyObject* transport, const ModuleState* state) noexcept;

/// The reader that a transport may feed directly, when `protocol` is a native stream's; else null.
StreamReaderObject* reader_to_feed(const ModuleState* state, PyObject* protocol) noexcept;

} // namespace penstock::python
