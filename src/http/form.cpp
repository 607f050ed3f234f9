#include <penstock/http/form.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include <penstock/codec/http/fields.hpp>
#include <penstock/http/refusal.hpp>
#include <penstock/io/never_destroyed.hpp>
#include <penstock/task/unwrap.hpp>

#include "codec/http/parameters.hpp"

namespace penstock::http {

namespace {

class Category final : public RefusalCategory {
public:
    [[nodiscard]] const char* name() const noexcept override { return "penstock.http.form"; }

    [[nodiscard]] std::string message(int value) const override {
        return std::string(codec::http::describe(static_cast<FormError>(value)));
    }

    [[nodiscard]] Status status_for(int value) const noexcept override {
        return Status(codec::http::status_for(static_cast<FormError>(value)));
    }
};

std::string_view as_text(Bytes bytes) noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view content_type_of(const Request& request) noexcept {
    return request.header("Content-Type").value_or(std::string_view());
}

bool has_media_type(const Request& request, std::string_view type) noexcept {
    const codec::http::ParameterCursor cursor(content_type_of(request),
                                              codec::http::Backslash::escapes);
    return codec::http::equal_ignoring_case(cursor.subject(), type);
}

bool is_multipart(const Request& request) noexcept {
    return has_media_type(request, "multipart/form-data");
}

bool is_urlencoded(const Request& request) noexcept {
    return has_media_type(request, "application/x-www-form-urlencoded");
}

} // namespace

const std::error_category& form_category() noexcept {
    static const io::NeverDestroyed<Category> category;
    return *category;
}

MultipartForm::MultipartForm(Request& request, const FormLimits& limits)
    : request_(request),
      decoder_(codec::http::multipart_boundary(content_type_of(request)).value_or(""), limits) {
    if (!is_multipart(request)) {
        error_ = FormError::unsupported_type;
    } else if (!codec::http::multipart_boundary(content_type_of(request))) {
        error_ = FormError::invalid_boundary;
    }
}

Task<Result<std::optional<MultipartForm::Part>>> MultipartForm::next() {
    content_ = {};
    while (place_ == Place::in_part) { // the rest of the part before
        (void)co_await unwrap(advance());
        content_ = {};
    }
    if (!co_await unwrap(advance())) {
        co_return std::nullopt;
    }
    co_return Part(*this, ++number_);
}

/// To the next event: the beginning of a part, some content, or the end of a part. False at the end
/// of the form.
Task<Result<bool>> MultipartForm::advance() {
    using Kind = codec::http::MultipartDecoder::Event::Kind;
    while (!error_ && place_ != Place::ended) {
        const codec::http::MultipartDecoder::Event event = decoder_.next(rest_);
        switch (event.kind) {
        case Kind::part:
            place_ = Place::in_part;
            co_return true;
        case Kind::data:
            content_ = event.data;
            co_return true;
        case Kind::part_end:
            place_ = Place::between;
            co_return true;
        case Kind::failed:
            error_ = decoder_.error();
            continue;
        case Kind::incomplete:
            break;
        }
        const Bytes received = co_await unwrap(request_.receive());
        rest_ = as_text(received);
        if (received.empty()) {
            place_ = Place::ended;
            if (!decoder_.finish()) {
                error_ = decoder_.error();
            }
        }
    }
    if (error_) {
        co_return failure(error_);
    }
    co_return false;
}

const codec::http::FormPart& MultipartForm::Part::fields() const noexcept {
    return form_->decoder_.part();
}

void MultipartForm::Part::require_current() const {
    if (number_ != form_->number_) {
        throw std::logic_error("a part of a form is read after the form's next part: read it "
                               "before calling next");
    }
}

Task<Result<Bytes>> MultipartForm::Part::receive() {
    require_current();
    while (form_->content_.empty() && form_->place_ == Place::in_part) {
        (void)co_await unwrap(form_->advance());
    }
    co_return Bytes(std::exchange(form_->content_, {}));
}

Task<Result<std::size_t>> MultipartForm::Part::read(MutableBytes into) {
    if (into.empty()) {
        co_return 0;
    }
    const Bytes received = co_await unwrap(receive());
    const std::size_t size = std::min(into.size(), received.size());
    if (size > 0) {
        std::memcpy(into.data(), received.data(), size);
    }
    form_->content_ = as_text(received).substr(size);
    co_return size;
}

Task<Result<std::string>> MultipartForm::Part::text() {
    std::string text;
    for (;;) {
        const Bytes received = co_await unwrap(receive());
        if (received.empty()) {
            co_return text;
        }
        text += as_text(received);
    }
}

UrlencodedForm::UrlencodedForm(Request& request, const FormLimits& limits)
    : request_(request), decoder_(limits) {
    if (!is_urlencoded(request)) {
        error_ = FormError::unsupported_type;
    }
}

Task<Result<std::optional<UrlencodedForm::Pair>>> UrlencodedForm::next() {
    using Kind = codec::http::UrlencodedDecoder::Event::Kind;
    while (!error_) {
        const codec::http::UrlencodedDecoder::Event event =
            received_all_ ? decoder_.finish() : decoder_.next(rest_);
        switch (event.kind) {
        case Kind::pair:
            co_return Pair{.name = std::string(event.name), .value = std::string(event.value)};
        case Kind::end:
            co_return std::nullopt;
        case Kind::failed:
            error_ = decoder_.error();
            continue;
        case Kind::incomplete:
            break;
        }
        rest_ = as_text(co_await unwrap(request_.receive()));
        received_all_ = rest_.empty();
    }
    co_return failure(error_);
}

const Form::Field* Form::find(std::string_view name) const noexcept {
    const auto found = std::ranges::find(fields_, name, &Field::name);
    return found == fields_.end() ? nullptr : &*found;
}

std::optional<std::string_view> Form::value(std::string_view name) const noexcept {
    const Field* const field = find(name);
    return field == nullptr ? std::nullopt : std::optional<std::string_view>(field->value);
}

Task<Result<Form>> read_form(Request& request, FormLimits limits) {
    Form form;
    if (is_multipart(request)) {
        limits.file = std::min(limits.file, limits.value);
        MultipartForm parts(request, limits);
        while (std::optional<MultipartForm::Part> part = co_await unwrap(parts.next())) {
            Form::Field field{.name = std::string(part->name()),
                              .value = {},
                              .file_name = std::nullopt,
                              .content_type = std::string(part->content_type())};
            if (const std::optional<std::string_view> file_name = part->file_name()) {
                field.file_name.emplace(*file_name);
            }
            field.value = co_await unwrap(part->text());
            form.add(std::move(field));
        }
    } else {
        UrlencodedForm pairs(request, limits);
        while (std::optional<UrlencodedForm::Pair> pair = co_await unwrap(pairs.next())) {
            form.add({.name = std::move(pair->name), .value = std::move(pair->value)});
        }
    }
    co_return form;
}

} // namespace penstock::http
