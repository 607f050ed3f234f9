#pragma once

#include "asgi/http_request.hpp"
#include "asgi/known_fields.hpp"

namespace penstock::python {

/// Appends the fields of an application to the head of its response. `headers` is null without any.
/// False with an exception set, and the head is then not to be used. Throws `std::bad_alloc`.
bool add_fields(HttpServerObject* server, codec::ByteBuffer& head, int status, PyObject* headers,
                ResponseFacts& facts);

} // namespace penstock::python
