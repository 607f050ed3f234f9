#include <penstock/codec/http/content_encoder.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include <zlib.h>

#include "codec/idle_states.hpp"

namespace penstock::codec::http {

namespace {

/// zlib's state. It knows the address of its stream, so it cannot be moved.
class GzipState {
public:
    explicit GzipState(int level) {
        constexpr int gzip_window = 15 + 16; // zlib.h, deflateInit2
        constexpr int memory_level = 8;
        if (deflateInit2(&stream_, level, Z_DEFLATED, gzip_window, memory_level,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
            throw std::bad_alloc(); // all else is right
        }
    }
    GzipState(const GzipState&) = delete;
    GzipState& operator=(const GzipState&) = delete;
    ~GzipState() { deflateEnd(&stream_); }

    [[nodiscard]] z_stream& stream() noexcept { return stream_; }

    /// Makes it as a new one.
    [[nodiscard]] bool reset() noexcept { return deflateReset(&stream_) == Z_OK; }

private:
    z_stream stream_{};
};

thread_local IdleStates<GzipState, int> idle_states;

class GzipEncoder final : public ContentEncoder {
public:
    explicit GzipEncoder(int level) : level_(level), state_(idle_states.take(level)) {
        if (!state_) {
            state_ = std::make_unique<GzipState>(level);
        }
    }

    void encode(std::span<const std::byte> part, std::string& output) override {
        run(part, Z_SYNC_FLUSH, output);
    }
    void finish(std::span<const std::byte> part, std::string& output) override {
        run(part, Z_FINISH, output);
        if (state_->reset()) {
            idle_states.give(level_, std::move(state_));
        }
    }

private:
    void run(std::span<const std::byte> part, int flush, std::string& output) {
        constexpr std::size_t most = std::numeric_limits<uInt>::max();
        z_stream& stream = state_->stream();
        do {
            const auto given = static_cast<uInt>(std::min(part.size(), most));
            // zlib does not write to its input; its type is from before C had const.
            stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
            stream.avail_in = given;
            part = part.subspan(given);
            run_one(part.empty() ? flush : Z_NO_FLUSH, output);
        } while (!part.empty());
        stream.next_in = nullptr;
    }

    /// Until there is room left in the output, which is when zlib has nothing more to say.
    void run_one(int flush, std::string& output) {
        constexpr std::size_t room = std::size_t{16} * 1024;
        z_stream& stream = state_->stream();
        bool full = false;
        do {
            const std::size_t used = output.size();
            output.resize(used + std::min<std::size_t>(room, stream.avail_in / 2 + 256));
            stream.next_out = reinterpret_cast<Bytef*>(output.data() + used);
            stream.avail_out = static_cast<uInt>(output.size() - used);
            (void)deflate(&stream, flush);
            full = stream.avail_out == 0;
            output.resize(output.size() - stream.avail_out);
        } while (full);
        stream.next_out = nullptr;
    }

    int level_;
    std::unique_ptr<GzipState> state_;
};

} // namespace

ContentCoding gzip(int level) {
    return {.name = "gzip", .make = [level = std::clamp(level, 1, 9)] {
                return std::make_unique<GzipEncoder>(level);
            }};
}

std::vector<ContentCoding> all_codings() {
    std::vector<ContentCoding> codings;
    for (std::optional<ContentCoding>& each : std::array{zstd(), brotli()}) {
        if (each) {
            codings.push_back(std::move(*each));
        }
    }
    codings.push_back(gzip());
    return codings;
}

} // namespace penstock::codec::http
