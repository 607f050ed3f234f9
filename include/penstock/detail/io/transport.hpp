#pragma once

#include <concepts>
#include <memory>
#include <type_traits>

#include <penstock/net/stream_socket.hpp>

namespace penstock::detail {

/// A layer that stays where it is: a `next_layer` of another kind shows no socket.
template <typename T>
concept LayerBelow = std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;

/// The socket at the bottom of a stream: the stream itself, or what is below it by way of
/// `next_layer` and `transport`. Null if there is none, or a layer does not show it.
template <typename S> [[nodiscard]] net::StreamSocket* transport_of(S& stream) noexcept {
    if constexpr (std::derived_from<S, net::StreamSocket>) {
        return std::addressof(stream);
    } else if constexpr (requires {
                             { stream.transport() } -> std::same_as<net::StreamSocket*>;
                         }) {
        return stream.transport();
    } else if constexpr (requires {
                             { stream.next_layer() } -> LayerBelow;
                         }) {
        return transport_of(stream.next_layer());
    } else {
        return nullptr;
    }
}

} // namespace penstock::detail
