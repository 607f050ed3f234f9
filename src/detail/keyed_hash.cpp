#include <penstock/detail/keyed_hash.hpp>

#include <bit>
#include <cerrno>
#include <cstring>

#include <sys/auxv.h>
#include <sys/random.h>

namespace penstock::detail {

namespace {

static_assert(std::endian::native == std::endian::little);

/// The four words that the text is mixed into.
struct State {
    std::uint64_t a;
    std::uint64_t b;
    std::uint64_t c;
    std::uint64_t d;

    void mix() noexcept {
        a += b;
        c += d;
        b = std::rotl(b, 13) ^ a;
        d = std::rotl(d, 16) ^ c;
        a = std::rotl(a, 32);
        c += b;
        a += d;
        b = std::rotl(b, 17) ^ c;
        d = std::rotl(d, 21) ^ a;
        c = std::rotl(c, 32);
    }

    void take(std::uint64_t word) noexcept {
        d ^= word;
        mix();
        a ^= word;
    }
};

HashKey random_key() noexcept {
    HashKey key;
    ssize_t size = 0;
    do {
        size = ::getrandom(&key, sizeof key, 0);
    } while (size < 0 && errno == EINTR);
    if (size != static_cast<ssize_t>(sizeof key)) { // forbidden by a filter of system calls
        // The random bytes that the kernel gives to each program (getauxval(3)).
        // NOLINTNEXTLINE(performance-no-int-to-ptr): that is what the kernel hands over
        if (const auto* given = reinterpret_cast<const void*>(::getauxval(AT_RANDOM))) {
            std::memcpy(&key, given, sizeof key);
        }
    }
    return key;
}

} // namespace

std::uint64_t keyed_hash(const HashKey& key, std::string_view text) noexcept {
    // The constants are "somepseudorandomlygeneratedbytes".
    State state{.a = key.low ^ 0x736f6d6570736575U,
                .b = key.high ^ 0x646f72616e646f6dU,
                .c = key.low ^ 0x6c7967656e657261U,
                .d = key.high ^ 0x7465646279746573U};
    const std::uint64_t size = text.size();
    std::uint64_t word = 0;
    while (text.size() >= sizeof word) {
        std::memcpy(&word, text.data(), sizeof word);
        state.take(word);
        text.remove_prefix(sizeof word);
    }
    word = size << 56U;
    for (std::size_t at = 0; at < text.size(); ++at) {
        word |= std::uint64_t{static_cast<unsigned char>(text[at])} << (8 * at);
    }
    state.take(word);
    state.c ^= 0xFF;
    state.mix();
    state.mix();
    state.mix();
    return state.a ^ state.b ^ state.c ^ state.d;
}

const HashKey& process_hash_key() noexcept {
    static const HashKey key = random_key();
    return key;
}

} // namespace penstock::detail
