// Messages of extensions: http.response.early_hint, pathsend and zerocopysend.

#include "asgi/http_send.hpp"

#include "asgi/http2_connection.hpp"
#include "shared/buffer_view.hpp"

#include <new>
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
    if (!check_open(request)) {
        return nullptr;
    }
    // Behind the head it would be a part of the body, and a client of HTTP/1.0 knows none.
    const bool sent =
        head_is_here(request) && !request->http_1_0 && PySequence_Fast_GET_SIZE(list.get()) > 0;
    if (sent && !(request->multiplexed ? send_stream_interim(request, head)
                                       : write_bytes(request->connection, head))) {
        return nullptr;
    }
    return Py_NewRef(request->state()->completed);
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

PyObject* send_file(HttpRequestObject* request, PyObject* message) noexcept {
    if (!request->response_started) {
        PyErr_SetString(PyExc_RuntimeError, "Expected ASGI message 'http.response.start', but got "
                                            "'http.response.zerocopysend'.");
        return nullptr;
    }
    request->flush_scheduled = true; // the head waits for the size of the part
    return PyObject_CallMethod(as_object(request->connection), "_send_file", "OO",
                               as_object(request), message);
}

PyObject* HttpRequestObject::begin_file(PyObject* self, PyObject* arguments) {
    HttpRequestObject* request = of(self);
    Py_ssize_t size = 0;
    int more = 0;
    int alone = 0;
    if (PyArg_ParseTuple(arguments, "npp", &size, &more, &alone) == 0) {
        return nullptr;
    }
    const auto bytes = static_cast<std::size_t>(size);
    if (request->gone || !is_current(request)) {
        send_to_gone_client(request);
        return nullptr;
    }
    if (request->response_complete || (alone != 0 && request->body_begun)) {
        PyErr_SetString(PyExc_RuntimeError, "another message was sent before the file");
        return nullptr;
    }
    if (request->framing == Framing::length &&
        (more != 0 ? request->length < bytes : request->length != bytes)) {
        PyErr_Format(PyExc_RuntimeError, "the file has %zd bytes, and Content-Length leaves %llu",
                     size, static_cast<unsigned long long>(request->length));
        return nullptr;
    }
    const bool sends = request->framing != Framing::none && bytes > 0;
    try {
        request->body_begun = true;
        decide_framing(request, bytes, more != 0);
        if (request->multiplexed) {
            return send_stream_part(request, {}, sends || more != 0)
                       ? PyBool_FromLong(sends ? 1 : 0)
                       : nullptr;
        }
        if (request->head_held) {
            end_head(request);
        }
        if (request->framing == Framing::chunked && sends) {
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

PyObject* HttpRequestObject::write_file(PyObject* self, PyObject* part) {
    HttpRequestObject* request = of(self);
    BufferView view;
    if (!view.acquire(part, PyBUF_SIMPLE)) {
        return nullptr;
    }
    if (request->gone || !is_current(request)) {
        return send_to_gone_client(request), nullptr;
    }
    const std::string_view bytes(view.data(), static_cast<std::size_t>(view.size()));
    try {
        const bool written = request->multiplexed ? write_stream(request, bytes)
                                                  : write_bytes(request->connection, bytes);
        return written ? Py_NewRef(Py_None) : nullptr;
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* HttpRequestObject::flush(PyObject* self, PyObject* /*unused*/) {
    HttpRequestObject* request = of(self);
    request->flush_scheduled = false;
    return flush_head(request) ? Py_NewRef(Py_None) : nullptr;
}

PyObject* HttpRequestObject::fail_file(PyObject* self, PyObject* begun) {
    HttpRequestObject* request = of(self);
    const Ref alive = Ref::borrow(self);
    if (!is_open(request)) {
        Py_RETURN_NONE;
    }
    if (begun == Py_True) {
        // How much of it has left is not known: no other part may follow.
        return cut_off(request) ? Py_NewRef(Py_None) : nullptr;
    }
    request->flush_scheduled = false;
    request->lacks_file = !request->body_begun;
    if (request->head_held && request->stage != AwaitStage::running) {
        // Another task sends, and does not tell when it waits.
        request->flush_scheduled = true;
        if (!call_soon(request->connection, self, "_flush")) {
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

PyObject* HttpRequestObject::end_file(PyObject* self, PyObject* arguments) {
    HttpRequestObject* request = of(self);
    Py_ssize_t size = 0;
    int more = 0;
    if (PyArg_ParseTuple(arguments, "np", &size, &more) == 0) {
        return nullptr;
    }
    if (request->gone) {
        Py_RETURN_NONE;
    }
    if (request->framing == Framing::length) {
        request->length -= static_cast<std::size_t>(size);
    } else if (request->framing == Framing::chunked) {
        std::string text(size > 0 ? http::chunk_end : std::string_view());
        text += more != 0 ? std::string_view() : http::last_chunk;
        if (!text.empty() && !write_bytes(request->connection, text)) {
            return nullptr;
        }
    }
    return more != 0 || complete(request) ? Py_NewRef(Py_None) : nullptr;
}

} // namespace penstock::python
