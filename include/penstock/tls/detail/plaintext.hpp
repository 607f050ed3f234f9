#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>

namespace penstock::tls::detail {

/// The most content of a record (RFC 8446, section 5.1).
inline constexpr std::size_t record_content = std::size_t{1} << 14;

/// The parts of a write, cut into what is encrypted at once. Small parts are copied together with
/// what follows them, so that a head and its body share a record.
///
/// Refers to the parts and their bytes, which must stay and not change until the write is over:
/// OpenSSL asks for the same bytes again after a short write. Owns only the buffer for parts that
/// it joins; without memory for it, each part is a record.
///
/// `front` is valid, and the same, until `pop`. Cost: constant for each part, and one copy of what
/// is joined, at most 16 KiB at a time.
class Plaintext {
public:
    /// At most four records are encrypted at once.
    static constexpr std::size_t most = 4 * record_content;
    /// A part that is larger than this begins a record of its own.
    static constexpr std::size_t join_limit = 1024;

    explicit Plaintext(std::span<const Bytes> parts) noexcept : parts_(parts) { skip_empty(); }

    /// What to encrypt next, the same until `pop`. Empty at the end.
    [[nodiscard]] Bytes front() noexcept {
        if (front_.empty() && !parts_.empty()) {
            const bool joins = parts_.size() > 1 && rest().size() <= join_limit;
            front_ = joins ? join() : advance(std::min(rest().size(), most));
        }
        return front_;
    }

    void pop() noexcept {
        front_ = {};
        joined_ = {};
    }

    /// Whether nothing follows the front.
    [[nodiscard]] bool front_is_last() const noexcept { return parts_.empty(); }

private:
    [[nodiscard]] Bytes rest() const noexcept {
        const Bytes& part = parts_.front();
        return {part.data() + used_, part.size() - used_};
    }

    Bytes advance(std::size_t count) noexcept {
        const Bytes taken(rest().data(), count);
        used_ += count;
        skip_empty();
        return taken;
    }

    void skip_empty() noexcept {
        while (!parts_.empty() && used_ == parts_.front().size()) {
            parts_ = parts_.subspan(1);
            used_ = 0;
        }
    }

    Bytes join() noexcept {
        const std::span<std::byte> room = joined_.borrow();
        if (room.empty()) { // no memory: more records
            return advance(rest().size());
        }
        std::size_t filled = 0;
        while (!parts_.empty() && filled < record_content) {
            const Bytes taken = advance(std::min(rest().size(), record_content - filled));
            std::memcpy(room.data() + filled, taken.data(), taken.size());
            filled += taken.size();
        }
        return {room.data(), filled};
    }

    std::span<const Bytes> parts_;
    std::size_t used_ = 0; ///< of the first one
    Bytes front_;
    Chunk joined_;
};

} // namespace penstock::tls::detail
