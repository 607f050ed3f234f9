#include <penstock/codec/websocket/masking.hpp>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>

#include <sys/random.h>

namespace penstock::codec::websocket {

namespace {

/// Two machine words or one vector register: every target of the compilers has some form of it.
using Block [[gnu::vector_size(16)]] = std::uint64_t;

template <typename Word>
void mask_word(std::byte* target, const std::byte* source, const Word& key) noexcept {
    Word word;
    std::memcpy(&word, source, sizeof word);
    word ^= key;
    std::memcpy(target, &word, sizeof word);
}

/// `target` may be `source`, but not overlap it otherwise.
void mask(std::byte* target, const std::byte* source, std::size_t size, const MaskKey& key,
          std::size_t offset) noexcept {
    std::uint32_t four = 0;
    std::memcpy(&four, key.data(), sizeof four);
    const int turn = static_cast<int>(offset % 4) * 8;
    four =
        std::endian::native == std::endian::little ? std::rotr(four, turn) : std::rotl(four, turn);
    const std::uint64_t eight = (std::uint64_t{four} << 32) | four;
    const Block sixteen{eight, eight};
    std::size_t done = 0;
    for (; size - done >= 4 * sizeof(Block); done += 4 * sizeof(Block)) {
        mask_word(target + done, source + done, sixteen);
        mask_word(target + done + 16, source + done + 16, sixteen);
        mask_word(target + done + 32, source + done + 32, sixteen);
        mask_word(target + done + 48, source + done + 48, sixteen);
    }
    for (; size - done >= sizeof(Block); done += sizeof(Block)) {
        mask_word(target + done, source + done, sixteen);
    }
    if (size - done >= sizeof eight) {
        mask_word(target + done, source + done, eight);
        done += sizeof eight;
    }
    if (size - done >= sizeof four) {
        mask_word(target + done, source + done, four);
        done += sizeof four;
    }
    for (std::size_t i = 0; done < size; ++done, ++i) {
        target[done] = source[done] ^ key[(offset + i) % 4];
    }
}

} // namespace

void apply_mask(std::span<std::byte> payload, const MaskKey& key, std::size_t offset) noexcept {
    mask(payload.data(), payload.data(), payload.size(), key, offset);
}

void copy_masked(std::byte* target, std::span<const std::byte> payload, const MaskKey& key,
                 std::size_t offset) noexcept {
    mask(target, payload.data(), payload.size(), key, offset);
}

void MaskKeys::refill() {
    std::size_t filled = 0;
    while (filled < sizeof keys_) {
        const ssize_t got = getrandom(reinterpret_cast<std::byte*>(keys_.data()) + filled,
                                      sizeof keys_ - filled, 0);
        if (got < 0 && errno != EINTR) {
            throw std::system_error(errno, std::generic_category(), "getrandom");
        }
        filled += got > 0 ? static_cast<std::size_t>(got) : 0;
    }
    used_ = 0;
}

} // namespace penstock::codec::websocket
