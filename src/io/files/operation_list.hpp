#pragma once

#include <penstock/io/files/file_operation.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/post_queue.hpp>

namespace penstock::io {

// Operations are linked through the part of them that belongs to the engine.

struct EngineHook {
    template <typename Operation> auto& operator()(Operation& operation) const noexcept {
        return operation.engine.hook;
    }
};

struct NextOperation {
    FileOperation*& operator()(FileOperation& operation) const noexcept {
        return operation.engine.hook.next;
    }
};

/// Operations in the order in which they were added.
using OperationList = IntrusiveList<FileOperation, EngineHook{}>;

/// Operations that worker threads pass to the loop's thread.
using OperationPosts = PostQueue<FileOperation, NextOperation{}>;

} // namespace penstock::io
