#include <penstock/codec/websocket/shared_deflate.hpp>

#include <utility>

#include "codec/idle_states.hpp"

namespace penstock::codec::websocket {

namespace {

struct DeflaterKey {
    int window_bits = 0;
    int level = 0;
    int memory_level = 0;

    bool operator==(const DeflaterKey&) const = default;
};

DeflaterKey key_of(int window_bits, const Deflater::Options& options) noexcept {
    return {
        .window_bits = window_bits, .level = options.level, .memory_level = options.memory_level};
}

thread_local IdleStates<Deflater, DeflaterKey> idle_deflaters;
thread_local IdleStates<Inflater, int> idle_inflaters;

} // namespace

SharedDeflater::SharedDeflater(int window_bits, Deflater::Options options) noexcept
    : options_(options), window_bits_(window_bits) {}
SharedDeflater::~SharedDeflater() = default;

void SharedDeflater::deflate(std::span<const std::byte> data, bool last, ByteBuffer& output) {
    if (!lent_) {
        lent_ = idle_deflaters.take(key_of(window_bits_, options_));
    }
    if (!lent_) {
        lent_ = std::make_unique<Deflater>(window_bits_, true, options_);
    }
    lent_->deflate(data, last, output);
    if (last) {
        idle_deflaters.give(key_of(window_bits_, options_), std::move(lent_));
    }
}

SharedInflater::SharedInflater(int window_bits) noexcept : window_bits_(window_bits) {}
SharedInflater::~SharedInflater() = default;

MessageInflater::Outcome SharedInflater::inflate(std::span<const std::byte> data, bool last,
                                                 ByteBuffer& output, std::uint64_t limit) {
    if (!lent_) {
        lent_ = idle_inflaters.take(window_bits_);
    }
    if (!lent_) {
        lent_ = std::make_unique<Inflater>(window_bits_, true);
    }
    const Outcome outcome = lent_->inflate(data, last, output, limit);
    if (outcome != Outcome::done) {
        lent_.reset(); // its state is in the middle of what was refused
    } else if (last) {
        idle_inflaters.give(window_bits_, std::move(lent_));
    }
    return outcome;
}

} // namespace penstock::codec::websocket
