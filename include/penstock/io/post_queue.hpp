#pragma once

#include <atomic>
#include <type_traits>

namespace penstock::io {

/// Hands elements from any number of threads to one: lock-free, first in, first out, through a
/// pointer that lives in the element.
///
/// `Next` is a pointer to that member, or a function object that goes from an element to a
/// reference to it. The list that the elements are moved to may use the same pointer.
///
/// Producers push onto a stack (one compare-and-swap); the consumer takes the whole stack (one
/// exchange) and reverses it. Single elements are never popped, so there is no ABA problem.
/// Rejected: a queue with a tail that producers exchange (Vyukov): a producer that is preempted
/// between its two writes hides everything behind it from the consumer.
///
/// `push` and `empty` are sequentially consistent with each other and with the user's own flags: a
/// consumer that sets "about to sleep" and then finds the queue empty, and a producer that pushes
/// and then looks at that flag, cannot miss each other. What a producer wrote before `push` is
/// visible to the consumer after `move_to`.
///
/// The caller owns the elements. From `push` on they belong to the consumer.
template <typename T, auto Next> class PostQueue {
public:
    PostQueue() = default;
    PostQueue(const PostQueue&) = delete;
    PostQueue& operator=(const PostQueue&) = delete;

    /// Any thread. True when the queue was empty: the consumer has to be woken once for all
    /// elements that follow until it takes them.
    bool push(T& element) noexcept {
        T* newest = newest_.load(std::memory_order_relaxed);
        do {
            next_of(element) = newest;
        } while (!newest_.compare_exchange_weak(newest, &element, std::memory_order_seq_cst,
                                                std::memory_order_relaxed));
        return newest == nullptr;
    }

    /// Any thread; pushes may come at any time.
    [[nodiscard]] bool empty() const noexcept {
        return newest_.load(std::memory_order_seq_cst) == nullptr;
    }

    /// The consumer: appends all elements to `list` (an `IntrusiveQueue` or `IntrusiveList`),
    /// oldest first.
    template <typename List> void move_to(List& list) noexcept {
        if (newest_.load(std::memory_order_relaxed) == nullptr) {
            return; // an exchange would take the cache line from the producers
        }
        T* newest = newest_.exchange(nullptr, std::memory_order_acquire);
        List oldest_first;
        while (newest != nullptr) {
            T* older = next_of(*newest);
            oldest_first.push_front(*newest);
            newest = older;
        }
        list.append(oldest_first);
    }

private:
    static T*& next_of(T& element) noexcept {
        if constexpr (std::is_member_object_pointer_v<decltype(Next)>) {
            return element.*Next;
        } else {
            return Next(element);
        }
    }

    std::atomic<T*> newest_{nullptr};
};

} // namespace penstock::io
