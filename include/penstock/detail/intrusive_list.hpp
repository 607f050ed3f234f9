#pragma once

namespace penstock::detail {

/// A base for what stands in an `IntrusiveList`.
struct ListHook {
    ListHook* next = nullptr;
    ListHook* previous = nullptr;
};

/// A list through two pointers that live in the element, which is in at most one such list and can be
/// taken out from wherever it stands. The list owns nothing and never allocates. Not thread safe.
///
/// `T` derives from `ListHook`; it may be incomplete where the list is declared.
template <typename T> class IntrusiveList {
public:
    IntrusiveList() = default;
    IntrusiveList(const IntrusiveList&) = delete;
    IntrusiveList& operator=(const IntrusiveList&) = delete;

    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] T* front() const noexcept { return static_cast<T*>(first_); }
    [[nodiscard]] static T* after(const T& element) noexcept {
        const ListHook& item = element;
        return static_cast<T*>(item.next);
    }

    void push_back(T& element) noexcept {
        ListHook& item = element;
        item.next = nullptr;
        item.previous = last_;
        (last_ != nullptr ? last_->next : first_) = &item;
        last_ = &item;
    }

    void remove(T& element) noexcept {
        ListHook& item = element;
        (item.previous != nullptr ? item.previous->next : first_) = item.next;
        (item.next != nullptr ? item.next->previous : last_) = item.previous;
        item.next = item.previous = nullptr;
    }

    /// Removes and returns the first element, or null.
    T* pop_front() noexcept {
        T* item = front();
        if (item != nullptr) {
            remove(*item);
        }
        return item;
    }

private:
    ListHook* first_ = nullptr;
    ListHook* last_ = nullptr;
};

} // namespace penstock::detail
