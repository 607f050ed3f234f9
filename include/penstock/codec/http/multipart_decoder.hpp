#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/codec/http/form.hpp>

namespace penstock::codec::http {

/// What the fields of a part say (RFC 7578, section 4).
struct FormPart {
    /// Percent signs for a quotation mark, CR and LF, by which browsers send these, are decoded.
    std::string name;
    /// As the client has sent it, so possibly with folders: see `base_name`. That of `filename*`
    /// (RFC 8187) only if there is no `filename`, since a form must not have the former.
    std::optional<std::string> file_name;
    /// "text/plain" if the part does not say.
    std::string content_type;
};

/// The boundary of a Content-Type: "x" for `multipart/form-data; boundary=x`. Nothing for another
/// type, and without a boundary that RFC 2046, 5.1.1, allows. Throws `std::bad_alloc`.
[[nodiscard]] std::optional<std::string> multipart_boundary(std::string_view content_type);

/// Splits multipart/form-data (RFC 7578, RFC 2046) into parts, and finds their content without
/// copying it. It keeps the head of one part only.
///
///     http::MultipartDecoder form(*http::multipart_boundary(content_type));
///     for (;;) {
///         const auto event = form.next(received);   // takes what it used from the front
///         if (event.kind == Kind::part) begin(form.part());
///         else if (event.kind == Kind::data) use(event.data);
///         else if (event.kind == Kind::part_end) end();
///         else break;                               // incomplete or failed
///     }                                             // and form.finish() when the body has ended
///
/// The events do not depend on how the input is split, but for the borders of `data`. Lines must
/// end with CRLF. A line that begins with the delimiter and goes on with anything but spaces is
/// refused: RFC 2046 forbids it, and two recipients would understand it in two ways. A form without
/// parts is accepted, since browsers send it. `next` throws `std::bad_alloc`.
class MultipartDecoder {
public:
    struct Event {
        enum class Kind : std::uint8_t {
            incomplete, ///< all input is taken, and more is needed
            part,       ///< `part()`: the fields of the part that begins
            data,       ///< `data`: some of the part's content, never empty
            part_end,   ///< the content of the part is complete
            failed,     ///< `error()` gives the reason
        };
        Kind kind = Kind::incomplete;
        std::string_view data; ///< of the input, or of the decoder until the next call
    };

    /// `boundary` as from `multipart_boundary`.
    explicit MultipartDecoder(std::string_view boundary, const FormLimits& limits = {});

    /// Takes the next event from the front of `input`.
    [[nodiscard]] Event next(std::string_view& input);

    /// The body has ended. True if the form is complete; otherwise it has failed.
    [[nodiscard]] bool finish() noexcept;

    /// Valid until the next part.
    [[nodiscard]] const FormPart& part() const noexcept { return part_; }
    [[nodiscard]] FormError error() const noexcept { return error_; }

private:
    enum class State : std::uint8_t {
        preamble,
        content,
        delimiter, ///< whole, and something must follow
        padding,
        line_feed,
        head,
        closing_hyphen,
        closing_padding,
        closing_line_feed,
        epilogue,
        failed,
    };

    [[nodiscard]] Event step(std::string_view& input);
    [[nodiscard]] Event search(std::string_view& input) noexcept;
    [[nodiscard]] Event content(std::string_view data) noexcept;
    [[nodiscard]] bool pass(char c) noexcept;
    [[nodiscard]] bool begin_head() noexcept;
    [[nodiscard]] Event take_head(std::string_view& input);
    [[nodiscard]] bool skip(std::size_t size) noexcept;
    bool fail(FormError error) noexcept;
    [[nodiscard]] Event failed(FormError error) noexcept;

    FormLimits limits_;
    std::string delimiter_; // CRLF, two hyphens, the boundary
    State state_ = State::preamble;
    FormError error_ = FormError::none;
    // How much of the delimiter has been seen, and how much of that is not content: the CRLF before
    // the first line, which is not there.
    std::size_t matched_ = 2;
    std::size_t imagined_ = 2;
    std::string head_;
    FormPart part_;
    std::size_t parts_ = 0;
    std::uint64_t part_size_ = 0;
    std::uint64_t part_limit_ = 0;
    std::size_t skipped_ = 0;
    std::uint64_t total_ = 0;
};

} // namespace penstock::codec::http
