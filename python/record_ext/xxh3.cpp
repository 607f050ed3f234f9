#include "xxh3.hpp"

#include "byte_order.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::python::record {

namespace {

using std::size_t;
using std::uint32_t;
using std::uint64_t;

// The primes, and the secret, are the specification's.
constexpr uint64_t prime32_1 = 0x9E3779B1;
constexpr uint64_t prime32_2 = 0x85EBCA77;
constexpr uint64_t prime64_1 = 0x9E3779B185EBCA87;
constexpr uint64_t prime64_2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t prime64_3 = 0x165667B19E3779F9;
constexpr uint64_t prime64_4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t prime_mix_1 = 0x165667919E3779F9;
constexpr uint64_t prime_mix_2 = 0x9FB21C651E98DF25;

constexpr size_t secret_size = 192;
constexpr std::array<unsigned char, secret_size> secret = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

// gcc 12 and clang have it; ISO C++ does not.
__extension__ using uint128 = unsigned __int128;

using Lanes = std::array<uint64_t, 8>;

struct Wide {
    uint64_t low;
    uint64_t high;
};

uint64_t read_64(const char* data) noexcept {
    return number_at<std::endian::little, uint64_t>(data);
}

uint32_t read_32(const char* data) noexcept {
    return number_at<std::endian::little, uint32_t>(data);
}

uint64_t secret_64(size_t place) noexcept {
    return number_at<std::endian::little, uint64_t>(&secret[place]);
}

uint32_t secret_32(size_t place) noexcept {
    return number_at<std::endian::little, uint32_t>(&secret[place]);
}

Wide product(uint64_t left, uint64_t right) noexcept {
    const uint128 wide = static_cast<uint128>(left) * right;
    return {static_cast<uint64_t>(wide), static_cast<uint64_t>(wide >> 64)};
}

uint64_t folded_product(uint64_t left, uint64_t right) noexcept {
    const Wide wide = product(left, right);
    return wide.low ^ wide.high;
}

/// The final mixing of XXH3.
uint64_t avalanche(uint64_t value) noexcept {
    value ^= value >> 37;
    value *= prime_mix_1;
    return value ^ (value >> 32);
}

/// That of XXH64, which the shortest inputs have.
uint64_t avalanche_64(uint64_t value) noexcept {
    value ^= value >> 33;
    value *= prime64_2;
    value ^= value >> 29;
    value *= prime64_3;
    return value ^ (value >> 32);
}

Wide of_1_to_3(const char* data, size_t size) noexcept {
    const auto byte = [data](size_t place) {
        return static_cast<uint32_t>(static_cast<unsigned char>(data[place]));
    };
    const uint32_t low = (byte(0) << 16) | (byte(size / 2) << 24) | byte(size - 1) |
                         (static_cast<uint32_t>(size) << 8);
    const uint32_t high = std::rotl(__builtin_bswap32(low), 13);
    return {avalanche_64(low ^ static_cast<uint64_t>(secret_32(0) ^ secret_32(4))),
            avalanche_64(high ^ static_cast<uint64_t>(secret_32(8) ^ secret_32(12)))};
}

Wide of_4_to_8(const char* data, size_t size) noexcept {
    const uint64_t both = read_32(data) + (static_cast<uint64_t>(read_32(data + size - 4)) << 32);
    Wide wide = product(both ^ secret_64(16) ^ secret_64(24), prime64_1 + (size << 2));
    wide.high += wide.low << 1;
    wide.low ^= wide.high >> 3;
    wide.low ^= wide.low >> 35;
    wide.low *= prime_mix_2;
    wide.low ^= wide.low >> 28;
    return {wide.low, avalanche(wide.high)};
}

Wide of_9_to_16(const char* data, size_t size) noexcept {
    const uint64_t first = read_64(data);
    uint64_t last = read_64(data + size - 8);
    Wide wide = product(first ^ last ^ secret_64(32) ^ secret_64(40), prime64_1);
    wide.low += static_cast<uint64_t>(size - 1) << 54;
    last ^= secret_64(48) ^ secret_64(56);
    wide.high += last + (last & 0xFFFFFFFF) * (prime32_2 - 1);
    wide.low ^= __builtin_bswap64(wide.high);
    Wide mixed = product(wide.low, prime64_2);
    mixed.high += wide.high * prime64_2;
    return {avalanche(mixed.low), avalanche(mixed.high)};
}

uint64_t mixed_16(const char* data, size_t place) noexcept {
    return folded_product(read_64(data) ^ secret_64(place),
                          read_64(data + 8) ^ secret_64(place + 8));
}

void mix_32(Wide& sum, const char* one, const char* other, size_t place) noexcept {
    sum.low += mixed_16(one, place);
    sum.low ^= read_64(other) + read_64(other + 8);
    sum.high += mixed_16(other, place + 16);
    sum.high ^= read_64(one) + read_64(one + 8);
}

Wide of_17_to_240(const char* data, size_t size) noexcept {
    Wide sum{size * prime64_1, 0};
    if (size <= 128) {
        // From the middle outwards.
        for (size_t pairs = (size - 1) / 32 + 1; pairs-- > 0;) {
            mix_32(sum, data + 16 * pairs, data + size - 16 * (pairs + 1), 32 * pairs);
        }
    } else {
        for (size_t place = 0; place < 128; place += 32) {
            mix_32(sum, data + place, data + place + 16, place);
        }
        sum = {avalanche(sum.low), avalanche(sum.high)};
        for (size_t place = 128; place + 32 <= size; place += 32) {
            mix_32(sum, data + place, data + place + 16, place - 128 + 3);
        }
        mix_32(sum, data + size - 16, data + size - 32, 136 - 17 - 16);
    }
    const uint64_t high = sum.low * prime64_1 + sum.high * prime64_4 + size * prime64_2;
    return {avalanche(sum.low + sum.high), 0 - avalanche(high)};
}

Wide of_short(const char* data, size_t size) noexcept {
    if (size > 16) {
        return of_17_to_240(data, size);
    }
    if (size > 8) {
        return of_9_to_16(data, size);
    }
    if (size >= 4) {
        return of_4_to_8(data, size);
    }
    if (size > 0) {
        return of_1_to_3(data, size);
    }
    return {avalanche_64(secret_64(64) ^ secret_64(72)),
            avalanche_64(secret_64(80) ^ secret_64(88))};
}

uint64_t merged(const Lanes& lanes, size_t place, uint64_t start) noexcept {
    for (size_t pair = 0; pair < 4; ++pair) {
        start += folded_product(lanes[2 * pair] ^ secret_64(place + 16 * pair),
                                lanes[2 * pair + 1] ^ secret_64(place + 16 * pair + 8));
    }
    return avalanche(start);
}

// Blocks are nearly all of the work, so they are mixed in the widest registers that are there.
// AVX2 takes a third of the time of the portable loop, and writing CSV a twentieth less.

constexpr size_t stripe_size = Xxh3::stripe_size;
constexpr size_t block_size = Xxh3::block_size;
constexpr size_t end_of_block = secret_size - stripe_size;

void add_stripe(Lanes& lanes, const char* stripe, size_t secret_place) noexcept {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
        const uint64_t value = read_64(stripe + 8 * lane);
        const uint64_t keyed = value ^ secret_64(secret_place + 8 * lane);
        lanes[lane ^ 1] += value;
        lanes[lane] += (keyed & 0xFFFFFFFF) * (keyed >> 32);
    }
}

