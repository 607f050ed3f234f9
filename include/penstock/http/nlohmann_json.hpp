#pragma once

/// JSON by nlohmann's library (Debian: `nlohmann-json3-dev`), which <penstock/http.hpp> does not
/// need:
///
///     const auto value = co_await unwrap(http::read_json<nlohmann::json>(request));
///     http::write_json(response, nlohmann::json{{"sum", 3}});

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <penstock/http/json.hpp>

namespace penstock::http {

/// How nlohmann's library reads and writes a type that it knows. For a type of the program:
///
///     template <> struct penstock::http::JsonCodec<Item> : penstock::http::NlohmannCodec<Item> {};
template <typename T> struct NlohmannCodec {
    /// How deep arrays and objects may be nested. The library writes by recursion, which a value
    /// that is nested deeply enough would take beyond the end of the stack.
    static constexpr std::size_t most_nested = 256;

    /// Throws `nlohmann::json::type_error` for a text that is not UTF-8.
    static std::string write(const T& value) { return nlohmann::json(value).dump(); }

    static std::optional<T> read(std::string_view text) {
        if (is_nested_deeper(text, most_nested)) {
            return std::nullopt;
        }
        const nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
        if (value.is_discarded()) {
            return std::nullopt;
        }
        try {
            return value.template get<T>();
        } catch (const nlohmann::json::exception&) { // of another form
            return std::nullopt;
        }
    }
};

template <> struct JsonCodec<nlohmann::json> : NlohmannCodec<nlohmann::json> {
    static std::string write(const nlohmann::json& value) { return value.dump(); }

    static std::optional<nlohmann::json> read(std::string_view text) {
        if (is_nested_deeper(text, most_nested)) {
            return std::nullopt;
        }
        nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
        return value.is_discarded() ? std::nullopt : std::optional(std::move(value));
    }
};

} // namespace penstock::http
