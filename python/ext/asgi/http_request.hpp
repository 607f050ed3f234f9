#pragma once

#include "asgi/http_connection.hpp"
#include "awaitable/native_awaitable.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include <penstock/codec/http/body_decoder.hpp>
#include <penstock/codec/http2/server_session.hpp>
#include <penstock/io/intrusive_list.hpp>

namespace penstock::python {

namespace http2 = codec::http2;

struct HttpRequestObject;

/// A call of `receive`, or the wait of a `send` for room in the transport's buffer.
struct HttpWaitObject : NativeAwaitable<HttpWaitObject> {
    PyObject ob_base;
    HttpRequestObject* request; ///< owned
    io::ListHook<HttpWaitObject> waiting_hook;
    WaitingTask task;
    AwaitStage stage;
    bool sending;
    bool listed; ///< among the request's waits, which own it

    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_http_wait;

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(request); }
    [[nodiscard]] Ref owning_loop() const noexcept;
    [[nodiscard]] const char* name() const noexcept { return sending ? "send" : "receive"; }
    [[nodiscard]] bool is_done() const noexcept {
        return stage != AwaitStage::suspended || task.cancelled;
    }
    bool wake_soon() noexcept;
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept { return visit_task(task, visit, arg); }
};

struct WaitHook {
    template <typename Wait> auto& operator()(Wait& wait) const noexcept {
        return wait.waiting_hook;
    }
};

using HttpWaits = io::IntrusiveList<HttpWaitObject, WaitHook{}>;

/// How the end of a response's body is marked.
enum class Framing : unsigned char {
    unknown, ///< the head has no Content-Length, and no body was sent yet
    none,    ///< the response has no body: HEAD, 204, 304
    length,
    chunked,
    close, ///< of the connection; in HTTP/2, of the stream
};

/// The part of a body that has arrived and that the application has not received.
struct RequestBody {
    http::BodyDecoder decoder;
    Ref first; ///< the first part; the others are in `rest`
    codec::ByteBuffer rest;

    [[nodiscard]] std::size_t size() const noexcept {
        return (first ? static_cast<std::size_t>(PyBytes_GET_SIZE(first.get())) : 0) + rest.size();
    }
};

/// A request, its response, and the coroutine of its task: it calls the application and drives what
/// that returns. When the application has ended, it ends the response, so a task's result is always
/// None, and nothing has to look at it.
///
/// Its task owns it, and it owns its task while that is suspended (the loop has only a weak
/// reference); the cycle ends when the application does. It owns its connection. `stream` is null
/// when the stream is gone.
///
/// Any step of the application may receive, send, close the connection or cancel the task. So a
/// function that has stepped it reads all members again, and owns what it goes on to use.
///
/// Thread safety: only with the GIL, on the thread of its loop.
struct HttpRequestObject : NativeAwaitable<HttpRequestObject> {
    PyObject ob_base;
    HttpConnectionObject* connection; ///< owned
    PyObject* scope;                  ///< until the application is called
    PyObject* logged;                 ///< the scope for the access log, or null
    PyObject* application;            ///< the application's coroutine, while it runs
    PyObject* given_receive;          ///< what the application has got, while it runs
    PyObject* given_send;             ///< the same
    PyObject* own_task;               ///< owned while it is suspended, or null
    RequestBody* body;                ///< null without one
    http2::Stream* stream;            ///< in HTTP/2, until it is closed
    io::MonotonicTime waits_since;    ///< in HTTP/2, for the client's body; 0: it does not
    HttpWaits receiving;              ///< owned
    HttpWaits sending;                ///< owned
    std::uint64_t length;             ///< of the body that the response has announced and not sent
    AwaitStage stage;
    Framing framing;
    bool started; ///< the application was called, or its task made
    bool http_1_0;
    bool multiplexed;  ///< a request of HTTP/2, one of several of its connection
    bool is_websocket; ///< it asks for a WebSocket on its stream
    bool abandoned;    ///< its stream was reset while the application runs
    bool is_head;      ///< the method is HEAD
    bool keep_alive;
    bool wants_continue; ///< the client waits for 100
    bool body_complete;  ///< the body has arrived
    bool body_received;  ///< the application has received the end of the body
    bool head_held;      ///< the head of the response waits in the connection's output
    bool flush_scheduled;
    bool lacks_file; ///< what was to be the body could not be had, and nothing has left
    bool body_begun; ///< a part of the response's body was sent, or a file is
    bool response_started;
    bool response_complete;
    bool disconnected; ///< the client has gone, or will not send more: receive() tells it
    bool gone;         ///< nothing can be sent any more: send() raises

    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_http_request;

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(connection); }
    [[nodiscard]] const char* name() const noexcept { return "request"; }
    [[nodiscard]] PyObject* awaited() const noexcept { return application; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

    static PyObject* throw_into(PyObject* self, PyObject* const* arguments,
                                Py_ssize_t count) noexcept;
    /// As of any coroutine: GeneratorExit is thrown into the application. The response ends.
    static PyObject* close(PyObject* self, PyObject* unused) noexcept;
    static void tp_dealloc(PyObject* self) noexcept;

    /// _begin_file(size, more, alone): writes what precedes a file that is a part of the body, the
    /// last one or not, or all of it. Whether the file is to be sent.
    static PyObject* begin_file(PyObject* self, PyObject* arguments);
    /// _write_file(part): a part of the file.
    static PyObject* write_file(PyObject* self, PyObject* part);
    /// _end_file(size, more): as many bytes of a file were sent.
    static PyObject* end_file(PyObject* self, PyObject* arguments);

    /// _fail_file(begun): a file cannot be sent, or not to its end. `begun` is whether what
    /// precedes it was written.
    static PyObject* fail_file(PyObject* self, PyObject* begun);

    /// _leave(task): the task that a task factory has returned has ended.
    static PyObject* leave(PyObject* self, PyObject* task);

    /// _room(): an awaitable of the room in the transport's buffer.
    static PyObject* room(PyObject* self, PyObject* unused);

    /// _flush(): writes a head whose body does not come.
    static PyObject* flush(PyObject* self, PyObject* unused);

    static auto own_methods() noexcept {
        return std::array{
            PyMethodDef{"_begin_file", &begin_file, METH_VARARGS, nullptr},
            PyMethodDef{"_write_file", &write_file, METH_O, nullptr},
            PyMethodDef{"_flush", &flush, METH_NOARGS, nullptr},
            PyMethodDef{"_room", &room, METH_NOARGS, nullptr},
            PyMethodDef{"_end_file", &end_file, METH_VARARGS, nullptr},
            PyMethodDef{"_fail_file", &fail_file, METH_O, nullptr},
            PyMethodDef{"_leave", &leave, METH_O, nullptr},
        };
    }
};

