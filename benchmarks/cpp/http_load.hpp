// The load of the HTTP pages: requests on keep-alive connections, one in flight on each.
//
// The first reply is parsed: status, Content-Length, body. Every later one must be identical except
// for the value of its Date header. A body that goes both ways in parts may be cut anywhere, so
// there each reply is parsed.
#pragma once

#include "closed_loop.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace bench {

constexpr std::string_view kHead = "Host: 127.0.0.1\r\n"
                                   "User-Agent: penstock-bench\r\n"
                                   "Accept: */*\r\n";
constexpr std::string_view kStatus = "HTTP/1.1 200 ";
constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::size_t kLargestHead = 4096;
constexpr std::size_t kPart = std::size_t{64} * 1024;

// --body or --body-size say what the server replies; --fields adds so many request fields; with
// --post json or --post parts the body is sent too, as a whole or in chunks of 64 KiB.
struct HttpOptions : LoadOptions {
    std::string body;
    std::string path = "/";
    std::string post;
    std::size_t fields = 0;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--body") {
            body = text;
        } else if (name == "--body-size") {
            body = json_body(parse<std::size_t>(name, text));
        } else if (name == "--path") {
            path = text;
        } else if (name == "--post") {
            post = text;
        } else if (name == "--fields") {
            fields = parse<std::size_t>(name, text);
        } else {
            return LoadOptions::take(name, text);
        }
        return true;
    }

    void check() const {
        LoadOptions::check();
        if (body.empty()) {
            throw std::invalid_argument("--body is needed: what the server replies");
        }
        if (!post.empty() && post != "json" && post != "parts") {
            throw std::invalid_argument("--post takes json or parts");
        }
    }

    // A text of JSON of exactly `size` bytes, the same in benchmarks/web/content.py.
    static std::string json_body(std::size_t size) {
        std::string text = "{\"text\":\"";
        while (text.size() + 2 < size) {
            text += static_cast<char>('a' + text.size() % 26);
        }
        return text + "\"}";
    }

    [[nodiscard]] std::string request() const {
        std::string text = (post.empty() ? "GET " : "POST ") + path + " HTTP/1.1\r\n";
        text += kHead;
        for (std::size_t number = 3; number < fields; ++number) {
            text += "X-Field-" + std::to_string(number) + ": value " + std::to_string(number) +
                    " of a request\r\n";
        }
        if (post == "json") {
            text +=
                "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body;
        } else if (post == "parts") {
            text += "Transfer-Encoding: chunked\r\n\r\n";
            for (std::size_t begin = 0; begin < body.size(); begin += kPart) {
                const std::string part = body.substr(begin, kPart);
                std::array<char, 20> size{};
                std::snprintf(size.data(), size.size(), "%zx\r\n", part.size());
                text += size.data() + part + "\r\n";
            }
            text += "0\r\n\r\n";
        } else {
            text += "\r\n";
        }
        return text;
    }
};

// The reply that every connection expects, once one has been parsed.
class ExpectedReply {
public:
    explicit ExpectedReply(std::string body) : body_(std::move(body)) {}

    // Checks `reply`, all that has arrived so far.
    Verdict judge(std::string_view reply) {
        if (whole_.empty()) {
            const Verdict verdict = understand(reply);
            if (verdict == Verdict::complete) {
                whole_ = reply;
            }
            return verdict;
        }
        if (reply.size() > whole_.size()) {
            return Verdict::too_long;
        }
        const std::string_view due = std::string_view(whole_).substr(0, reply.size());
        const std::size_t date = std::min(date_, reply.size());
        const std::size_t after = std::min(date_ + date_size_, reply.size());
        if (reply.substr(0, date) != due.substr(0, date) ||
            reply.substr(after) != due.substr(after)) {
            return Verdict::differs;
        }
        return reply.size() == whole_.size() ? Verdict::complete : Verdict::more;
    }

private:
    Verdict understand(std::string_view reply) {
        const std::size_t head = reply.find(kEndOfHead);
        if (head == std::string_view::npos) {
            return reply.size() > kLargestHead ? Verdict::too_long : Verdict::more;
        }
        const auto [length, length_size] = header(reply.substr(0, head + 2), "content-length");
        if (reply.substr(0, kStatus.size()) != kStatus ||
            reply.substr(length, length_size) != std::to_string(body_.size())) {
            return Verdict::differs;
        }
        const std::string_view body = reply.substr(head + kEndOfHead.size());
        if (body.size() > body_.size()) {
            return Verdict::too_long;
        }
        if (body != std::string_view(body_).substr(0, body.size())) {
            return Verdict::differs;
        }
        std::tie(date_, date_size_) = header(reply.substr(0, head + 2), "date");
        return body.size() == body_.size() ? Verdict::complete : Verdict::more;
    }

