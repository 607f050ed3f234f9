// The load of the WebSocket pages: binary messages on connections that stay open, one in flight on
// each.
//
// It shares no code with the measured libraries. Each message has its number in its first bytes and
// a fresh mask; the reply must be one unmasked frame with the same payload and of the same kind.
// With --text 1 the messages are texts. With --deflate 1 they are JSON texts, each compressed by
// itself, and the reply is decompressed before it is compared.

#include "closed_loop.hpp"
#include "plain_channel.hpp"

#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <string>

#include <zlib.h>

namespace {

using bench::Verdict;

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\n"
                                      "Host: 127.0.0.1\r\n"
                                      "Upgrade: websocket\r\n"
                                      "Connection: Upgrade\r\n"
                                      "Sec-WebSocket-Version: 13\r\n"
                                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
constexpr std::string_view kOffer = "Sec-WebSocket-Extensions: permessage-deflate; "
                                    "client_no_context_takeover; client_max_window_bits\r\n";
constexpr std::string_view kStatus = "HTTP/1.1 101 ";
constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::size_t kLargestHead = 4096;
constexpr char kFinalText = '\x81';
constexpr char kFinalBinary = '\x82';
constexpr char kFinalCompressedText = '\xc1';
constexpr unsigned char kMasked = 0x80;

struct WebSocketOptions : bench::LoadOptions {
    std::size_t size = 256;
    bool deflate = false;
    bool text = false;

    bool take(std::string_view name, std::string_view value) {
        if (name == "--size") {
            size = std::stoul(std::string(value));
            return true;
        }
        if (name == "--deflate") {
            deflate = value == "1";
            return true;
        }
        if (name == "--text") {
            text = value == "1";
            return true;
        }
        return LoadOptions::take(name, value);
    }

    void check() const {
        LoadOptions::check();
        if (size < 32) {
            throw std::invalid_argument("--size is at least 32");
        }
    }
};

// The first two bytes of a frame and the size, in its shortest form (RFC 6455, 5.2).
std::string frame_header(char first, unsigned char mask, std::size_t size) {
    std::string header{first};
    const int digits = size < 126 ? 0 : size < 65536 ? 2 : 8;
    header += static_cast<char>(mask | (digits == 0   ? static_cast<unsigned char>(size)
                                        : digits == 2 ? 126
                                                      : 127));
    for (int i = digits - 1; i >= 0; --i) {
        header += static_cast<char>(size >> (8 * i));
    }
    return header;
}

// A text like those of web applications, of exactly `size` bytes.
std::string json_text(std::size_t size) {
    std::string text = "[";
    for (unsigned i = 0; text.size() < size; ++i) {
        const unsigned mixed = i * 2654435761U;
        text += R"({"id":)" + std::to_string(mixed % 100000) + R"(,"name":"sensor )" +
                std::to_string(i) + R"(","unit":"kPa","value":)" + std::to_string(mixed % 9973) +
                "." + std::to_string(mixed % 97) + R"(,"ok":true},)";
    }
    text.resize(size - 1);
    return text + "]";
}

// Raw deflate streams, as permessage-deflate wants them (RFC 7692, 7.2).
class Deflater {
public:
    Deflater() {
        if (deflateInit2(&out_, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
            inflateInit2(&in_, -15) != Z_OK) {
            throw std::runtime_error("zlib has failed");
        }
    }
    Deflater(const Deflater&) = delete;
    Deflater& operator=(const Deflater&) = delete;
    ~Deflater() {
        deflateEnd(&out_);
        inflateEnd(&in_);
    }

    std::string_view compress(const std::string& text) {
        deflateReset(&out_);
        room_.resize(text.size() + 64);
        out_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
        out_.avail_in = static_cast<uInt>(text.size());
        out_.next_out = reinterpret_cast<Bytef*>(room_.data());
        out_.avail_out = static_cast<uInt>(room_.size());
        deflate(&out_, Z_SYNC_FLUSH);
        return {room_.data(), room_.size() - out_.avail_out - 4};
    }

    // The window stays: a server may refer to its earlier messages.
    std::string_view decompress(std::string_view data, std::size_t limit) {
        room_.resize(limit + 1);
        in_.next_out = reinterpret_cast<Bytef*>(room_.data());
        in_.avail_out = static_cast<uInt>(room_.size());
        for (const std::string_view part : {data, std::string_view("\0\0\xff\xff", 4)}) {
            in_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
            in_.avail_in = static_cast<uInt>(part.size());
            // A server that begins each message anew may end its block as the last of a stream
            // (RFC 7692, 7.2.3.4); what follows is another stream.
            while (inflate(&in_, Z_SYNC_FLUSH) == Z_STREAM_END) {
                inflateReset(&in_);
                if (in_.avail_in == 0) {
                    break;
                }
            }
        }
        return {room_.data(), room_.size() - in_.avail_out};
    }

private:
    z_stream out_{};
    z_stream in_{};
    std::string room_;
};

class WebSocketConversation {
public:
    explicit WebSocketConversation(const WebSocketOptions& options)
        : size_(options.size), opcode_(options.text ? kFinalText : kFinalBinary),
          request_(std::string(kRequest) + std::string(options.deflate ? kOffer : "") + "\r\n") {
        if (options.deflate) {
            deflater_ = std::make_unique<Deflater>();
            payload_ = json_text(size_);
        } else {
            payload_ = std::string(size_, 'x');
            expected_ = frame_header(opcode_, 0, size_) + payload_;
        }
    }

