#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <type_traits>

namespace penstock::io {

namespace detail {

template <typename T> struct MemberPointer;

template <typename O, typename M> struct MemberPointer<M O::*> {
    using Owner = O;
    using Member = M;
};

} // namespace detail

/// The object that `member` is a part of: `owner_of<&Handle::timer>(timer)` is the `Handle` whose
/// `timer` it is. For callbacks that get the embedded struct and need its owner.
///
/// `member` must be that member of a live object, and no other object of its type. Constness
/// carries over. Works for private and non-standard-layout owners, which `offsetof` does not
/// promise. A member of a base class yields the base, which `static_cast` converts further.
///
/// The offset is the pointer to member itself: the Itanium C++ ABI (2.3.1), which every compiler
/// for Linux follows, represents a pointer to a data member as its offset. Compiles to a
/// subtraction of a constant. Not `constexpr`: a constant expression may neither look into a
/// pointer to member nor go from a member to its owner.
///
/// Rejected: `reinterpret_cast` of a first member (breaks silently when a member is put before it),
/// `offsetof` (a macro; conditionally supported for most of the structs here), and storing a
/// pointer to the owner (8 bytes for each embedded struct).
template <auto Member, typename M>
    requires std::is_member_object_pointer_v<decltype(Member)> &&
             std::same_as<std::remove_const_t<M>,
                          typename detail::MemberPointer<decltype(Member)>::Member>
[[nodiscard]] auto& owner_of(M& member) noexcept {
    using Owner = typename detail::MemberPointer<decltype(Member)>::Owner;
    using Result = std::conditional_t<std::is_const_v<M>, const Owner, Owner>;
    using Byte = std::conditional_t<std::is_const_v<M>, const std::byte, std::byte>;
    static_assert(sizeof Member == sizeof(std::ptrdiff_t));
    const auto offset = std::bit_cast<std::ptrdiff_t>(Member);
    return *reinterpret_cast<Result*>(reinterpret_cast<Byte*>(&member) - offset);
}

} // namespace penstock::io
