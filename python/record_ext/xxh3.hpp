#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::python::record {

/// The digest XXH3 with 128 bits, seed 0 and the usual secret (xxhash_spec.md of the project
/// xxHash, "XXH3 Algorithm Overview"), of bytes that come in pieces. It finds accidents, not
/// intentions.
class Xxh3 {
public:
    static constexpr std::size_t digest_size = 16;
    static constexpr std::size_t stripe_size = 64;
    static constexpr std::size_t block_size = 1024; ///< a step along the secret for each stripe

    /// `portably`: without the processor's wide registers, which give the same digest faster.
    explicit Xxh3(bool portably = false) noexcept : portably_(portably) {}

    /// Adds `size` bytes.
    void add(const char* data, std::size_t size) noexcept;

    /// The digest of all bytes so far, most significant byte first; more may be added.
    [[nodiscard]] std::array<char, digest_size> digest() const noexcept;

private:
    std::array<std::uint64_t, 8> lanes_ = {
        0xC2B2AE3D,         0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
        0x85EBCA77C2B2AE63, 0x85EBCA77,         0x27D4EB2F165667C5, 0x9E3779B1};
    std::uint64_t size_ = 0;
    bool portably_;
    std::size_t waiting_ = 0;              ///< bytes in `rest_`: at least one, once there are any
    std::array<char, stripe_size> last_{}; ///< the end of the last whole block
    std::array<char, block_size> rest_{};  ///< what is behind it
};

} // namespace penstock::python::record