inline HttpRequestObject* request_of(PyObject* object) noexcept {
    return reinterpret_cast<HttpRequestObject*>(object);
}

/// A request with this scope, which becomes the connection's, or the stream's if there is one. Null
/// with an exception set.
HttpRequestObject* make_request(HttpConnectionObject* connection, Ref scope,
                                http2::Stream* stream = nullptr) noexcept;

/// Runs the application in a new task: at once if `feeding` allows it. False with an exception set.
bool start_task(HttpRequestObject* request, Feeding feeding) noexcept;

/// Whether the connection still answers this request.
[[nodiscard]] inline bool is_current(const HttpRequestObject* request) noexcept {
    return request->multiplexed ? request->stream != nullptr
                                : request->connection->request == request;
}

/// Whether messages of its response may still follow.
[[nodiscard]] inline bool is_open(const HttpRequestObject* request) noexcept {
    return !request->gone && !request->response_complete && is_current(request);
}

/// Whether what waits to be sent lets `send` return.
[[nodiscard]] inline bool has_room(const HttpRequestObject* request) noexcept {
    constexpr std::size_t most_waiting = 65536;
    return request->multiplexed
               ? request->stream == nullptr || request->stream->unsent() <= most_waiting
               : !request->connection->writing_paused;
}

/// Steps those that wait and need not any more. False with an exception set.
bool wake(HttpRequestObject* request, Feeding feeding) noexcept;

/// The client has gone. False with an exception set.
bool disconnect(HttpRequestObject* request, Feeding feeding) noexcept;

/// Stores a part of the body. False with an exception set.
bool append_to_body(HttpRequestObject* request, std::string_view part) noexcept;

/// send(message) and receive(), the functions that the application is called with.
PyObject* http_send(PyObject* self, PyObject* message);
PyObject* http_receive(PyObject* self, PyObject* unused);

/// Writes the head that waits for its body. False with an exception set.
bool flush_head(HttpRequestObject* request) noexcept;

/// Ends the response in its middle: by the end of the connection, in HTTP/2 of the stream. The
/// client sees that the body is not whole, also where the close is its end. False with an exception
/// set.
bool cut_off(HttpRequestObject* request) noexcept;

/// Tells the access log of the start of a response. Errors are reported.
void log_response(HttpRequestObject* request, int status) noexcept;

/// A whole response of the server itself. False with an exception set.
bool send_text(HttpRequestObject* request, int status, std::string_view text) noexcept;

/// Raises penstock.asgi.ClientDisconnected, an OSError.
void send_to_gone_client(const HttpRequestObject* request) noexcept;

/// An awaitable of the room in the transport's buffer. Null with an exception set.
PyObject* wait_for_room(HttpRequestObject* request) noexcept;

} // namespace penstock::python
