#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/codec/http/form.hpp>
#include <penstock/codec/http/multipart_decoder.hpp>
#include <penstock/codec/http/urlencoded_decoder.hpp>
#include <penstock/http/request.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

/// Why a form is refused.
using FormError = codec::http::FormError;
/// The limits of a form. `RouteOptions::body_limit` holds too.
using FormLimits = codec::http::FormLimits;

/// The category of forms that are refused, a `RefusalCategory`: the server answers a handler that
/// returns a `FormError` with 400, 413 or 415. Its name is "penstock.http.form".
[[nodiscard]] const std::error_category& form_category() noexcept;

/// The parts of a request's multipart/form-data (RFC 7578), as they arrive. Nothing is stored: the
/// client sends as fast as the handler reads.
///
///     http::MultipartForm form(request);
///     while (std::optional part = co_await unwrap(form.next())) {
///         if (part->file_name()) {
///             co_await unwrap(copy(*part, file));
///         } else {
///             values[std::string(part->name())] = co_await unwrap(part->text());
///         }
///     }
///
/// The client chooses the file name, so never open a file by it. `Part::base_name` has no folders.
///
/// Thread safety: only on the thread of the request's connection. One task at a time may read.
class MultipartForm {
public:
    /// A part: a `Reader`, so that `copy`, `read_all` and `BufReader` take it. It is valid until
    /// the form's next `next`: reading it later throws `std::logic_error`.
    class Part {
    public:
        [[nodiscard]] std::string_view name() const noexcept { return fields().name; }
        /// The file name as the client has sent it. Empty for a part that is not a file.
        [[nodiscard]] std::optional<std::string_view> file_name() const noexcept {
            return fields().file_name;
        }
        /// The last segment of the file name: see `codec::http::base_name`. Throws
        /// `std::bad_alloc`.
        [[nodiscard]] std::string base_name() const {
            return codec::http::base_name(file_name().value_or(std::string_view()));
        }
        /// "text/plain" if the part does not say.
        [[nodiscard]] std::string_view content_type() const noexcept {
            return fields().content_type;
        }

        /// Waits for some of the content and returns its size. 0 is the end of the part.
        ///
        /// Errors: those of `Request::read`, and `FormError`. They are final for the form.
        ///
        /// Cancellation: a cancelled read has consumed nothing.
        [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);

        /// The same without a copy. Empty at the end. The bytes are valid until the next read.
        [[nodiscard]] Task<Result<Bytes>> receive();

        /// Reads the rest of the part, which `FormLimits::value` or `FormLimits::file` bounds.
        /// Errors: as `read`. Throws `std::bad_alloc`.
        [[nodiscard]] Task<Result<std::string>> text();

    private:
        friend class MultipartForm;
        Part(MultipartForm& form, std::uint64_t number) noexcept : form_(&form), number_(number) {}

        [[nodiscard]] const codec::http::FormPart& fields() const noexcept;
        void require_current() const;

        MultipartForm* form_;
        std::uint64_t number_;
    };

    /// Takes a request of any Content-Type: `next` returns `FormError::unsupported_type` for one
    /// that is not a form's. The request must outlive the form. Throws `std::bad_alloc`.
    explicit MultipartForm(Request& request, const FormLimits& limits = {});
    MultipartForm(const MultipartForm&) = delete;
    MultipartForm& operator=(const MultipartForm&) = delete;

    /// Skips what was not read of the last part, and waits for the next one. Empty at the end of
    /// the form. Errors and cancellation: as `Part::read`.
    [[nodiscard]] Task<Result<std::optional<Part>>> next();

private:
    enum class Place : std::uint8_t { between, in_part, ended };

    [[nodiscard]] Task<Result<bool>> advance();

    Request& request_;
    codec::http::MultipartDecoder decoder_;
    std::error_code error_;
    std::string_view rest_;    // of what was received
    std::string_view content_; // of the part, not read yet
    Place place_ = Place::between;
    std::uint64_t number_ = 0;
};

/// The pairs of a request's application/x-www-form-urlencoded body (WHATWG URL, section 5.1), in
/// their order, as they arrive.
///
/// Thread safety: only on the thread of the request's connection. One task at a time may read.
class UrlencodedForm {
public:
    struct Pair {
        std::string name;
        std::string value;
    };

    /// As `MultipartForm`.
    explicit UrlencodedForm(Request& request, const FormLimits& limits = {});
    UrlencodedForm(const UrlencodedForm&) = delete;
    UrlencodedForm& operator=(const UrlencodedForm&) = delete;

    /// Waits for the next pair. Empty at the end of the form. Errors: those of `Request::read`, and
    /// `FormError`. They are final. A cancelled call loses nothing. Throws `std::bad_alloc`.
    [[nodiscard]] Task<Result<std::optional<Pair>>> next();

private:
    Request& request_;
    codec::http::UrlencodedDecoder decoder_;
    std::error_code error_;
    std::string_view rest_;
    bool received_all_ = false;
};

/// A whole form in memory.
class Form {
public:
    struct Field {
        std::string name;
        std::string value;
        std::optional<std::string> file_name{}; ///< of a file: as the client has sent it
        std::string content_type = "text/plain";
    };

    /// The first field of this name. Null if there is none.
    [[nodiscard]] const Field* find(std::string_view name) const noexcept;
    /// The value of the first field of this name.
    [[nodiscard]] std::optional<std::string_view> value(std::string_view name) const noexcept;

    /// All fields in their order. A name may come more than once.
    [[nodiscard]] const std::vector<Field>& fields() const noexcept { return fields_; }
    void add(Field field) { fields_.push_back(std::move(field)); }

private:
    std::vector<Field> fields_;
};

/// Reads a form of either type into memory. `FormLimits::value` bounds files too. Errors: those of
/// `Request::read`, and `FormError`: `unsupported_type` for another Content-Type, or none.
/// Cancellation: what was read is lost. Throws `std::bad_alloc`.
[[nodiscard]] Task<Result<Form>> read_form(Request& request, FormLimits limits = {});

} // namespace penstock::http

namespace penstock::codec::http {

/// Makes `result.error() == http::FormError::truncated` work.
[[nodiscard]] inline std::error_code make_error_code(FormError error) noexcept {
    return {static_cast<int>(error), penstock::http::form_category()};
}

} // namespace penstock::codec::http

template <> struct std::is_error_code_enum<penstock::codec::http::FormError> : std::true_type {};
