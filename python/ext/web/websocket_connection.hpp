#pragma once

#include "awaitable/delegating_awaitable.hpp"
#include "awaitable/direct_steps.hpp"

#include <cstddef>

namespace penstock::python {

struct WebSocketReceiveObject;
struct WebSocketCodec;

/// The native half of `penstock.websocket.Connection`: a protocol whose data_received decodes
/// frames, and the queue of received messages. It works on the transports of any asyncio loop; one
/// of Penstock's socket transports passes it received bytes without an object in between.
///
/// The Python half has the state of the connection: opening, closing, keepalive. It begins with
/// `_start`, which sets the codec. The native half calls `_on_pong`, `_on_close` and `_on_failure`
/// of it, `_end_of_messages` for the exception of a receive after the last message,
/// `_refuse_second_receiver` where another call receives, and `_on_receiver_end` when `for_each` is
/// to return.
struct WebSocketConnectionObject {
    PyObject ob_base;
    PyObject* loop;      ///< null before `_start`
    PyObject* transport; ///< null before `_start`
    PyObject* weak_references;
    WebSocketReceiveObject* waiting; ///< owned; the one receive that waits for a message
    PyObject* receiver;              ///< the function of `for_each`, or null
    PyObject* receiver_context;      ///< null without a receiver
    WebSocketCodec* codec;           ///< null before `_start` and after `tp_clear`
    bool ended;                      ///< no message follows those in the queue
    bool reading_paused;
    bool writing_paused;
    bool may_send; ///< whole messages: not while one is sent in fragments, and not when closing
    bool closing;  ///< a close frame was sent: no frame may follow it
    bool calling_receiver;
    bool others_wait; ///< for the end of `waiting`: its session is told of it
    bool heard; ///< bytes have arrived since the Python half has cleared it, for its keepalive
    unsigned long long written; ///< bytes of frames given to the transport, ever
};

/// One receive: a coroutine, and the future that its task blocks on.
struct WebSocketReceiveObject : DelegatingAwaitable<WebSocketReceiveObject> {
    PyObject ob_base;
    WebSocketConnectionObject* connection; ///< owned
    PyObject* events;                      ///< owned; of `_receive_event`, or null
    PyObject* session;                     ///< owned; the same
    PyObject* delegate;                    ///< owned; of `_receive_in_turn`, or null
    WaitingTask task;
    AwaitStage stage;
    bool iterating; ///< of `async for`: a normal end is StopAsyncIteration
    bool raw;       ///< of `recv(decode=False)`: text is returned as its bytes
    bool part;      ///< of `recv_streaming`: a tuple, see `WebSocketCodec::by_parts`

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(connection); }
    [[nodiscard]] Ref owning_loop() const noexcept { return Ref::borrow(connection->loop); }
    [[nodiscard]] const char* name() const noexcept { return "recv"; }
    [[nodiscard]] bool is_done() const noexcept {
        return stage != AwaitStage::suspended || task.cancelled;
    }
    bool wake_soon() noexcept;
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;
};

/// Decodes received bytes, in place, from the dispatcher, where no task runs: the waiting task runs
/// before this returns. False with an exception set.
bool feed_websocket(WebSocketConnectionObject* connection, char* data, std::size_t size,
                    Feeding feeding) noexcept;

inline WebSocketConnectionObject* websocket_of(PyObject* object) noexcept {
    return reinterpret_cast<WebSocketConnectionObject*>(object);
}

// Shared by websocket_connection.cpp and websocket_receive.cpp.

/// What one receive asks for: see the fields of `WebSocketReceiveObject`.
struct ReceiveKind {
    bool iterating = false;
    bool raw = false;
    bool part = false;
    PyObject* events = nullptr;  ///< borrowed; see `WebSocketReceiveObject`
    PyObject* session = nullptr; ///< borrowed; the same
};

/// A coroutine for one receive. With `events`, its result is a message of ASGI. At the end of the
/// connection that is what `_disconnect` of the session returns, and while another receive waits,
/// the session's `_receive_in_turn` does. Null with an exception set.
PyObject* make_receive(WebSocketConnectionObject* connection, ReceiveKind kind) noexcept;

/// Whether `recv_streaming` has not ended its message.
[[nodiscard]] bool receives_parts(const WebSocketConnectionObject* connection) noexcept;

/// The next message; null if the queue is empty, or with an exception set if the transport could
/// not be resumed.
PyObject* take_message(WebSocketConnectionObject* connection) noexcept;

/// Raises ConcurrencyError.
void refuse_second_receiver(WebSocketConnectionObject* connection, const char* reason) noexcept;

[[nodiscard]] bool has_message(const WebSocketConnectionObject* connection) noexcept;

/// Steps the waiting task now. False with an exception set.
bool resume(WebSocketReceiveObject* receive) noexcept;

} // namespace penstock::python
