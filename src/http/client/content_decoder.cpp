#include "http/client/content_decoder.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <utility>

#include <zlib.h>

#include <penstock/codec/http/fields.hpp>

namespace penstock::http::detail {

namespace {

/// More layers than this are an attack: each multiplies the work by up to a thousand.
constexpr std::size_t max_layers = 4;
constexpr std::size_t buffer_size = std::size_t{16} * 1024;
// The format of the data, added to the size of the window (zlib.h, inflateInit2).
constexpr int gzip_window = 15 + 16;
constexpr int zlib_window = 15;
constexpr int bare_window = -15;

} // namespace

/// One coding.
class ContentDecoder::Layer {
public:
    explicit Layer(bool gzip) : gzip_(gzip) {}
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;
    ~Layer() {
        if (state_ != State::untouched) {
            inflateEnd(&stream_);
        }
    }

    /// Sets `problem_` and makes nothing more when the data are damaged.
    [[nodiscard]] Step decode(Bytes from, MutableBytes into) noexcept {
        if (state_ == State::ended && !from.empty() && !begin_member(from.front())) {
            return {};
        }
        if (state_ == State::untouched && !from.empty() && !begin(from.front())) {
            return {};
        }
        if (state_ != State::inside || into.empty()) {
            return {};
        }
        constexpr std::size_t most = std::numeric_limits<uInt>::max();
        const auto given = static_cast<uInt>(std::min(from.size(), most));
        const auto room = static_cast<uInt>(std::min(into.size(), most));
        // zlib does not write to its input; its type is from before C had const.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(from.data()));
        stream_.avail_in = given;
        stream_.next_out = reinterpret_cast<Bytef*>(into.data());
        stream_.avail_out = room;
        const int code = inflate(&stream_, Z_NO_FLUSH);
        if (code == Z_STREAM_END) {
            state_ = State::ended;
        } else if (code != Z_OK && code != Z_BUF_ERROR) { // that one asks for more input
            out_of_memory_ = code == Z_MEM_ERROR;
            refuse(stream_.msg != nullptr ? stream_.msg : "damaged");
        }
        const Step step{.taken = given - stream_.avail_in, .made = room - stream_.avail_out};
        stream_.next_in = nullptr;
        stream_.next_out = nullptr;
        return step;
    }

    [[nodiscard]] bool complete() const noexcept {
        return state_ == State::untouched || state_ == State::ended;
    }
    [[nodiscard]] std::string_view name() const noexcept { return gzip_ ? "gzip" : "deflate"; }
    [[nodiscard]] const char* problem() const noexcept { return problem_; }
    [[nodiscard]] bool out_of_memory() const noexcept { return out_of_memory_; }

    // What the layer before it has made, and this one has not taken.
    std::array<std::byte, buffer_size> buffer; // NOLINT(cppcoreguidelines-pro-type-member-init)
    std::size_t kept_begin = 0;
    std::size_t kept_end = 0;
    [[nodiscard]] Bytes kept() const noexcept {
        return {buffer.data() + kept_begin, kept_end - kept_begin};
    }

private:
    enum class State : std::uint8_t { untouched, inside, ended, refused };

    /// The low four bits of a zlib header's first byte are 8. A bare stream that begins so would
    /// have a stored block with a bit set that encoders leave unset.
    [[nodiscard]] bool begin(std::byte first) noexcept {
        const bool has_header = (first & std::byte{0x0f}) == std::byte{8};
        const int window = gzip_ ? gzip_window : (has_header ? zlib_window : bare_window);
        if (inflateInit2(&stream_, window) != Z_OK) {
            out_of_memory_ = true;
            refuse("no memory for zlib");
            state_ = State::untouched; // zlib has nothing to free
            return false;
        }
        state_ = State::inside;
        return true;
    }

