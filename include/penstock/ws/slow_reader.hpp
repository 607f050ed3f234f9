#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::ws {

/// What happens to a connection that reads more slowly than it is sent to.
enum class SlowReader : std::uint8_t {
    close,       ///< it gets close code 1013, and can connect again
    drop_newest, ///< it does not get the message
    drop_oldest, ///< it does not get the messages that wait for the longest time
    /// It gets of each topic only the last message that waits. Beyond the bound, it is closed.
    coalesce,
};

struct SubscriberOptions {
    SlowReader slow_reader = SlowReader::close;
    /// How much may wait in this process, in bytes of payload. The kernel keeps more:
    /// `Limits::maximum_backlog`. A message that is larger alone may wait alone.
    std::size_t maximum_backlog = 65'536;
    std::size_t maximum_messages = 1024; ///< how many may wait
};

} // namespace penstock::ws
