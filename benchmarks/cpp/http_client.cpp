// The load of the http page: GET requests on keep-alive connections, one in flight on each.
//
// The first reply is parsed: status, Content-Length, body. Every later one must be identical except
// for the value of its Date header.

#include "closed_loop.hpp"
#include "plain_channel.hpp"

#include <algorithm>
#include <cctype>
#include <tuple>
#include <utility>

namespace {

using bench::Verdict;

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\n"
                                      "Host: 127.0.0.1\r\n"
                                      "User-Agent: penstock-bench\r\n"
                                      "Accept: */*\r\n"
                                      "\r\n";
constexpr std::string_view kStatus = "HTTP/1.1 200 OK\r\n";
constexpr std::string_view kEndOfHead = "\r\n\r\n";
constexpr std::size_t kLargestHead = 4096;

struct HttpOptions : bench::LoadOptions {
    std::string body;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--body") {
            body = text;
            return true;
        }
        return LoadOptions::take(name, text);
    }

    void check() const {
        LoadOptions::check();
        if (body.empty()) {
            throw std::invalid_argument("--body is needed: what the server replies");
        }
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

class HttpConversation {
public:
    explicit HttpConversation(ExpectedReply& expected) : expected_(&expected) {}

    std::string_view start(std::uint64_t) {
        reply_.clear();
        return kRequest;
    }

    Verdict take(const char* data, std::size_t size, std::size_t sent) {
        if (sent < kRequest.size()) {
            return Verdict::too_long; // a reply to an incomplete request
        }
        if (reply_.empty()) {
            const Verdict verdict = expected_->judge({data, size});
            if (verdict != Verdict::more) {
                return verdict;
            }
        }
        reply_.append(data, size);
        return expected_->judge(reply_);
    }

private:
    ExpectedReply* expected_;
    std::string reply_;
};

} // namespace

int main(int argc, char** argv) {
    return bench::run_load("http_client", [&] {
        const auto options = bench::parse_options<HttpOptions>(argc, argv);
        ExpectedReply expected(options.body);
        bench::ClosedLoop<HttpConversation, bench::PlainChannel>(options, [&](std::uint32_t) {
            return HttpConversation(expected);
        }).run();
    });
}
