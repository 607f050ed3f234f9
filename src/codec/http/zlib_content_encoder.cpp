#include <penstock/codec/http/content_encoder.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include <zlib.h>

namespace penstock::codec::http {

namespace {

class GzipEncoder final : public ContentEncoder {
public:
    explicit GzipEncoder(int level) {
        constexpr int gzip_window = 15 + 16; // zlib.h, deflateInit2
        constexpr int memory_level = 8;
        if (deflateInit2(&stream_, level, Z_DEFLATED, gzip_window, memory_level,
                         Z_DEFAULT_STRATEGY) != Z_OK) {
            throw std::bad_alloc(); // all else is right
        }
    }
    GzipEncoder(const GzipEncoder&) = delete;
    GzipEncoder& operator=(const GzipEncoder&) = delete;
    ~GzipEncoder() override { deflateEnd(&stream_); }

    void encode(std::span<const std::byte> part, std::string& output) override {
        run(part, Z_SYNC_FLUSH, output);
    }
    void finish(std::span<const std::byte> part, std::string& output) override {
        run(part, Z_FINISH, output);
    }

private:
    void run(std::span<const std::byte> part, int flush, std::string& output) {
        constexpr std::size_t most = std::numeric_limits<uInt>::max();
        do {
            const auto given = static_cast<uInt>(std::min(part.size(), most));
            // zlib does not write to its input; its type is from before C had const.
            stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(part.data()));
            stream_.avail_in = given;
            part = part.subspan(given);
            run_one(part.empty() ? flush : Z_NO_FLUSH, output);
        } while (!part.empty());
        stream_.next_in = nullptr;
    }

    /// Until there is room left in the output, which is when zlib has nothing more to say.
    void run_one(int flush, std::string& output) {
        constexpr std::size_t room = std::size_t{16} * 1024;
        do {
            const std::size_t used = output.size();
            output.resize(used + std::min<std::size_t>(room, stream_.avail_in / 2 + 256));
            stream_.next_out = reinterpret_cast<Bytef*>(output.data() + used);
            stream_.avail_out = static_cast<uInt>(output.size() - used);
            (void)deflate(&stream_, flush);
            full_ = stream_.avail_out == 0;
            output.resize(output.size() - stream_.avail_out);
        } while (full_);
        stream_.next_out = nullptr;
    }

    z_stream stream_{};
    bool full_ = false;
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
