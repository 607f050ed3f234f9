#pragma once

#include "asgi/http_request.hpp"

#include <cstddef>

namespace penstock::python {

// Steps of a response, which http_send.cpp and http_extensions.cpp share.

/// For a message that is about to change the response, after all of it was read: a flag, a number,
/// a buffer or an iterable in it may be of the program's own class, whose code may have lost the
/// connection or completed the response. False with an exception set if that is so.
bool check_open(HttpRequestObject* request) noexcept;

/// Decides how the end of the body is marked, before the head is sent: `size` is that of the part
/// that is sent first, and `more` whether others follow. Throws std::bad_alloc.
void decide_framing(HttpRequestObject* request, std::size_t size, bool more);

/// The fields that end a head. Throws std::bad_alloc.
void end_head(HttpRequestObject* request);

/// Throws std::bad_alloc.
void append_output(HttpRequestObject* request, std::string_view text);

/// Writes what has gathered. False with an exception set.
bool write_output(HttpRequestObject* request) noexcept;

/// The response is complete. False with an exception set.
bool complete(HttpRequestObject* request) noexcept;

/// The message http.response.early_hint. Null with an exception set. Throws std::bad_alloc.
PyObject* send_early_hint(HttpRequestObject* request, PyObject* message);

/// The message http.response.pathsend: an awaitable. Null with an exception set.
PyObject* send_path(HttpRequestObject* request, PyObject* message) noexcept;

/// The message http.response.zerocopysend: an awaitable. Null with an exception set.
PyObject* send_file(HttpRequestObject* request, PyObject* message) noexcept;

} // namespace penstock::python
