#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <penstock/codec/websocket/frame.hpp>

namespace penstock::codec::websocket {

/// Masks or unmasks a part of a payload in place (RFC 6455, 5.3). `offset` is the part's place in
/// the payload.
void apply_mask(std::span<std::byte> payload, const MaskKey& key, std::size_t offset = 0) noexcept;

/// Copies `payload` to `target`, which has at least its size, masked.
void copy_masked(std::byte* target, std::span<const std::byte> payload, const MaskKey& key,
                 std::size_t offset = 0) noexcept;

/// Mask keys that a peer cannot predict (RFC 6455, 10.3), from getrandom(2), 128 at a time.
/// Not thread safe. A forked child repeats the keys that its parent had in stock.
class MaskKeys {
public:
    /// Throws `std::system_error` if the kernel has no random bytes.
    [[nodiscard]] MaskKey next() {
        if (used_ == keys_.size()) {
            refill();
        }
        return keys_[used_++];
    }

private:
    void refill();

    std::array<MaskKey, 128> keys_;
    std::size_t used_ = keys_.size();
};

} // namespace penstock::codec::websocket
