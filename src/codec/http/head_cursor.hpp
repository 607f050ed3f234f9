#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <penstock/codec/http/head.hpp>
#include <penstock/codec/http/limits.hpp>

namespace penstock::codec::http {

/// A position in a buffer that holds a head, and what requests and responses have in common: line
/// ends, the version, fields, and the fields that say where the body ends.
///
/// Functions that return bool return false if there is an error or more bytes are needed; `error`
/// and `more` tell which.
class HeadCursor {
public:
    enum class Of : std::uint8_t { request, response, trailers };

    HeadCursor(Of of, std::string_view data, const Limits& limits) noexcept
        : of_(of), begin_(data.data()), position_(data.data()), end_(data.data() + data.size()),
          line_(data.data()), limits_(limits) {}

    /// What the fields say about connection and body, before it is judged.
    struct Framing {
        std::string_view host;
        std::uint64_t content_length = 0;
        bool has_host = false;
        bool has_content_length = false;
        bool has_transfer_encoding = false;
        bool chunked = false;       ///< it is the last transfer coding
        bool chunked_early = false; ///< another one, or the same again, follows it
        bool other_coding = false;
        bool close = false;
        bool keep_alive = false;
        bool upgrade_token = false;
        bool upgrade_field = false;
        bool expect_continue = false;
        bool expects_other = false;

        /// Why the transfer codings, of which there are some, are refused.
        [[nodiscard]] Error coding_error() const noexcept {
            if (!chunked || chunked_early) {
                return Error::invalid_transfer_coding;
            }
            return other_coding ? Error::unsupported_transfer_coding : Error::none;
        }
    };

    /// Parses field lines up to the empty line. `count` receives the number of fields.
    [[nodiscard]] bool fields(std::span<Field> storage, std::size_t& count) noexcept;

    [[nodiscard]] bool version(int& minor) noexcept;
    [[nodiscard]] bool line_end() noexcept;
    /// The characters up to one that is not of that class, which must be there.
    [[nodiscard]] bool run(int kind, std::string_view& text) noexcept;
    /// The characters up to a control character other than HTAB, which must be there.
    [[nodiscard]] bool text_until_control(std::string_view& text) noexcept;
    [[nodiscard]] bool character(char wanted, Error otherwise) noexcept;
    [[nodiscard]] bool skip_empty_line() noexcept;

    [[nodiscard]] bool fail(Error reason) noexcept {
        error = reason;
        return false;
    }
    [[nodiscard]] bool need_more() noexcept;
    [[nodiscard]] char peek() const noexcept { return *position_; }
    [[nodiscard]] std::size_t consumed() const noexcept {
        return static_cast<std::size_t>(position_ - begin_);
    }

    Framing framing;
    Error error = Error::none;
    bool more = false;

private:
    [[nodiscard]] bool field(Field& field) noexcept;
    [[nodiscard]] bool interpret(const Field& field) noexcept;
    [[nodiscard]] bool content_length(std::string_view value) noexcept;
    [[nodiscard]] bool transfer_encoding(std::string_view value) noexcept;
    void expect(std::string_view value) noexcept;
    [[nodiscard]] bool within_limits() noexcept;

    Of of_;
    const char* begin_;
    const char* position_;
    const char* end_;
    const char* line_;
    const Limits& limits_;
};

/// Whether a connection stays open after a message (RFC 9112, 9.3).
[[nodiscard]] inline bool keeps_alive(const HeadCursor::Framing& framing,
                                      int minor_version) noexcept {
    return !framing.close && (minor_version >= 1 || framing.keep_alive);
}

} // namespace penstock::codec::http
