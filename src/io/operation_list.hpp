#pragma once

#include <penstock/io/file_operation.hpp>

namespace penstock::io {

/// A first-in-first-out list of operations from whose middle one can be taken, as a cancel does.
class OperationList {
public:
    [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }

    /// The oldest one, or null.
    [[nodiscard]] FileOperation* front() const noexcept { return head_; }

    void push_back(FileOperation& operation) noexcept {
        operation.engine.next = nullptr;
        operation.engine.previous = tail_;
        (tail_ != nullptr ? tail_->engine.next : head_) = &operation;
        tail_ = &operation;
    }

    void push_front(FileOperation& operation) noexcept {
        operation.engine.previous = nullptr;
        operation.engine.next = head_;
        (head_ != nullptr ? head_->engine.previous : tail_) = &operation;
        head_ = &operation;
    }

    void remove(FileOperation& operation) noexcept {
        FileOperation* next = operation.engine.next;
        FileOperation* previous = operation.engine.previous;
        (previous != nullptr ? previous->engine.next : head_) = next;
        (next != nullptr ? next->engine.previous : tail_) = previous;
        operation.engine.next = operation.engine.previous = nullptr;
    }

    FileOperation* pop_front() noexcept {
        FileOperation* operation = head_;
        if (operation != nullptr) {
            remove(*operation);
        }
        return operation;
    }

    /// Moves all of `other` behind the last one.
    void append(OperationList& other) noexcept {
        if (other.head_ == nullptr) {
            return;
        }
        other.head_->engine.previous = tail_;
        (tail_ != nullptr ? tail_->engine.next : head_) = other.head_;
        tail_ = other.tail_;
        other.head_ = other.tail_ = nullptr;
    }

private:
    FileOperation* head_ = nullptr;
    FileOperation* tail_ = nullptr;
};

} // namespace penstock::io
