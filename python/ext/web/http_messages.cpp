// parse_websocket_request(), parse_websocket_response() and decode_chunked(): the codec's parsers
// and negotiation for Python.

#include "core/module.hpp"
#include "shared/buffer_view.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/codec/http/body_decoder.hpp>
#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/http/response_parser.hpp>
#include <penstock/codec/websocket/handshake.hpp>
#include <penstock/codec/websocket/permessage_deflate.hpp>

namespace penstock::python {

namespace {

namespace http = codec::http;
namespace websocket = codec::websocket;

constexpr std::size_t maximum_fields = 128;

/// The lengths of bodies that have none: module constants of these names, in capitals.
constexpr int until_close = -1;
constexpr int chunked = -2;

/// Fields may have bytes beyond ASCII, which have no defined encoding.
PyObject* text_of(std::string_view text) noexcept {
    return PyUnicode_DecodeLatin1(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
}

PyObject* list_of(const http::Fields& fields) noexcept {
    Ref list(PyList_New(0));
    for (const http::Field& field : fields) {
        const Ref name(text_of(field.name));
        const Ref value(text_of(field.value));
        const Ref pair(name && value ? PyTuple_Pack(2, name.get(), value.get()) : nullptr);
        if (!list || !pair || PyList_Append(list.get(), pair.get()) != 0) {
            return nullptr;
        }
    }
    return list.release();
}

/// A tuple (server_no_context_takeover, client_no_context_takeover, server_max_window_bits,
/// client_max_window_bits, text), or None.
PyObject* deflate_of(const std::optional<websocket::DeflateParameters>& parameters,
                     const std::string& text) noexcept {
    if (!parameters) {
        Py_RETURN_NONE;
    }
    return Py_BuildValue("OOiis", parameters->server_no_context_takeover ? Py_True : Py_False,
                         parameters->client_no_context_takeover ? Py_True : Py_False,
                         parameters->server_max_window_bits, parameters->client_max_window_bits,
                         text.c_str());
}

bool read_parameters(PyObject* tuple, std::optional<websocket::DeflateParameters>& parameters) {
    if (tuple == Py_None) {
        return true;
    }
    int server_reset = 0;
    int client_reset = 0;
    websocket::DeflateParameters read;
    if (PyArg_ParseTuple(tuple, "ppii", &server_reset, &client_reset, &read.server_max_window_bits,
                         &read.client_max_window_bits) == 0) {
        return false;
    }
    read.server_no_context_takeover = server_reset != 0;
    read.client_no_context_takeover = client_reset != 0;
    parameters = read;
    return true;
}

/// ValueError(text, status): the status is a server's answer to a request with that error.
PyObject* refuse(http::Error error) noexcept {
    const std::string_view reason = http::describe(error);
    // PyErr_Format knows "%.*s" since CPython 3.12 only.
    const Ref text(
        PyUnicode_FromStringAndSize(reason.data(), static_cast<Py_ssize_t>(reason.size())));
    const Ref arguments(text ? Py_BuildValue("Oi", text.get(), http::status_for(error)) : nullptr);
    if (arguments) {
        PyErr_SetObject(PyExc_ValueError, arguments.get());
    }
    return nullptr;
}

/// Room for the fields of a head, and how long it may be.
struct HeadRoom {
    std::vector<http::Field> storage;
    http::Limits limits;

    /// False with an exception set. `judged` is whether a parser has accepted all of `data` before,
    /// by limits of its own.
    bool prepare(std::string_view data, bool judged) noexcept {
        std::size_t fields = maximum_fields;
        if (judged) {
            limits.line = limits.head = data.size();
            fields = static_cast<std::size_t>(std::ranges::count(data, '\n'));
        }
        try {
            storage.resize(fields);
            return true;
        } catch (const std::bad_alloc&) {
            PyErr_NoMemory();
            return false;
        }
    }
};

/// parse_websocket_request(data, deflate, judged=False) -> None if more is needed, or (method,
/// target, fields, size, error, status, accept, deflate). `status` answers the error. `judged` is
/// whether the head was accepted before, so that it has no limits here. Raises ValueError for what
/// is not HTTP/1.1.
PyObject* parse_request(PyObject* /*module*/, PyObject* arguments) {
    PyObject* data = nullptr;
    PyObject* wanted = nullptr;
    int judged = 0;
    if (PyArg_ParseTuple(arguments, "OO|p", &data, &wanted, &judged) == 0) {
        return nullptr;
    }
    std::optional<websocket::DeflateParameters> limits;
    BufferView view;
    HeadRoom room;
    if (!read_parameters(wanted, limits) || !view.acquire(data, PyBUF_SIMPLE) ||
        !room.prepare(view.bytes(), judged != 0)) {
        return nullptr;
    }
    http::RequestParser parser(room.storage, room.limits);
    switch (parser.parse(view.bytes())) {
    case http::Progress::incomplete:
        Py_RETURN_NONE;
    case http::Progress::failed:
        return refuse(parser.error());
    case http::Progress::complete:
        break;
    }
    const http::RequestHead& head = parser.head();
    const websocket::HandshakeError error = websocket::check_request(head);
    const std::string_view reason =
        error == websocket::HandshakeError::none ? "" : websocket::describe(error);
    std::optional<websocket::DeflateAgreement> agreement;
    try {
        if (limits) {
            agreement = websocket::accept_offer(head.fields, *limits);
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    const websocket::AcceptKey accept(websocket::key_of(head));
    const Ref method(text_of(head.method));
    const Ref target(text_of(head.target));
    const Ref fields(list_of(head.fields));
    const Ref failure(text_of(reason));
    const int status =
        error == websocket::HandshakeError::none ? 101 : websocket::status_for(error);
    const Ref key(text_of(accept.text()));
    const Ref deflate(agreement ? deflate_of(agreement->parameters, agreement->response)
                                : deflate_of(std::nullopt, {}));
    return method && target && fields && failure && key && deflate
               ? Py_BuildValue("OOOnOiOO", method.get(), target.get(), fields.get(),
                               static_cast<Py_ssize_t>(head.size), failure.get(), status, key.get(),
                               deflate.get())
               : nullptr;
}

/// parse_websocket_response(data, key, subprotocols, deflate) -> None if more is needed, or
/// (status, reason, fields, size, error, negotiated, deflate, body). `negotiated` is false if the
/// error is a subprotocol or an extension that was not offered. `body` is the length of the body,
/// UNTIL_CLOSE or CHUNKED.
PyObject* parse_response(PyObject* /*module*/, PyObject* arguments) {
    PyObject* data = nullptr;
    const char* key = nullptr;
    PyObject* offered = nullptr;
    PyObject* wanted = nullptr;
    if (PyArg_ParseTuple(arguments, "OsO!O", &data, &key, &PyTuple_Type, &offered, &wanted) == 0) {
        return nullptr;
    }
    std::optional<websocket::DeflateParameters> limits;
    BufferView view;
    if (!read_parameters(wanted, limits) || !view.acquire(data, PyBUF_SIMPLE)) {
        return nullptr;
    }
    std::array<http::Field, maximum_fields> storage;
    http::ResponseParser parser(storage);
    switch (parser.parse(view.bytes())) {
    case http::Progress::incomplete:
        Py_RETURN_NONE;
    case http::Progress::failed:
        return refuse(parser.error());
    case http::Progress::complete:
        break;
    }
    const http::ResponseHead& head = parser.head();
    std::string_view reason;
    bool negotiated = true;
    websocket::DeflateAnswer answer;
    try {
        std::vector<std::string_view> subprotocols;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(offered); ++i) {
            Py_ssize_t size = 0;
            const char* text = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(offered, i), &size);
            if (text == nullptr) {
                return nullptr;
            }
            subprotocols.emplace_back(text, static_cast<std::size_t>(size));
        }
        const websocket::HandshakeError error = websocket::check_response(head, key, subprotocols);
        if (error != websocket::HandshakeError::none) {
            reason = websocket::describe(error);
            negotiated = error != websocket::HandshakeError::invalid_subprotocol;
        } else {
            answer = websocket::check_answer(head.fields, limits);
            negotiated = answer.valid;
            reason = negotiated ? "" : "the server's extensions do not fit the offer";
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    long long body = 0;
    switch (head.body.kind) {
    case http::BodyFraming::Kind::none:
        break;
    case http::BodyFraming::Kind::length:
        body = static_cast<long long>(head.body.length);
        break;
    case http::BodyFraming::Kind::until_close:
        body = until_close;
        break;
    case http::BodyFraming::Kind::chunked:
        body = chunked;
        break;
    }
    const Ref phrase(text_of(head.reason));
    const Ref fields(list_of(head.fields));
    const Ref failure(text_of(reason));
    const Ref deflate(deflate_of(answer.parameters, {}));
    return phrase && fields && failure && deflate
               ? Py_BuildValue("iOOnOOOL", head.status, phrase.get(), fields.get(),
                               static_cast<Py_ssize_t>(head.size), failure.get(),
                               negotiated ? Py_True : Py_False, deflate.get(), body)
               : nullptr;
}

/// decode_chunked(data, maximum) -> (body, whether it is complete). A body that is malformed or
/// exceeds the maximum ends there.
PyObject* decode_chunked(PyObject* /*module*/, PyObject* arguments) {
    PyObject* data = nullptr;
    Py_ssize_t maximum = 0;
    BufferView view;
    if (PyArg_ParseTuple(arguments, "On", &data, &maximum) == 0 ||
        !view.acquire(data, PyBUF_SIMPLE)) {
        return nullptr;
    }
    using Kind = http::BodyDecoder::Part::Kind;
    http::BodyDecoder decoder({.kind = http::BodyFraming::Kind::chunked});
    std::string_view input = view.bytes();
    bool complete = false;
    std::string body;
    try {
        for (;;) {
            const http::BodyDecoder::Part part = decoder.next(input);
            if (part.kind != Kind::data) {
                complete = part.kind != Kind::incomplete;
                break;
            }
            const std::size_t room = static_cast<std::size_t>(maximum) - body.size();
            body.append(part.data.substr(0, room));
            if (part.data.size() >= room) {
                complete = true;
                break;
            }
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    const Ref bytes(PyBytes_FromStringAndSize(body.data(), static_cast<Py_ssize_t>(body.size())));
    return bytes ? PyTuple_Pack(2, bytes.get(), complete ? Py_True : Py_False) : nullptr;
}

/// websocket_key() -> a new Sec-WebSocket-Key.
PyObject* new_key(PyObject* /*module*/, PyObject* /*unused*/) {
    try {
        return text_of(websocket::HandshakeKey().text());
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_OSError, error.what());
        return nullptr;
    }
}

PyMethodDef functions[] = {
    {"parse_websocket_request", &parse_request, METH_VARARGS, nullptr},
    {"parse_websocket_response", &parse_response, METH_VARARGS, nullptr},
    {"decode_chunked", &decode_chunked, METH_VARARGS, nullptr},
    {"websocket_key", &new_key, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

bool add_http_messages(PyObject* module) {
#ifdef PENSTOCK_HAS_DEFLATE
    constexpr int has_deflate = 1;
#else
    constexpr int has_deflate = 0;
#endif
    return PyModule_AddFunctions(module, functions) == 0 &&
           PyModule_AddIntConstant(module, "UNTIL_CLOSE", until_close) == 0 &&
           PyModule_AddIntConstant(module, "CHUNKED", chunked) == 0 &&
           PyModule_AddIntConstant(module, "websocket_deflate", has_deflate) == 0;
}

} // namespace penstock::python