    /// Behind the end of a gzip member there may be another one (RFC 1952, section 2.2).
    [[nodiscard]] bool begin_member(std::byte first) noexcept {
        if (!gzip_ || first != std::byte{0x1f}) {
            refuse("bytes behind its end");
            return false;
        }
        inflateReset(&stream_);
        state_ = State::inside;
        return true;
    }

    void refuse(const char* problem) noexcept {
        problem_ = problem;
        state_ = State::refused;
    }

    z_stream stream_{};
    State state_ = State::untouched;
    bool gzip_;
    bool out_of_memory_ = false;
    const char* problem_ = nullptr; ///< a text of zlib or of this file
};

std::unique_ptr<ContentDecoder> ContentDecoder::make(const Headers& headers) {
    std::unique_ptr<ContentDecoder> decoder;
    for (const Field& field : headers) {
        if (!codec::http::equal_ignoring_case(field.name, "Content-Encoding")) {
            continue;
        }
        std::string_view rest = field.value;
        for (auto coding = codec::http::next_list_element(rest); !coding.empty();
             coding = codec::http::next_list_element(rest)) {
            const auto is = [&](std::string_view name) {
                return codec::http::equal_ignoring_case(coding, name);
            };
            if (is("identity")) {
                continue;
            }
            if (!decoder) {
                decoder.reset(new ContentDecoder());
            }
            const bool gzip = is("gzip") || is("x-gzip"); // RFC 9110, section 8.4.1.3
            if ((gzip || is("deflate")) && decoder->layers_.size() < max_layers) {
                decoder->layers_.insert(decoder->layers_.begin(), std::make_unique<Layer>(gzip));
            } else if (decoder->unknown_.empty()) {
                decoder->unknown_ = coding;
            }
        }
    }
    return decoder;
}

ContentDecoder::~ContentDecoder() = default;

void ContentDecoder::fail(std::string_view coding, std::string_view what,
                          std::string_view why) noexcept {
    failed_ = true;
    try {
        error_.append(coding).append(what).append(why);
    } catch (...) { // the code alone tells it
        error_.clear();
    }
}

ContentDecoder::Step ContentDecoder::decode(Bytes from, MutableBytes into) noexcept {
    if (failed_) {
        return {};
    }
    if (!unknown_.empty()) {
        if (!from.empty()) {
            fail("Content-Encoding: ", unknown_,
                 layers_.size() == max_layers ? ", too many codings" : ", was not asked for");
        }
        return {};
    }
    return decode_layer(layers_.size() - 1, from, into);
}

/// The last layer makes the body. Each takes from the one before it, the first from `from`.
ContentDecoder::Step ContentDecoder::decode_layer(std::size_t number, Bytes from,
                                                  MutableBytes into) noexcept {
    Layer& layer = *layers_[number];
    const bool first = number == 0;
    std::size_t taken = 0;
    for (;;) {
        const Step step = layer.decode(first ? from.subspan(taken) : layer.kept(), into);
        (first ? taken : layer.kept_begin) += step.taken;
        if (layer.problem() != nullptr && !failed_) {
            out_of_memory_ = layer.out_of_memory();
            fail(layer.name(), ": ", layer.problem());
        }
        if (failed_) {
            return {.taken = taken};
        }
        if (step.made != 0) {
            return {.taken = taken, .made = step.made};
        }
        if (step.taken != 0) { // a header, or the end of a member
            continue;
        }
        if (first) {
            return {.taken = taken};
        }
        const Step input = decode_layer(number - 1, from.subspan(taken), layer.buffer);
        taken += input.taken;
        layer.kept_begin = 0;
        layer.kept_end = input.made;
        if (input.made == 0) {
            return {.taken = taken};
        }
    }
}

void ContentDecoder::end() noexcept {
    for (const auto& layer : layers_) {
        if (!failed_ && !layer->complete()) {
            fail(layer->name(), ": ", "it ends before its own end");
        }
    }
}

} // namespace penstock::http::detail
