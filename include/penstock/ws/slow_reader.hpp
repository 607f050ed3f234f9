#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::ws {

/// What happens when the queue of a connection that reads slowly is full.
enum class SlowReader : std::uint8_t {
    close,       ///< the connection is closed with code 1013. The client may connect again
    drop_newest, ///< the new message is dropped
    drop_oldest, ///< the oldest queued messages are dropped
    /// The queue keeps only the last message of each topic. If it is full even so, the connection
    /// is closed.
    coalesce,
};

/// The queue of messages of a `Subscriber` or `CallbackSocket`.
struct SubscriberOptions {
    SlowReader slow_reader = SlowReader::close;
    /// The largest queue in this process, in bytes of payload. The kernel keeps further bytes:
    /// `Limits::maximum_backlog`. A single message may be larger than the whole queue.
    std::size_t maximum_backlog = 65'536;
    std::size_t maximum_messages = 1024; ///< the longest queue
};

} // namespace penstock::ws
