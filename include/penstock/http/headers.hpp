#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/codec/http/fields.hpp>

namespace penstock::http {

/// A field of a message: a name and a value, as views.
using Field = codec::http::Field;
/// The fields of a received message, as views.
using Fields = codec::http::Fields;

/// The header or trailer fields of a message in their order (RFC 9110, section 5). Owns its text.
/// Names are compared without regard to case, and written as they were given.
///
///     http::Headers headers{{"Content-Type", "text/plain"}};
///     headers.add("Set-Cookie", "a=1");
///     headers.add("Set-Cookie", "b=2");
///
/// Functions that add a field throw `std::invalid_argument` for a name that is not a token, or a
/// value with a control character other than a tab. So a value from outside cannot begin another
/// field. They throw `std::length_error` beyond 4 GiB, and `std::bad_alloc`. After an exception the
/// fields are unchanged. White space around a value is dropped.
///
/// Thread safety: that of a standard container.
class Headers {
public:
    class Iterator;

    Headers() = default;
    Headers(std::initializer_list<std::pair<std::string_view, std::string_view>> fields);
    /// Copies the fields of a received message.
    explicit Headers(const Fields& fields);

    /// Appends a field. There may be others with the same name.
    void add(std::string_view name, std::string_view value);

    /// Replaces all fields with this name by one at the end. The arguments may be views of this
    /// object.
    void set(std::string_view name, std::string_view value);

    /// Removes all fields with this name. Returns how many there were.
    std::size_t remove(std::string_view name) noexcept;

    /// Removes all fields and keeps the memory.
    void clear() noexcept;

    /// The value of the first field with this name. The view is valid until the next change.
    [[nodiscard]] std::optional<std::string_view> find(std::string_view name) const noexcept;

    [[nodiscard]] bool contains(std::string_view name) const noexcept {
        return find(name).has_value();
    }

    /// How many fields have this name.
    [[nodiscard]] std::size_t count(std::string_view name) const noexcept;

    /// Whether a comma-separated list, possibly spread over several fields with this name, has the
    /// token, in any case: `has_token("Connection", "close")`.
    [[nodiscard]] bool has_token(std::string_view name, std::string_view token) const noexcept;

    [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
    [[nodiscard]] bool empty() const noexcept { return places_.empty(); }

    /// The field at a position. The views are valid until the next change.
    [[nodiscard]] Field operator[](std::size_t index) const noexcept;

    [[nodiscard]] Iterator begin() const noexcept;
    [[nodiscard]] Iterator end() const noexcept;

    /// All fields as they are sent: "name: value", CRLF, for each.
    [[nodiscard]] std::string_view text() const noexcept { return text_; }

private:
    /// A line of the text. Positions instead of views, because the text moves.
    struct Place {
        std::uint32_t begin = 0;
        std::uint32_t name_size = 0;
        std::uint32_t value_size = 0;
        bool removed = false; ///< only while fields are removed

        [[nodiscard]] std::size_t size() const noexcept {
            return std::size_t{name_size} + value_size + 4;
        }
    };

    std::size_t remove_before(std::size_t last, std::string_view name) noexcept;

    std::string text_;
    std::vector<Place> places_;
};

class Headers::Iterator {
public:
    using iterator_concept = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = Field;

    Iterator() = default;
    Iterator(const Headers& headers, std::size_t index) noexcept
        : headers_(&headers), index_(index) {}

    [[nodiscard]] Field operator*() const noexcept { return (*headers_)[index_]; }
    Iterator& operator++() noexcept {
        ++index_;
        return *this;
    }
    Iterator operator++(int) noexcept {
        Iterator before = *this;
        ++index_;
        return before;
    }
    [[nodiscard]] bool operator==(const Iterator& other) const noexcept {
        return index_ == other.index_;
    }

private:
    const Headers* headers_ = nullptr;
    std::size_t index_ = 0;
};

inline Headers::Iterator Headers::begin() const noexcept {
    return {*this, 0};
}

inline Headers::Iterator Headers::end() const noexcept {
    return {*this, size()};
}

} // namespace penstock::http
