#include "operation_table.hpp"

#include "buffer_ring.hpp"
#include "intentional_leak.hpp"

#include <algorithm>

namespace penstock::python::uring {

Vectors::~Vectors() {
    for (Py_buffer& view : views) {
        PyBuffer_Release(&view);
    }
}

Holdings::Holdings(Holdings&& other) noexcept {
    *this = std::move(other);
}

Holdings& Holdings::operator=(Holdings&& other) noexcept {
    std::swap(bytes, other.bytes);
    // A Py_buffer may point into itself, but only when an exporter has filled in a one-dimensional
    // shape. Simple buffers, the only kind requested, have no shape.
    std::swap(view, other.view);
    std::swap(vectors, other.vectors);
    return *this;
}

void Holdings::release() noexcept {
    Py_CLEAR(bytes);
    if (view.obj != nullptr) {
        PyBuffer_Release(&view);
    }
    vectors.reset();
}

void Holdings::leak() noexcept {
    mark_intentional_leak(bytes);
    mark_intentional_leak(view.obj);
    mark_intentional_leak(vectors.get());
    bytes = nullptr;
    view = {};
    (void)vectors.release();
}

int Holdings::traverse(visitproc visit, void* arg) const noexcept {
    Py_VISIT(bytes);
    Py_VISIT(view.obj);
    if (vectors) {
        for (const Py_buffer& each : vectors->views) {
            Py_VISIT(each.obj);
        }
    }
    return 0;
}

void drop(Operation&& operation) noexcept {
    Operation dropped = std::move(operation);
    Py_XDECREF(dropped.tag);
    Py_XDECREF(reinterpret_cast<PyObject*>(dropped.buffers));
}

Py_ssize_t small_tag_of(PyObject* tag) noexcept {
    if (!PyLong_CheckExact(tag)) {
        return -1;
    }
    int overflow = 0;
    // In parentheses it is not checked: it runs no code for an exact int, and a lease may be held.
    const long value = (PyLong_AsLongAndOverflow)(tag, &overflow);
    return overflow == 0 ? value : -1;
}

std::uint32_t OperationTable::find_among_others(PyObject* tag, Py_hash_t hash) noexcept {
    // Comparing may run Python code that prepares and completes operations. So each candidate is
    // looked up again by its key and not by an iterator.
    const auto [begin, end] = by_hash_.equal_range(hash);
    if (begin == end) {
        return no_slot;
    }
    std::vector<std::uint64_t> candidates;
    try {
        for (auto each = begin; each != end; ++each) {
            candidates.push_back(key(each->second));
        }
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return no_slot;
    }
    for (const std::uint64_t candidate : candidates) {
        const std::uint32_t slot = slot_of(candidate);
        if (slot == no_slot || slots_[slot].tag == nullptr) {
            continue;
        }
        const Ref other = Ref::borrow(slots_[slot].tag);
        const int equal = PyObject_RichCompareBool(other.get(), tag, Py_EQ);
        if (equal < 0) {
            return no_slot;
        }
        if (equal > 0 && slot_of(candidate) != no_slot) {
            return slot;
        }
    }
    return no_slot;
}

std::uint32_t OperationTable::find(PyObject* tag, Py_hash_t hash) noexcept {
    if (hash >= 0 && static_cast<std::size_t>(hash) < by_small_int_.size()) {
        const std::uint32_t found = by_small_int_[static_cast<std::size_t>(hash)];
        if (found != 0) {
            // A float or a bool that equals an integer has the integer's hash.
            const std::uint64_t candidate = key(found - 1);
            const Ref other = Ref::borrow(slots_[found - 1].tag);
            const int equal =
                small_tag_of(tag) == hash ? 1 : PyObject_RichCompareBool(other.get(), tag, Py_EQ);
            if (equal < 0) {
                return no_slot;
            }
            if (equal > 0 && slot_of(candidate) != no_slot) {
                return found - 1;
            }
        }
    }
    return by_hash_.empty() ? no_slot : find_among_others(tag, hash);
}

bool OperationTable::check_free(PyObject* tag, Py_hash_t& hash) noexcept {
    const Py_ssize_t small = small_tag_of(tag);
    hash = small >= 0 && small < small_tags ? small : PyObject_Hash(tag);
    if (hash == -1 && PyErr_Occurred() != nullptr) {
        return false;
    }
    for (;;) {
        const std::uint64_t listed = tags_listed_;
        if (find(tag, hash) != no_slot) {
            PyErr_Format(
                PyExc_ValueError,
                "user_data %R is in flight already; give each operation its own until its final "
                "completion is taken",
                tag);
            return false;
        }
        if (PyErr_Occurred() != nullptr) {
            return false;
        }
        if (listed == tags_listed_) {
            return true;
        }
        // The comparison has run Python code that prepared operations, one of which may have this
        // tag.
    }
}

std::uint32_t OperationTable::slot_with(PyObject* tag) const noexcept {
    const auto found = std::find_if(slots_.begin(), slots_.end(), [tag](const Operation& each) {
        return each.used && each.tag == tag;
    });
    return found == slots_.end() ? no_slot : static_cast<std::uint32_t>(found - slots_.begin());
}

bool OperationTable::grow() noexcept {
    const std::size_t old_size = slots_.size();
    const std::size_t new_size = std::max<std::size_t>(64, old_size * 2);
    try {
        slots_.resize(new_size);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    for (std::size_t slot = new_size; slot-- > old_size;) {
        slots_[slot].next = first_free_;
        first_free_ = static_cast<std::uint32_t>(slot);
    }
    return true;
}

std::uint32_t OperationTable::add(PyObject* tag, Py_hash_t hash) noexcept {
    if (first_free_ == no_slot && !grow()) {
        return no_slot;
    }
    const std::uint32_t slot = first_free_;
    if (tag != nullptr) {
        const Py_ssize_t small = small_tag_of(tag);
        try {
            if (small >= 0 && small < small_tags) {
                const auto index = static_cast<std::size_t>(small);
                if (index >= by_small_int_.size()) {
                    by_small_int_.resize(std::max(index + 1, by_small_int_.size() * 2));
                }
                by_small_int_[index] = slot + 1;
            } else {
                by_hash_.emplace(hash, slot);
            }
        } catch (const std::bad_alloc&) {
            PyErr_NoMemory();
            return no_slot;
        }
    }
    Operation& operation = slots_[slot];
    first_free_ = operation.next;
    operation.used = true;
    operation.hash = hash;
    operation.tag = Py_XNewRef(tag);
    tags_listed_ += tag != nullptr ? 1 : 0;
    return slot;
}

Operation& OperationTable::start(std::uint32_t slot) noexcept {
    slots_[slot].started = true;
    ++in_flight_;
    return slots_[slot];
}

Operation OperationTable::finish(std::uint32_t slot) noexcept {
    Operation& operation = slots_[slot];
    Operation finished;
    finished.holdings = std::move(operation.holdings);
    finished.buffers = std::exchange(operation.buffers, nullptr);
    operation.done = true;
    --in_flight_;
    return finished;
}

void OperationTable::unlist(std::uint32_t slot) noexcept {
    Operation& operation = slots_[slot];
    if (operation.tag == nullptr) {
        return;
    }
    const Py_ssize_t small = small_tag_of(operation.tag);
    if (small >= 0 && small < small_tags) {
        by_small_int_[static_cast<std::size_t>(small)] = 0;
        return;
    }
    const auto [begin, end] = by_hash_.equal_range(operation.hash);
    for (auto each = begin; each != end; ++each) {
        if (each->second == slot) {
            by_hash_.erase(each);
            break;
        }
    }
}

Operation OperationTable::take(std::uint32_t slot) noexcept {
    Operation& operation = slots_[slot];
    Operation taken = std::move(operation);
    operation = Operation{};
    // 31 bits: the highest bit of user_data marks completions that are not of an operation.
    operation.generation = taken.generation == 0x7FFFFFFF ? 1 : taken.generation + 1;
    operation.next = first_free_;
    first_free_ = slot;
    return taken;
}

Operation OperationTable::remove(std::uint32_t slot) noexcept {
    unlist(slot);
    in_flight_ -= slots_[slot].started && !slots_[slot].done ? 1 : 0;
    return take(slot);
}

void OperationTable::withdraw(std::uint32_t slot) noexcept {
    unlist(slot);
    in_flight_ -= slots_[slot].started && !slots_[slot].done ? 1 : 0;
    slots_[slot].used = false;
    slots_[slot].next = first_withdrawn_;
    first_withdrawn_ = slot;
}

void OperationTable::drop_withdrawn() noexcept {
    // Releasing an operation may withdraw others, or drop all of them.
    while (first_withdrawn_ != no_slot) {
        const std::uint32_t slot = first_withdrawn_;
        first_withdrawn_ = slots_[slot].next;
        drop(take(slot));
    }
}

void OperationTable::leak() noexcept {
    for (Operation& operation : slots_) {
        mark_intentional_leak(operation.tag);
        mark_intentional_leak(operation.buffers);
        operation.holdings.leak();
    }
    slots_.clear();
    by_small_int_.clear();
    by_hash_.clear();
    first_free_ = no_slot;
    first_withdrawn_ = no_slot;
    in_flight_ = 0;
}

int OperationTable::traverse(visitproc visit, void* arg) const noexcept {
    for (const Operation& operation : slots_) { // a free slot owns nothing
        Py_VISIT(operation.tag);
        Py_VISIT(reinterpret_cast<PyObject*>(operation.buffers));
        if (const int stop = operation.holdings.traverse(visit, arg); stop != 0) {
            return stop;
        }
    }
    return 0;
}

} // namespace penstock::python::uring