void add_blocks_portably(Lanes& lanes, const char* data, size_t blocks) noexcept {
    // In registers: what is behind a reference may be what the block is in.
    Lanes now = lanes;
    for (; blocks > 0; --blocks, data += block_size) {
        for (size_t stripe = 0; stripe < block_size / stripe_size; ++stripe) {
            add_stripe(now, data + stripe * stripe_size, 8 * stripe);
        }
        for (size_t lane = 0; lane < now.size(); ++lane) {
            now[lane] ^= now[lane] >> 47;
            now[lane] ^= secret_64(end_of_block + 8 * lane);
            now[lane] *= prime32_1;
        }
    }
    lanes = now;
}

#if defined(__x86_64__)

// NOLINTBEGIN(portability-simd-intrinsics): the portable form is above.

#define PENSTOCK_AVX2 [[gnu::target("avx2"), gnu::always_inline]] inline

PENSTOCK_AVX2 __m256i four(const void* data) noexcept {
    return _mm256_loadu_si256(static_cast<const __m256i*>(data));
}

/// Half a stripe into four lanes.
PENSTOCK_AVX2 void add_half(__m256i& lanes, const char* data, size_t secret_place) noexcept {
    const __m256i value = four(data);
    const __m256i keyed = _mm256_xor_si256(value, four(&secret[secret_place]));
    const __m256i neighbours = _mm256_shuffle_epi32(value, _MM_SHUFFLE(1, 0, 3, 2));
    const __m256i mixed = _mm256_mul_epu32(keyed, _mm256_srli_epi64(keyed, 32));
    lanes = _mm256_add_epi64(lanes, _mm256_add_epi64(neighbours, mixed));
}