    std::string_view start(std::uint64_t counter) {
        reply_.clear();
        opening_ = counter_ == 0;
        counter_ = counter;
        if (opening_) {
            return request_;
        }
        seed_ = seed_ * 6364136223846793005U + 1442695040888963407U;
        if (deflater_) {
            const std::string digits = std::to_string(counter);
            payload_.replace(7, digits.size(), digits); // in the first "id"
            mask(kFinalCompressedText, deflater_->compress(payload_));
        } else {
            number(expected_.data() + expected_.size() - size_);
            mask(opcode_, std::string_view(expected_).substr(expected_.size() - size_));
        }
        return sent_;
    }

    Verdict take(const char* data, std::size_t size, std::size_t sent) {
        if (sent < (opening_ ? request_.size() : sent_.size())) {
            return Verdict::too_long; // a reply to an incomplete message
        }
        reply_.append(data, size);
        return opening_ ? judge_head() : deflater_ ? judge_compressed() : judge_frame();
    }

private:
    void number(char* payload) const {
        if (opcode_ == kFinalText) {
            std::to_chars(payload, payload + std::numeric_limits<std::uint64_t>::digits10 + 1,
                          counter_);
        } else {
            std::memcpy(payload, &counter_, sizeof counter_);
        }
    }

    void mask(char first, std::string_view payload) {
        const auto key = static_cast<std::uint32_t>(seed_ >> 32);
        sent_ = frame_header(first, kMasked, payload.size());
        sent_.append(reinterpret_cast<const char*>(&key), sizeof key);
        const std::size_t begin = sent_.size();
        sent_.append(payload);
        // Whole words first, which the compiler turns into vectors: a slow client would let the
        // server wait for each message, and its waits would count as its costs.
        char* const masked = sent_.data() + begin;
        const std::size_t words = payload.size() / sizeof key;
        for (std::size_t i = 0; i < words; ++i) {
            std::uint32_t word = 0;
            std::memcpy(&word, masked + i * sizeof key, sizeof key);
            word ^= key;
            std::memcpy(masked + i * sizeof key, &word, sizeof key);
        }
        for (std::size_t i = words * sizeof key; i < payload.size(); ++i) {
            masked[i] = static_cast<char>(masked[i] ^ static_cast<char>(key >> (i % 4 * 8)));
        }
    }

    Verdict judge_head() const {
        const std::size_t head = reply_.find(kEndOfHead);
        if (head == std::string::npos) {
            return reply_.size() > kLargestHead ? Verdict::too_long : Verdict::more;
        }
        const bool accepted =
            reply_.compare(0, kStatus.size(), kStatus) == 0 &&
            reply_.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") != std::string::npos &&
            (!deflater_ || reply_.find("permessage-deflate") != std::string::npos);
        return !accepted                                  ? Verdict::differs
               : head + kEndOfHead.size() < reply_.size() ? Verdict::too_long
                                                          : Verdict::complete;
    }

    Verdict judge_frame() const {
        if (reply_.size() > expected_.size()) {
            return Verdict::too_long;
        }
        if (expected_.compare(0, reply_.size(), reply_) != 0) {
            return Verdict::differs;
        }
        return reply_.size() == expected_.size() ? Verdict::complete : Verdict::more;
    }

    // A reply of less than 64 KiB.
    Verdict judge_compressed() {
        if (reply_.size() < 2) {
            return Verdict::more;
        }
        std::size_t size = static_cast<unsigned char>(reply_[1]);
        std::size_t begin = 2;
        if (size == 126) {
            if (reply_.size() < 4) {
                return Verdict::more;
            }
            size = static_cast<unsigned char>(reply_[2]) * 256U +
                   static_cast<unsigned char>(reply_[3]);
            begin = 4;
        }
        if (reply_[0] != kFinalCompressedText || size > 126 * 256) {
            return Verdict::differs; // not compressed, or larger than what was sent
        }
        if (reply_.size() < begin + size) {
            return Verdict::more;
        }
        if (reply_.size() > begin + size) {
            return Verdict::too_long;
        }
        return deflater_->decompress(std::string_view(reply_).substr(begin), size_) == payload_
                   ? Verdict::complete
                   : Verdict::differs;
    }

    std::size_t size_;
    char opcode_;
    std::string request_;
    std::string payload_;
    std::string expected_;
    std::string sent_;
    std::string reply_;
    std::unique_ptr<Deflater> deflater_;
    std::uint64_t counter_ = 0;
    std::uint64_t seed_ = 1;
    bool opening_ = true;
};

} // namespace

int main(int argc, char** argv) {
    return bench::run_load("websocket_client", [&] {
        const auto options = bench::parse_options<WebSocketOptions>(argc, argv);
        bench::ClosedLoop<WebSocketConversation, bench::PlainChannel>(options, [&](std::uint32_t) {
            return WebSocketConversation(options);
        }).run();
    });
}
