#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::http {

/// How values of a type become JSON (RFC 8259) and come from it. <penstock/http/nlohmann_json.hpp>
/// has it for nlohmann's library. For another one, a program specialises it, for one type or for
/// all that the library knows:
///
///     template <Reflected T> struct penstock::http::JsonCodec<T> {
///         static std::string write(const T& value) { return other::to_json(value); }
///         static std::optional<T> read(std::string_view text) {
///             return other::from_json<T>(text);
///         }
///     };
///
/// `read` returns an empty optional for a text that is not JSON, or not a value of the type. An
/// exception of either function counts as the handler's.
template <typename T> struct JsonCodec {};

template <typename T>
concept JsonWritable = requires(const T& value) {
    { JsonCodec<T>::write(value) } -> std::convertible_to<std::string>;
};

template <typename T>
concept JsonReadable = requires(std::string_view text) {
    { JsonCodec<T>::read(text) } -> std::same_as<std::optional<T>>;
};

/// Why a JSON body is refused.
enum class JsonError : std::uint8_t {
    unsupported_type = 1, ///< the Content-Type is neither application/json nor ends with +json: 415
    malformed,            ///< not JSON, or not a value of the wanted type: 400
};

/// The category of `JsonError`, a `RefusalCategory`. Its name is "penstock.http.json".
[[nodiscard]] const std::error_category& json_category() noexcept;

/// Makes `result.error() == http::JsonError::malformed` work.
[[nodiscard]] inline std::error_code make_error_code(JsonError error) noexcept {
    return {static_cast<int>(error), json_category()};
}

/// Whether the request says that its body is JSON (RFC 6839 for "+json").
[[nodiscard]] bool has_json_type(const Request& request) noexcept;

/// Whether arrays and objects of a JSON text are nested deeper than that. The text may come from a
/// client. For libraries that recurse with the depth.
[[nodiscard]] bool is_nested_deeper(std::string_view text, std::size_t most) noexcept;

/// Reads the body as a value. `RouteOptions::body_limit` holds. Errors: those of `Request::read`,
/// and `JsonError`. Cancellation: what was read is lost. Throws `std::bad_alloc`.
template <JsonReadable T> [[nodiscard]] Task<Result<T>> read_json(Request& request) {
    if (!has_json_type(request)) {
        co_return failure(make_error_code(JsonError::unsupported_type));
    }
    const std::string text = co_await unwrap(request.text());
    std::optional<T> value = JsonCodec<T>::read(text);
    if (!value) {
        co_return failure(make_error_code(JsonError::malformed));
    }
    co_return std::move(*value);
}

/// Sets a value as the whole body, and the Content-Type. Throws as `Response::body`, and what
/// `JsonCodec<T>::write` throws.
template <JsonWritable T> void write_json(Response& response, const T& value) {
    std::string text = JsonCodec<T>::write(value);
    response.header("Content-Type", "application/json");
    response.body(std::move(text));
}

/// A handler that reads the body as a value and passes it on:
///
///     server.post("/items", http::with_json<Item>(
///                               [&](Request& request, Response& response, Item item) {
///                                   store.add(std::move(item));
///                               }));
///
/// The function returns nothing, or `Task<Result<>>`. A body that is not such a value is answered
/// as an error of `read_json` is.
template <JsonReadable T, typename Function>
    requires std::invocable<Function&, Request&, Response&, T>
[[nodiscard]] auto with_json(Function function) {
    return [function = std::move(function)](Request& request,
                                            Response& response) mutable -> Task<Result<>> {
        T value = co_await unwrap(read_json<T>(request));
        if constexpr (std::is_void_v<std::invoke_result_t<Function&, Request&, Response&, T>>) {
            function(request, response, std::move(value));
            co_return Result<>();
        } else {
            co_return co_await function(request, response, std::move(value));
        }
    };
}

/// A handler that sends the value that the function returns:
///
///     server.get("/items/{id}", http::as_json([&](Request& request) -> Item {
///                    return store.at(request.parameter("id"));
///                }));
template <typename Function>
    requires JsonWritable<std::remove_cvref_t<std::invoke_result_t<Function&, Request&>>>
[[nodiscard]] auto as_json(Function function) {
    return [function = std::move(function)](Request& request, Response& response) mutable {
        write_json(response, function(request));
    };
}

} // namespace penstock::http

template <> struct std::is_error_code_enum<penstock::http::JsonError> : std::true_type {};
