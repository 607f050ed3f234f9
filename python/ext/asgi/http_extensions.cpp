// Messages of extensions: http.response.early_hint and http.response.pathsend.

#include "asgi/http_send.hpp"

#include <string>
#include <utility>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

/// Adds a field Link. False with an exception set. Throws std::bad_alloc.
bool add_link(std::string& head, PyObject* link) {
    if (!PyBytes_Check(link)) {
        PyErr_Format(PyExc_TypeError, "a link is bytes, not %.100s", Py_TYPE(link)->tp_name);
        return false;
    }
    const std::string_view value(PyBytes_AS_STRING(link),
                                 static_cast<std::size_t>(PyBytes_GET_SIZE(link)));
    std::string line(value.size() + 16, '\0');
    http::HeadWriter writer(line);
    writer.field("link", value);
    if (writer.failed()) {
        PyErr_Format(PyExc_ValueError, "the link %R cannot be sent", link);
        return false;
    }
    head += writer.text();
    return true;
}

/// Whether no byte of the response's head has left.
bool head_is_here(const HttpRequestObject* request) noexcept {
    return !request->response_started || request->head_held;
}

} // namespace

PyObject* send_early_hint(HttpRequestObject* request, PyObject* message) {
    const Ref links = Ref::borrow(PyDict_GetItemString(message, "links"));
    const Ref list(links ? PySequence_Fast(links.get(), "links must be iterable") : nullptr);
    if (!list) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_SetString(PyExc_KeyError, "links");
        }
        return nullptr;
    }
    std::string head = "HTTP/1.1 103 Early Hints\r\n";
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
        if (!add_link(head, PySequence_Fast_GET_ITEM(list.get(), i))) {
            return nullptr;
        }
    }
    head += "\r\n";
    // Behind the head it would be a part of the body, and a client of HTTP/1.0 knows none.
    const bool sent =
        head_is_here(request) && !request->http_1_0 && PySequence_Fast_GET_SIZE(list.get()) > 0;
    return sent && !write_bytes(request->connection, head) ? nullptr
                                                           : Py_NewRef(request->state()->completed);
}

PyObject* send_path(HttpRequestObject* request, PyObject* message) noexcept {
    const Ref path = Ref::borrow(PyDict_GetItemString(message, "path"));
    if (!path) {
        PyErr_SetString(PyExc_KeyError, "path");
        return nullptr;
    }
    if (!request->response_started || request->body_begun) {
        PyErr_SetString(PyExc_RuntimeError,
                        "'http.response.pathsend' is the only body of a response: it follows "
                        "'http.response.start'");
        return nullptr;
    }
    request->flush_scheduled = true; // the head waits for the size of the file
    return PyObject_CallMethod(as_object(request->connection), "_send_path", "OO",
                               as_object(request), path.get());
}

PyObject* HttpRequestObject::begin_file(PyObject* self, PyObject* size) {
    HttpRequestObject* request = of(self);
    const std::size_t bytes = PyLong_AsSize_t(size);
    if (bytes == static_cast<std::size_t>(-1) && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (request->gone || !is_current(request)) {
        send_to_gone_client(request);
        return nullptr;
    }
    if (request->body_begun) {
        PyErr_SetString(PyExc_RuntimeError, "another message was sent before the file");
        return nullptr;
    }
    if (request->framing == Framing::length && request->length != bytes) {
        PyErr_Format(PyExc_RuntimeError, "the file has %zu bytes, and Content-Length is %llu",
                     bytes, static_cast<unsigned long long>(request->length));
        return nullptr;
    }
    const bool sends = request->framing != Framing::none && bytes > 0;
    try {
        request->body_begun = true;
        decide_framing(request, bytes, false);
        request->length = bytes;
        if (request->head_held) {
            end_head(request);
        }
        if (request->framing == Framing::chunked && sends) { // the head has left before
            append_output(request, http::ChunkHead(bytes).text());
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    return write_output(request) ? PyBool_FromLong(sends ? 1 : 0) : nullptr;
}

PyObject* HttpRequestObject::room(PyObject* self, PyObject* /*unused*/) {
    return wait_for_room(of(self));
}

PyObject* HttpRequestObject::end_file(PyObject* self, PyObject* /*unused*/) {
    HttpRequestObject* request = of(self);
    const bool sent = std::exchange(request->length, 0) > 0;
    if (request->gone) {
        Py_RETURN_NONE;
    }
    if (request->framing == Framing::chunked &&
        !write_bytes(request->connection, sent ? "\r\n0\r\n\r\n" : http::last_chunk)) {
        return nullptr;
    }
    return complete(request) ? Py_NewRef(Py_None) : nullptr;
}

} // namespace penstock::python
