#pragma once

#include <type_traits>

namespace penstock::io {

/// The links of a `T` in an `IntrusiveList<T>`: a base class of `T`, or a member of it.
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): a member as well as a base
template <typename T> struct ListHook {
    T* next = nullptr;
    T* previous = nullptr;
};

/// A doubly linked list through pointers that live in the elements. Any element can be removed in
/// constant time.
///
/// `Hook` says where an element has its `ListHook<T>`: null when `T` derives from it (`T` may then
/// be incomplete where the list is declared), a pointer to member, or a function object that goes
/// from an element to its hook, const or not.
///
/// The caller owns the elements; the list never allocates. An element is in at most one list
/// for each hook. Memory filled with zeros is an empty list. Not thread safe.
///
/// Where elements only enter and leave at the ends, `IntrusiveQueue` needs half the memory.
template <typename T, auto Hook = nullptr> class IntrusiveList {
public:
    IntrusiveList() = default;
    IntrusiveList(const IntrusiveList&) = delete;
    IntrusiveList& operator=(const IntrusiveList&) = delete;

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

    /// The first element, or null.
    [[nodiscard]] T* front() const noexcept { return first_; }

    /// The element behind this one, or null.
    [[nodiscard]] static T* after(const T& element) noexcept { return hook_of(element).next; }

    void push_back(T& element) noexcept {
        ListHook<T>& hook = hook_of(element);
        hook.next = nullptr;
        hook.previous = last_;
        (last_ != nullptr ? hook_of(*last_).next : first_) = &element;
        last_ = &element;
    }

    void push_front(T& element) noexcept {
        ListHook<T>& hook = hook_of(element);
        hook.previous = nullptr;
        hook.next = first_;
        (first_ != nullptr ? hook_of(*first_).previous : last_) = &element;
        first_ = &element;
    }

    /// Takes out an element of this list.
    void remove(T& element) noexcept {
        ListHook<T>& hook = hook_of(element);
        (hook.previous != nullptr ? hook_of(*hook.previous).next : first_) = hook.next;
        (hook.next != nullptr ? hook_of(*hook.next).previous : last_) = hook.previous;
        hook.next = hook.previous = nullptr;
    }

    /// Removes and returns the first element, or null.
    T* pop_front() noexcept {
        T* element = first_;
        if (element != nullptr) {
            remove(*element);
        }
        return element;
    }

    /// Moves all of `other` behind the last element.
    void append(IntrusiveList& other) noexcept {
        if (other.empty()) {
            return;
        }
        hook_of(*other.first_).previous = last_;
        (last_ != nullptr ? hook_of(*last_).next : first_) = other.first_;
        last_ = other.last_;
        other.first_ = other.last_ = nullptr;
    }

private:
    /// Deduces the element's constness.
    template <typename Element> static auto& hook_of(Element& element) noexcept {
        if constexpr (std::is_null_pointer_v<decltype(Hook)>) {
            using Base =
                std::conditional_t<std::is_const_v<Element>, const ListHook<T>, ListHook<T>>;
            return static_cast<Base&>(element);
        } else if constexpr (std::is_member_object_pointer_v<decltype(Hook)>) {
            return element.*Hook;
        } else {
            return Hook(element);
        }
    }

    T* first_ = nullptr;
    T* last_ = nullptr;
};

} // namespace penstock::io
