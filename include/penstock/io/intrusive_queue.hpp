#pragma once

namespace penstock::io {

/// A singly linked queue, first in, first out, through a `next` pointer that lives in the element.
///
/// Why not `IntrusiveList`: ready work only enters and leaves at the ends. One pointer instead of
/// two saves 8 bytes in each timer, handle and operation of a coroutine, and two writes for each
/// scheduled callback.
///
/// The caller owns the elements; the queue never allocates. An element is in at most one
/// queue at a time. Not thread safe.
template <typename T, T* T::* Next> class IntrusiveQueue {
public:
    IntrusiveQueue() = default;
    IntrusiveQueue(const IntrusiveQueue&) = delete;
    IntrusiveQueue& operator=(const IntrusiveQueue&) = delete;

    IntrusiveQueue(IntrusiveQueue&& other) noexcept : head_(other.head_), tail_(other.tail_) {
        other.head_ = other.tail_ = nullptr;
    }

    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }

    void push_back(T& item) noexcept {
        item.*Next = nullptr;
        if (tail_ != nullptr) {
            tail_->*Next = &item;
        } else {
            head_ = &item;
        }
        tail_ = &item;
    }

    void push_front(T& item) noexcept {
        item.*Next = head_;
        head_ = &item;
        if (tail_ == nullptr) {
            tail_ = &item;
        }
    }

    /// Removes and returns the oldest element, or null.
    T* pop_front() noexcept {
        T* item = head_;
        if (item != nullptr) {
            head_ = item->*Next;
            if (head_ == nullptr) {
                tail_ = nullptr;
            }
            item->*Next = nullptr;
        }
        return item;
    }

    /// Moves all of `other` behind the last element.
    void append(IntrusiveQueue& other) noexcept {
        if (other.empty()) {
            return;
        }
        if (tail_ != nullptr) {
            tail_->*Next = other.head_;
        } else {
            head_ = other.head_;
        }
        tail_ = other.tail_;
        other.head_ = other.tail_ = nullptr;
    }

    /// Moves all of `other` before the first element.
    void prepend(IntrusiveQueue& other) noexcept {
        if (other.empty()) {
            return;
        }
        other.tail_->*Next = head_;
        if (tail_ == nullptr) {
            tail_ = other.tail_;
        }
        head_ = other.head_;
        other.head_ = other.tail_ = nullptr;
    }

    /// Calls `visit(item)` for each element, oldest first, until it returns something other than 0,
    /// which is then returned.
    template <typename Visit> int visit_all(Visit&& visit) const {
        for (T* item = head_; item != nullptr; item = item->*Next) {
            if (const int result = visit(*item)) {
                return result;
            }
        }
        return 0;
    }

private:
    T* head_ = nullptr;
    T* tail_ = nullptr;
};

} // namespace penstock::io