    // Position and length of a header's value; a length of 0 if there is no such header.
    static std::pair<std::size_t, std::size_t> header(std::string_view head,
                                                      std::string_view name) {
        std::size_t line = 0;
        while (line < head.size()) {
            const std::size_t end = head.find("\r\n", line);
            const std::size_t colon = head.find(':', line);
            if (colon < end &&
                std::equal(
                    head.begin() + static_cast<std::ptrdiff_t>(line),
                    head.begin() + static_cast<std::ptrdiff_t>(colon), name.begin(), name.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == b; })) {
                const std::size_t value = head.find_first_not_of(' ', colon + 1);
                return {value, end - value};
            }
            line = end + 2;
        }
        return {0, 0};
    }

    std::string body_;
    std::string whole_;
    std::size_t date_ = 0;
    std::size_t date_size_ = 0;
};

// A reply whose framing may differ each time: chunks of any size, or a Content-Length.
class FreeReply {
public:
    explicit FreeReply(const std::string& body) : body_(&body) {}

    void begin() {
        state_ = State::head;
        line_.clear();
        seen_ = 0;
        left_ = 0;
    }

    Verdict take(std::string_view data) {
        while (!data.empty() && state_ != State::end) {
            if (state_ == State::body) {
                const std::string_view part = data.substr(0, left_);
                if (body_->compare(std::min(seen_, body_->size()), part.size(), part) != 0) {
                    return Verdict::differs;
                }
                seen_ += part.size();
                left_ -= part.size();
                data.remove_prefix(part.size());
                if (left_ == 0) {
                    state_ = chunked_ ? State::after_chunk : State::end;
                }
                continue;
            }
            const std::size_t end = data.find('\n');
            line_ += data.substr(0, end == std::string_view::npos ? data.size() : end + 1);
            if (line_.size() > kLargestHead) {
                return Verdict::too_long;
            }
            if (end == std::string_view::npos) {
                return Verdict::more;
            }
            data.remove_prefix(end + 1);
            if (!take_line()) {
                return Verdict::differs;
            }
        }
        if (state_ != State::end) {
            return Verdict::more;
        }
        return !data.empty()            ? Verdict::too_long
               : seen_ == body_->size() ? Verdict::complete
                                        : Verdict::differs;
    }

private:
    enum class State { head, fields, size, body, after_chunk, last, end };

    bool take_line() {
        std::string line = std::exchange(line_, {});
        for (char& letter : line) {
            letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        }
        switch (state_) {
        case State::head:
            chunked_ = false;
            state_ = State::fields;
            return line.rfind("http/1.1 200 ", 0) == 0;
        case State::fields:
            if (line == "\r\n") {
                state_ = chunked_ ? State::size : left_ == 0 ? State::end : State::body;
            } else if (line.rfind("content-length:", 0) == 0) {
                left_ = std::stoul(line.substr(15));
            } else if (line.rfind("transfer-encoding:", 0) == 0) {
                chunked_ = line.find("chunked") != std::string::npos;
            }
            return true;
        case State::size:
            left_ = std::stoul(line, nullptr, 16);
            state_ = left_ == 0 ? State::last : State::body;
            return true;
        case State::after_chunk:
            state_ = State::size;
            return line == "\r\n";
        case State::last:
            if (line == "\r\n") {
                state_ = State::end;
            }
            return true;
        default:
            return false;
        }
    }

    const std::string* body_;
    std::string line_;
    State state_ = State::head;
    bool chunked_ = false;
    std::size_t seen_ = 0;
    std::size_t left_ = 0;
};

class HttpConversation {
public:
    HttpConversation(const HttpOptions& options, const std::string& request, ExpectedReply& same)
        : request_(&request), same_(&same), free_(options.body), is_free_(options.post == "parts") {
    }

    std::string_view start(std::uint64_t) {
        reply_.clear();
        free_.begin();
        return *request_;
    }

    Verdict take(const char* data, std::size_t size, std::size_t sent) {
        if (is_free_) {
            const Verdict verdict = free_.take({data, size});
            return verdict == Verdict::complete && sent < request_->size() ? Verdict::too_long
                                                                           : verdict;
        }
        if (sent < request_->size()) {
            return Verdict::too_long; // a reply to an incomplete request
        }
        if (reply_.empty()) {
            const Verdict verdict = same_->judge({data, size});
            if (verdict != Verdict::more) {
                return verdict;
            }
        }
        reply_.append(data, size);
        return same_->judge(reply_);
    }

private:
    const std::string* request_;
    ExpectedReply* same_;
    std::string reply_;
    FreeReply free_;
    bool is_free_;
};

template <typename Channel> int run_http_load(const char* name, int argc, char** argv) {
    return run_load(name, [&] {
        const auto options = parse_options<HttpOptions>(argc, argv);
        const std::string request = options.request();
        ExpectedReply expected(options.body);
        ClosedLoop<HttpConversation, Channel>(options, [&](std::uint32_t) {
            return HttpConversation(options, request, expected);
        }).run();
    });
}

} // namespace bench
