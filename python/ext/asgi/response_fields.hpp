#pragma once

#include "asgi/http_request.hpp"
#include "asgi/known_fields.hpp"

namespace penstock::python {

/// The fields of an application as a list or tuple of lists or tuples of two: `headers` itself if
/// it is that, else what its iterators give. All code of the program that stands behind them runs
/// here, before the response begins. Null with an exception set.
Ref plain_fields(PyObject* headers) noexcept;

/// Appends the fields of an application to the head of its response. `headers` is what
/// `plain_fields` has returned, or null without any. No code of the program runs, unless an error
/// is set. False with an exception set, and the head is then not to be used. Throws
/// `std::bad_alloc`.
bool add_fields(HttpServerObject* server, codec::ByteBuffer& head, int status, PyObject* headers,
                ResponseFacts& facts);

} // namespace penstock::python
