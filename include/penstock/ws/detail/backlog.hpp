#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <penstock/ws/shared_message.hpp>
#include <penstock/ws/slow_reader.hpp>

namespace penstock::ws::detail {

/// The messages that wait to be sent to one connection, by the policy for slow readers. Empty, it
/// holds no memory of its own.
class Backlog {
public:
    enum class Taken : std::uint8_t {
        yes,
        dropped,
        too_slow, ///< from now on it takes nothing
    };

    /// `topic` is null for a message of none. Throws `std::bad_alloc`.
    [[nodiscard]] Taken take(const SubscriberOptions& options, const void* topic,
                             const SharedMessage& message);

    /// Takes out the message that waits for the longest time.
    [[nodiscard]] std::optional<SharedMessage> next() noexcept;

    /// The messages that wait are of no topic any more: another one may get its address.
    void forget(const void* topic) noexcept;

    /// Nothing is to be sent any more.
    void clear() noexcept;

    [[nodiscard]] std::size_t size() const noexcept { return waiting_.size() - first_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

private:
    struct Waiting {
        const void* topic; ///< only to compare
        SharedMessage message;
    };

    [[nodiscard]] bool has_room_for(const SubscriberOptions& options,
                                    std::size_t size) const noexcept;
    void drop_same(const void* topic) noexcept;

    std::vector<Waiting> waiting_; ///< from `first_` on
    std::size_t first_ = 0;
    std::size_t bytes_ = 0; ///< of payload
    std::uint64_t dropped_ = 0;
    bool too_slow_ = false;
};

} // namespace penstock::ws::detail
