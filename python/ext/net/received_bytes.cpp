#include "net/received_bytes.hpp"

#include "net/read_buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/ioctl.h>
#include <sys/socket.h>

namespace penstock::python {

namespace {

/// Reads of at least this size are received in place. For smaller ones the interpreter's allocator
/// is cheap enough.
constexpr std::size_t in_place_from = 512;

constexpr std::size_t granularity = 512;

/// Makes a bytes object without other references, `size` bytes long.
void set_size(PyObject* bytes, std::size_t size) noexcept {
    Py_SET_SIZE(reinterpret_cast<PyVarObject*>(bytes), static_cast<Py_ssize_t>(size));
    PyBytes_AS_STRING(bytes)[size] = '\0';
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    reinterpret_cast<PyBytesObject*>(bytes)->ob_shash = -1;
#pragma GCC diagnostic pop
}

/// Gives the loop's spare object a capacity that fits reads of about `hint` bytes.
bool prepare_spare(LoopObject* loop, std::size_t hint) noexcept {
    const std::size_t wanted = (hint + granularity - 1) / granularity * granularity;
    if (loop->spare_bytes != nullptr &&
        (loop->spare_capacity < wanted || loop->spare_capacity > 2 * wanted)) {
        Py_CLEAR(loop->spare_bytes);
    }
    if (loop->spare_bytes == nullptr) {
        loop->spare_bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(wanted));
        loop->spare_capacity = wanted;
    }
    return loop->spare_bytes != nullptr;
}

} // namespace

ReceivedBytes::ReceivedBytes(LoopObject* loop, int fd, std::size_t hint) noexcept
    : loop_(loop), hint_(hint) {
    if (hint < in_place_from) {
        receive_and_copy(fd);
    } else if (prepare_spare(loop, hint)) {
        receive_in_place(fd);
    } else {
        // The shared buffer is not used instead: the little memory that is left is needed to report
        // this error.
        count_ = 1;
    }
}

ReceivedBytes::~ReceivedBytes() {
    if (data_ != nullptr && capacity_ > 0 && Py_REFCNT(data_) == 1 &&
        loop_->spare_bytes == nullptr) {
        loop_->spare_bytes = data_;
        loop_->spare_capacity = capacity_;
        return;
    }
    Py_XDECREF(data_);
}

void ReceivedBytes::receive_and_copy(int fd) noexcept {
    const ReadBuffer buffer(loop_);
    if (buffer.data() == nullptr) {
        PyErr_NoMemory();
        count_ = 1;
        return;
    }
    count_ = ::recv(fd, buffer.data(), ReadBuffer::size, 0);
    error_ = count_ < 0 ? errno : 0;
    if (count_ > 0) {
        data_ = PyBytes_FromStringAndSize(buffer.data(), count_);
    }
}

void ReceivedBytes::receive_in_place(int fd) noexcept {
    const std::size_t capacity = loop_->spare_capacity;
    // Rejected: readv with the shared buffer behind the spare. It cost every read more than the
    // rare second call.
    count_ = ::recv(fd, PyBytes_AS_STRING(loop_->spare_bytes), capacity, 0);
    error_ = count_ < 0 ? errno : 0;
    if (count_ <= 0) {
        return;
    }
    const auto size = static_cast<std::size_t>(count_);
    if (size < capacity / 2) {
        data_ = PyBytes_FromStringAndSize(PyBytes_AS_STRING(loop_->spare_bytes), count_);
        return;
    }
    data_ = std::exchange(loop_->spare_bytes, nullptr);
    capacity_ = capacity;
    if (size == capacity && size < LoopObject::read_buffer_size) {
        receive_the_rest(fd);
    }
    set_size(data_, static_cast<std::size_t>(count_));
}

void ReceivedBytes::receive_the_rest(int fd) noexcept {
    // Asked first: a second recv that fails would take the socket's error with it.
    int more = 0;
    if (::ioctl(fd, FIONREAD, &more) != 0 || more <= 0) {
        return;
    }
    const std::size_t capacity =
        std::min(capacity_ + static_cast<std::size_t>(more), LoopObject::read_buffer_size);
    PyObject* whole = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(capacity));
    if (whole == nullptr) {
        PyErr_Clear(); // the poller reports the rest again
        return;
    }
    std::memcpy(PyBytes_AS_STRING(whole), PyBytes_AS_STRING(data_), capacity_);
    const ssize_t count = ::recv(fd, PyBytes_AS_STRING(whole) + capacity_, capacity - capacity_, 0);
    count_ += std::max<ssize_t>(count, 0);
    Py_SETREF(data_, whole);
    capacity_ = capacity;
}

} // namespace penstock::python
