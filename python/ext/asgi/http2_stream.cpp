// A request of HTTP/2: its scope, its response, and the flow of its body.

#include "asgi/http2_connection.hpp"
#include "asgi/http_send.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace penstock::python {

namespace {

Ref bytes_of(std::string_view text) noexcept {
    return Ref(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
}

/// A request's head, sorted. Views of the session's.
struct StreamHead {
    std::string_view method;
    std::string_view path;
    std::string_view authority;
    std::string_view host;
    std::string_view protocol;
    std::string cookies; ///< the parts of a split field, joined
    std::size_t fields = 0;
    bool expects_continue = false;
};

StreamHead sort(std::span<const http::Field> fields) {
    StreamHead head;
    bool first = true;
    for (const auto& [name, value] : fields) {
        if (name == ":method") {
            head.method = value;
        } else if (name == ":path") {
            head.path = value;
        } else if (name == ":authority") {
            head.authority = value;
        } else if (name == ":protocol") {
            head.protocol = value;
        } else if (name == "host") {
            head.host = value;
        } else if (name == "cookie") {
            head.cookies.append(std::exchange(first, false) ? "" : "; ").append(value);
        } else if (!name.starts_with(':')) {
            ++head.fields;
            head.expects_continue |= name == "expect" && value == "100-continue";
        }
    }
    return head;
}

/// Adds a pair to a list that has room for it. False with an exception set.
bool put(PyObject* list, Py_ssize_t& place, Ref name, std::string_view value) noexcept {
    Ref text = bytes_of(value);
    PyObject* pair = name && text ? PyTuple_New(2) : nullptr;
    if (pair == nullptr) {
        return false;
    }
    PyTuple_SET_ITEM(pair, 0, name.release());
    PyTuple_SET_ITEM(pair, 1, text.release());
    PyList_SET_ITEM(list, place++, pair);
    return true;
}

/// The scope's headers: the host first, the others in their order, and the cookies in one field.
Ref list_of_fields(HttpConnectionObject* connection, const StreamHead& head,
                   std::span<const http::Field> fields) {
    FieldNames& names = connection->server->shared->names;
    const std::string_view host = head.authority.empty() ? head.host : head.authority;
    const std::size_t size = head.fields + (host.empty() ? 0 : 1) + (head.cookies.empty() ? 0 : 1);
    Ref list(PyList_New(static_cast<Py_ssize_t>(size)));
    Py_ssize_t place = 0;
    if (!list || (!host.empty() && !put(list.get(), place, names.lower("host"), host))) {
        return Ref();
    }
    for (const auto& [name, value] : fields) {
        if (name.starts_with(':') || name == "host" || name == "cookie") {
            continue;
        }
        if (!put(list.get(), place, names.lower(name), value)) {
            return Ref();
        }
    }
    if (!head.cookies.empty() && !put(list.get(), place, names.lower("cookie"), head.cookies)) {
        return Ref();
    }
    return list;
}

bool is_printable(std::string_view text) noexcept {
    return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

/// Why a head is not a request that can be served, or null.
const char* fault_of(const StreamHead& head) noexcept {
    if (head.method == "CONNECT" && head.protocol != "websocket") {
        return "CONNECT is not supported.";
    }
    const bool differs = !head.authority.empty() && !head.host.empty() &&
                         !http::equal_ignoring_case(head.authority, head.host);
    return !http::is_token(head.method) || head.path.empty() || !is_printable(head.path) || differs
               ? "Invalid HTTP request received."
               : nullptr;
}

/// The fields of a head in the form of HTTP/1.1, behind its first line; until the next call.
std::span<const http::Field> fields_in(HttpConnectionObject* connection, std::string_view text) {
    std::vector<http::Field>& fields = connection->http2->fields;
    fields.clear();
    std::size_t begin = text.find('\r') + 2;
    while (begin < text.size()) {
        // No value has this character.
        const std::size_t end = std::min(text.find('\r', begin), text.size());
        const std::string_view line = text.substr(begin, end - begin);
        const std::size_t colon = line.find(':');
        if (colon != std::string_view::npos) {
            fields.push_back({.name = line.substr(0, colon), .value = line.substr(colon + 1)});
        }
        begin = end + 2;
    }
    return fields;
}

/// The status in the first line of such a head.
int status_in(std::string_view text) noexcept {
    int status = 0;
    for (const char digit : text.substr(9, 3)) {
        status = status * 10 + (digit - '0');
    }
    return status;
}

http2::ServerSession& session_of(const HttpRequestObject* request) noexcept {
    return request->connection->http2->session;
}

} // namespace

Ref make_stream_scope(HttpConnectionObject* connection, http2::Stream* stream) {
    http2::ServerSession& session = connection->http2->session;
    LastHead& last = connection->bytes->last;
    const std::string_view text = session.head_text(*stream);
    if (!last.text.empty() && last.text == text) {
        return repeat_scope(connection);
    }
    const std::span<const http::Field> fields = session.head(*stream);
    const StreamHead head = sort(fields);
    if (const char* fault = fault_of(head)) {
        report(connection->server, "warning", fault);
        note_refusal(connection, nullptr, 400);
        answer_stream(connection, stream, 400, fault);
        return Ref();
    }
    if (has_small_letter(head.method)) {
        note_refusal(connection, nullptr, 501);
        answer_stream(connection, stream, 501, unknown_method);
        return Ref();
    }
    if (!keep_head(connection, head.method, head.path, list_of_fields(connection, head, fields))) {
        return Ref();
    }
    constexpr std::size_t longest_kept = 4096;
    last.expects_continue = head.expects_continue;
    last.asks_websocket = head.protocol == "websocket";
    Ref scope = repeat_scope(connection);
    if (text.size() <= longest_kept) {
        last.text = text;
    }
    return scope;
}

void answer_stream(HttpConnectionObject* connection, http2::Stream* stream, int status,
                   std::string_view text) {
    const std::string size = std::to_string(text.size());
    const std::array fields = {
        http::Field{.name = "content-type", .value = "text/plain; charset=utf-8"},
        http::Field{.name = "content-length", .value = size},
    };
    http2::ServerSession& session = connection->http2->session;
    session.respond(*stream, status, fields, text.empty());
    session.write(*stream, text);
    session.finish(*stream);
}

bool send_stream_part(HttpRequestObject* request, std::string_view part, bool more) {
    http2::ServerSession& session = session_of(request);
    http2::Stream& stream = *request->stream;
    if (std::exchange(request->head_held, false)) {
        const std::span<std::byte> bytes = stream.text.bytes();
        const std::string_view head(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        session.respond(stream, status_in(head), fields_in(request->connection, head),
                        part.empty() && !more);
        stream.text.clear();
    }
    if (!part.empty()) {
        session.write(stream, part);
    }
    if (request->framing == Framing::length) {
        request->length -= part.size();
        if (!more && request->length > 0) {
            PyErr_SetString(PyExc_RuntimeError, "Response content shorter than Content-Length");
            return false;
        }
    }
    return schedule_pump(request->connection);
}

bool write_stream(HttpRequestObject* request, std::string_view part) {
    session_of(request).write(*request->stream, part);
    return schedule_pump(request->connection);
}

bool send_stream_interim(HttpRequestObject* request, std::string_view head) noexcept {
    try {
        session_of(request).send_interim(*request->stream, status_in(head),
                                         fields_in(request->connection, head));
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return schedule_pump(request->connection);
}

bool finish_stream(HttpRequestObject* request) noexcept {
    http2::ServerSession& session = session_of(request);
    session.finish(*request->stream);
    if (RequestBody* body = request->body) {
        session.consume(*request->stream, body->size());
        body->first = Ref();
        body->rest.clear(0);
    }
    return schedule_pump(request->connection);
}

bool reset_stream(HttpRequestObject* request) noexcept {
    session_of(request).reset(*request->stream, http2::ErrorCode::internal_error);
    return schedule_pump(request->connection);
}

bool consume_part(HttpRequestObject* request, std::size_t size) noexcept {
    if (!is_current(request) || size == 0) {
        return true;
    }
    session_of(request).consume(*request->stream, size);
    return schedule_pump(request->connection);
}

} // namespace penstock::python
