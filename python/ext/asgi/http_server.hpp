#pragma once

#include "asgi/known_fields.hpp"
#include "core/loop.hpp"
#include "core/module.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <penstock/codec/http/date.hpp>
#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http/limits.hpp>
#include <penstock/codec/http2/limits.hpp>
#include <penstock/io/intrusive_list.hpp>

namespace penstock::python {

namespace http = codec::http;

struct HttpConnectionObject;

/// Where a connection is linked into its server's list.
struct OfServer {
    template <typename Connection> auto& operator()(Connection& connection) const noexcept {
        return connection.of_server;
    }
};

using OpenConnections = io::IntrusiveList<HttpConnectionObject, OfServer{}>;

/// `bytes` objects of lower-case field names. Bounded: a name that finds its place taken is not
/// kept.
class FieldNames {
public:
    /// Null with an exception set.
    Ref lower(std::string_view name) noexcept;
    void clear() noexcept;

private:
    static constexpr std::size_t places = 256;
    static constexpr std::size_t longest = 64;
    std::array<PyObject*, places> names_{};
};

/// What the connections of a server share. Its Python objects are `bytes` alone.
struct HttpShared {
    FieldNames names;
    KnownFields known_fields;
    std::vector<http::Field> fields; ///< of the head that is parsed
    http::Limits limits;
    codec::http2::Limits http2_limits;
    std::string fixed_fields; ///< the fields of every response, each with its line end
    std::string server_field; ///< the same for those that do not name another server
    std::string date_field;   ///< "date: ...\r\n" of `date_second`
    std::string usual_fields; ///< all three
    http::Seconds date_second = -1;
};

/// The native part of an ASGI server: what is the same for all its connections, and the list of
/// them. `penstock.asgi` has the rest.
struct HttpServerObject {
    PyObject ob_base;
    PyObject* loop;
    PyObject* app;
    PyObject* state;         ///< the lifespan's state, a dictionary, or None
    PyObject* tasks;         ///< a set of the tasks of requests that have suspended
    PyObject* task_keywords; ///< see `begin_task`; null if tasks begin in the next iteration
    PyObject* report;        ///< report(kind, value): writes to the log
    PyObject* log_start;     ///< log_start(scope, status), the access log; or None
    PyObject* on_refusal;    ///< on_refusal(scope, status), see `note_refusal`; or None
    PyObject* forwarded;     ///< forwarded(scope): corrects it by the fields of a proxy; or None
    PyObject* spare_receive; ///< a builtin method without its object, untracked; or null
    PyObject* spare_send;    ///< the same
    HttpShared* shared;
    OpenConnections connections; ///< owned
    std::size_t open_connections;
    unsigned long long total_requests;
    std::size_t limit_concurrency; ///< 0: no limit
    io::MonotonicTime keep_alive;  ///< how long a connection may be idle; negative: for ever
    io::MonotonicTime head_time;   ///< how long a head may take; negative: for ever
    io::MonotonicTime body_time;   ///< how long a body may stall; negative: for ever
    io::MonotonicTime stall_time;  ///< how long a client may take nothing; negative: for ever
    bool sends_date;
    bool draining; ///< no connection is kept after its response
};

inline HttpServerObject* server_of(PyObject* object) noexcept {
    return reinterpret_cast<HttpServerObject*>(object);
}

/// The line of the Date field, made once a second.
[[nodiscard]] std::string_view date_field(HttpShared& shared);

/// The fields that most responses get: all that `HttpShared` has a text of.
[[nodiscard]] std::string_view usual_fields(HttpShared& shared);

/// Writes to the log through the Python half. Preserves no raised exception.
void report(HttpServerObject* server, const char* kind, PyObject* value) noexcept;
void report(HttpServerObject* server, const char* kind, const char* text) noexcept;

/// Tells the Python half when a server that drains has neither connections nor tasks left.
void report_if_drained(HttpServerObject* server) noexcept;

} // namespace penstock::python