PENSTOCK_AVX2 void end_half(__m256i& lanes, size_t secret_place) noexcept {
    const __m256i prime = _mm256_set1_epi64x(static_cast<long long>(prime32_1));
    __m256i keyed = _mm256_xor_si256(lanes, _mm256_srli_epi64(lanes, 47));
    keyed = _mm256_xor_si256(keyed, four(&secret[secret_place]));
    const __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(keyed, 32), prime);
    lanes = _mm256_add_epi64(_mm256_mul_epu32(keyed, prime), _mm256_slli_epi64(high, 32));
}

[[gnu::target("avx2")]] void add_blocks_by_avx2(Lanes& lanes, const char* data,
                                                size_t blocks) noexcept {
    __m256i first = four(lanes.data());
    __m256i second = four(lanes.data() + 4);
    for (; blocks > 0; --blocks, data += block_size) {
        for (size_t stripe = 0; stripe < block_size / stripe_size; ++stripe) {
            const char* half = data + stripe * stripe_size;
            add_half(first, half, 8 * stripe);
            add_half(second, half + 32, 8 * stripe + 32);
        }
        end_half(first, end_of_block);
        end_half(second, end_of_block + 32);
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes.data()), first);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes.data() + 4), second);
}

#undef PENSTOCK_AVX2

// NOLINTEND(portability-simd-intrinsics)

#endif

void add_blocks(Lanes& lanes, const char* data, size_t blocks,
                [[maybe_unused]] bool portably) noexcept {
#if defined(__x86_64__)
    static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
    if (has_avx2 && !portably) {
        add_blocks_by_avx2(lanes, data, blocks);
        return;
    }
#endif
    add_blocks_portably(lanes, data, blocks);
}

} // namespace

void Xxh3::add(const char* data, size_t size) noexcept {
    if (size == 0) {
        return;
    }
    size_ += size;
    if (const size_t room = block_size - waiting_; size > room) {
        // A block is mixed only when something follows it: the end is treated in another way.
        std::memcpy(rest_.data() + waiting_, data, room);
        add_blocks(lanes_, rest_.data(), 1, portably_);
        data += room;
        size -= room;
        waiting_ = 0;
        const char* end = rest_.data() + block_size;
        if (const size_t blocks = (size - 1) / block_size; blocks > 0) {
            add_blocks(lanes_, data, blocks, portably_);
            data += blocks * block_size;
            size -= blocks * block_size;
            end = data;
        }
        std::memcpy(last_.data(), end - stripe_size, stripe_size);
    }
    std::memcpy(rest_.data() + waiting_, data, size);
    waiting_ += size;
}

std::array<char, Xxh3::digest_size> Xxh3::digest() const noexcept {
    Wide wide{};
    if (size_ <= 240) {
        wide = of_short(rest_.data(), waiting_);
    } else {
        Lanes lanes = lanes_;
        for (size_t stripe = 0; stripe < (waiting_ - 1) / stripe_size; ++stripe) {
            add_stripe(lanes, rest_.data() + stripe * stripe_size, 8 * stripe);
        }
        std::array<char, stripe_size> end{};
        const size_t of_rest = std::min(waiting_, stripe_size);
        const size_t of_last = stripe_size - of_rest;
        std::memcpy(end.data(), last_.data() + of_rest, of_last);
        std::memcpy(end.data() + of_last, rest_.data() + waiting_ - of_rest, of_rest);
        add_stripe(lanes, end.data(), end_of_block - 7);
        wide = {merged(lanes, 11, size_ * prime64_1),
                merged(lanes, end_of_block - 11, ~(size_ * prime64_2))};
    }
    std::array<char, digest_size> result{};
    put_number<std::endian::big>(put_number<std::endian::big>(result.data(), wide.high), wide.low);
    return result;
}

} // namespace penstock::python::record
